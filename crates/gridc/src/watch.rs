//! Waits for a job and shows its progress.
//!
//! Looks at the job document every 100 ms at first, then less often, up to every second; a small job that moves is
//! looked at more often again. The job is over when it has ended and nothing of it runs any more: after a cancel the
//! first comes before the second, and the counts should be final. A node that is gone may never report: a wait for
//! the end of the job takes it as it is after [`SETTLE_LIMIT`], a wait for the quiet after it does not.
//!
//! Failures are printed as they happen, at most [`MAX_LISTED`] of them: with more, the counts say what matters. What the job
//! is waiting for is printed when it makes no progress (`stall`); a controller that cannot say why does not end the watch. Nor does it end while no
//! controller answers (`outage`): the command has submitted the job or asked for it, so there was one.
//! Not here: how long to wait at most, and Ctrl-C (`run`).

mod running;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use grid_client::{Client, Error, ResultsQuery};
use grid_types::api::{Counts, JobDoc, ResultRowDoc};
use grid_types::{JobId, JobStatus, Outcome, Span, StepIndex};

use crate::live::{LiveView, Look, MAX_LISTED, is_quiet};
use crate::outage::Outage;
use crate::stall::Stall;
use crate::text::{count, failure_line};
use crate::when;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// A clock that shows seconds, and a terminal that is resized, need no more.
const TICK: Duration = Duration::from_millis(250);
/// How long an ended job may still have something running before it is taken as it is.
const SETTLE_LIMIT: Duration = Duration::from_secs(15);
/// Of the failures of one step at most `MAX_LISTED` were printed before, so that a page always holds new ones.
const PAGE: u32 = 100;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The job has ended.
    Ended,
    /// It was cancelled, and nothing of it runs any more.
    Quiet,
}

/// What is waited for, and how long at most.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub until: Until,
    /// None: without a limit.
    pub limit: Option<Span>,
}

impl Until {
    pub fn within(self, limit: Option<Span>) -> Patience {
        Patience { until: self, limit }
    }

    pub fn outage(self) -> Outage {
        Outage::new(Some(match self {
            Self::Ended => "the job goes on",
            Self::Quiet => "the job is cancelled",
        }))
    }
}

/// Watches a job to its end and returns its final document.
///
/// # Errors
/// When a controller refuses, or the job is not there.
pub async fn watch(
    client: &Client,
    namespace: &str,
    job: JobId,
    view: &mut (dyn LiveView + Send),
) -> Result<JobDoc, Error> {
    watch_until(Until::Ended, WatchedJob { client, namespace, job }, view, &Until::Ended.outage()).await
}

/// A job, and the connection over which it is watched.
#[derive(Clone, Copy)]
pub struct WatchedJob<'a> {
    pub client: &'a Client,
    pub namespace: &'a str,
    pub job: JobId,
}

pub async fn watch_until(
    until: Until,
    WatchedJob { client, namespace, job }: WatchedJob<'_>,
    view: &mut (dyn LiveView + Send),
    outage: &Outage,
) -> Result<JobDoc, Error> {
    let mut printed = Printed::default();
    let mut seen: Option<(JobStatus, u32, Counts)> = None;
    let mut stall = Stall::begin();
    let mut ended_at: Option<Instant> = None;
    let mut pause = FIRST_PAUSE;
    let mut connected_at = Instant::now();
    ticking(view, client.learn_controllers()).await;
    loop {
        let look = async {
            let doc = client.job(namespace, job).await?;
            let news = printed.news(client, namespace, job, &doc).await?;
            Ok((doc, news))
        };
        let (doc, news) = match ticking(view, look).await {
            Ok(look) => look,
            Err(error) => {
                if let Some(line) = outage.met(error, connected_at)? {
                    view.silence(&line);
                }
                continue;
            }
        };
        connected_at = Instant::now();
        for row in news {
            view.failed(&failure_line(&doc, row.step, &row.node, &row.result));
        }
        let state = Some((doc.status, doc.step, doc.counts.clone()));
        let moved = seen != state;
        seen = state;
        if moved {
            stall = Stall::begin();
        }
        // Only words more: without them the rest still holds.
        let why = if stall.is_still(&doc) { ticking(view, client.why(namespace, job)).await.ok() } else { None };
        let why = why.filter(|now| now.status.is_ended() == doc.status.is_ended()).map(|now| now.why);
        let running = ticking(view, running::longest(client, namespace, job, &doc)).await;
        let elapsed = when::elapsed(&doc, client.now());
        view.show(&Look { job: &doc, running: &running, why: why.as_deref(), elapsed });
        if doc.status.is_ended() {
            let since = *ended_at.get_or_insert_with(Instant::now);
            if is_quiet(&doc) || (until == Until::Ended && since.elapsed() >= SETTLE_LIMIT) {
                view.close();
                return Ok(doc);
            }
        }
        // A document without results is a large one: it is not asked for ten times a second.
        pause = if moved && doc.results.is_some() { FIRST_PAUSE } else { (pause * 3 / 2).min(LAST_PAUSE) };
        ticking(view, tokio::time::sleep(pause)).await;
    }
}

/// Lets the view know that time passes while something is awaited.
async fn ticking<T>(view: &mut (dyn LiveView + Send), done: impl Future<Output = T>) -> T {
    let mut done = std::pin::pin!(done);
    loop {
        tokio::select! {
            value = &mut done => return value,
            () = tokio::time::sleep(TICK) => view.tick(),
        }
    }
}

/// Failures that were printed.
#[derive(Default)]
struct Printed {
    rows: BTreeSet<(u32, String, Outcome)>,
}

impl Printed {
    async fn news(
        &mut self,
        client: &Client,
        namespace: &str,
        job: JobId,
        doc: &JobDoc,
    ) -> Result<Vec<ResultRowDoc>, Error> {
        if let Some(results) = &doc.results {
            let steps = results.iter().filter_map(|(step, nodes)| Some((step.parse::<u32>().ok()?, nodes)));
            let rows = steps.flat_map(|(step, nodes)| {
                nodes.iter().map(move |(node, result)| ResultRowDoc {
                    step,
                    node: node.clone(),
                    result: result.clone(),
                })
            });
            return Ok(self.pick(rows.collect()));
        }
        let mut news = Vec::new();
        for step in &doc.steps {
            for outcome in Outcome::ALL.into_iter().filter(|o| o.is_failure()) {
                if self.rows.len() < MAX_LISTED && count(&step.counts, outcome) > self.printed_of(step.step, outcome) {
                    let query = ResultsQuery {
                        step: Some(StepIndex(step.step)),
                        status: Some(outcome),
                        limit: Some(PAGE),
                        ..ResultsQuery::default()
                    };
                    let page = client.results(namespace, job, &query).await?;
                    news.extend(self.pick(page.items));
                }
            }
        }
        Ok(news)
    }

    fn printed_of(&self, step: u32, outcome: Outcome) -> u64 {
        self.rows.iter().filter(|(s, _, o)| *s == step && *o == outcome).count() as u64
    }

    fn pick(&mut self, mut rows: Vec<ResultRowDoc>) -> Vec<ResultRowDoc> {
        // As they happened: a view that is opened again shows the same ones last.
        rows.sort_by_key(|row| (when::ended(&row.result), row.step));
        let mut new = Vec::new();
        for row in rows.into_iter().filter(|row| row.result.status.is_failure()) {
            if self.rows.len() == MAX_LISTED {
                break;
            }
            if self.rows.insert((row.step, row.node.clone(), row.result.status)) {
                new.push(row);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::Printed;
    use crate::live::MAX_LISTED;
    use grid_types::Outcome;
    use grid_types::api::{ResultDoc, ResultRowDoc};

    fn row(node: usize, status: Outcome) -> ResultRowDoc {
        let result = ResultDoc {
            status,
            duration: None,
            attempts: 1,
            error: None,
            reason: None,
            started_at: None,
            exit_code: None,
            signal: None,
            changed: None,
        };
        ResultRowDoc { step: 0, node: format!("n-{node}"), result }
    }

    #[test]
    fn a_failure_is_told_once() {
        let mut printed = Printed::default();
        let rows = vec![row(0, Outcome::Failed), row(1, Outcome::Success), row(2, Outcome::Unknown)];
        assert_eq!(printed.pick(rows.clone()).len(), 2);
        assert!(printed.pick(rows).is_empty());
        assert_eq!(printed.pick(vec![row(2, Outcome::Failed)]).len(), 1, "unknown, then settled by the worker");
    }

    #[test]
    fn telling_failures_is_bounded() {
        let mut printed = Printed::default();
        let rows: Vec<_> = (0..MAX_LISTED + 30).map(|n| row(n, Outcome::Failed)).collect();
        assert_eq!(printed.pick(rows.clone()).len(), MAX_LISTED);
        assert!(printed.pick(rows).is_empty());
    }
}
