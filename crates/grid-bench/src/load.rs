//! Submits the jobs of a benchmark and waits for their ends.
//!
//! The ends come from the event stream: polling would add load.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use grid_client::{Client, EventStream, EventsQuery};
use grid_types::{JobStatus, Outcome};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";

/// The action of each step of a measured job. The sessions of a swarm only pretend to run it: the controller is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// May run again.
    Pure,
    /// Its start is committed before it runs (W3).
    Once,
    /// Starts a program, which ends at once.
    Program,
}

impl Action {
    fn tasks(self, steps: u32) -> Vec<Value> {
        let task = match self {
            Self::Pure => json!({"backend": "ping", "action": "echo"}),
            Self::Program => json!({"backend": "test", "action": "sleep", "params": {"duration": "0s"}}),
            Self::Once => json!({"backend": "test", "action": "record", "params": {"path": "/dev/null"}}),
        };
        vec![task; usize::try_from(steps).unwrap_or(usize::MAX)]
    }
}

/// `steps` barriers over every worker.
pub fn barriers(action: Action, steps: u32) -> Value {
    json!({"target": "all", "tasks": action.tasks(steps)})
}

/// One pipeline of `steps` steps; every worker runs through it at its own pace.
pub fn pipeline(action: Action, steps: u32) -> Value {
    json!({"target": "all", "tasks": [{"tasks": action.tasks(steps)}]})
}

/// Submits jobs and follows their ends.
pub struct Load<'a> {
    client: &'a Client,
    events: EventStream<'a>,
}

impl<'a> Load<'a> {
    pub async fn new(client: &'a Client) -> anyhow::Result<Self> {
        let query = EventsQuery { kinds: vec!["JobEnded".to_owned()], ..EventsQuery::default() };
        let events = client.listen(query, None).await?;
        Ok(Self { client, events })
    }

    /// Submits them all, then waits until every one of them has ended.
    pub async fn run(&mut self, jobs: &[Value]) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::with_capacity(jobs.len());
        for job in jobs {
            ids.push(self.client.submit(NAMESPACE, job).await?.id);
        }
        let mut open: BTreeSet<&String> = ids.iter().collect();
        while !open.is_empty() {
            if let Some(job) = self.events.next().await?.job {
                open.remove(&job);
            }
        }
        Ok(ids)
    }

    /// Checks that a job did what it was measured for: a failure would be quick too.
    pub async fn check(&self, id: &str, results: u64) -> anyhow::Result<()> {
        let doc = self.client.job(NAMESPACE, id.parse().map_err(|e| anyhow!("{id}: {e}"))?).await?;
        let succeeded = doc.counts.get(Outcome::Success.word()).copied().unwrap_or_default();
        if doc.status != JobStatus::Completed || succeeded != results {
            bail!("{id} is {} with {succeeded} successful results of {results}: {:?}", doc.status, doc.reason);
        }
        Ok(())
    }
}
