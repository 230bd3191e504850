//! Makes the calls about jobs, nodes and backends, one method each, with the documents of `grid_types::api`.
//!
//! Not here: calls about the controllers (`cluster`), nodes and backends (`nodes`).
//! Paths are the canonical ones; the aliases of the API are for operators and older programs.

use std::time::Duration;

use grid_types::api::{
    ConfirmBody, JobDoc, JobStateDoc, ListDoc, OutputGroupDoc, PlanDoc, Resolution, ResolveBody, ResultRowDoc,
    ResumeBody, RoleDoc, StatusDoc, WhyDoc,
};
use grid_types::{Code, JobId, JobStatus, Outcome, StepIndex};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Answer, Call, Journey, Transport, unexpected};
use crate::error::{Error, Refusal};
use crate::key::IdempotencyKey;
use crate::server::ServerUrl;
use crate::token::Token;

/// Talks to a cluster through any of its controllers.
pub struct Client {
    pub(crate) transport: Transport,
}

/// How a client finds controllers, and how long it tries.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long a call is repeated while no controller can answer it.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience: Duration::from_secs(10) }
    }
}

/// One page of jobs, newest first.
#[derive(Debug, Clone, Default)]
pub struct JobsQuery {
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs with this name.
    pub name: Option<String>,
    /// KEY=VALUE, several separated by commas: jobs that have all of them.
    pub label: Option<String>,
    /// Only jobs that wait for an operator.
    pub waiting: bool,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// Maximum number of jobs in the answer; the server decides if it is left out.
    pub limit: Option<u32>,
}

/// What a further run, or a job that goes on after a restore, does with `once` steps that may have run already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnceSteps {
    /// They are not run: they stay unknown, or the controller refuses and lists them.
    Keep,
    /// They run again.
    Rerun,
}

impl OnceSteps {
    fn is_rerun(self) -> bool {
        self == Self::Rerun
    }
}

/// One page of results.
#[derive(Debug, Clone, Default)]
pub struct ResultsQuery {
    /// Only rows of this step.
    pub step: Option<StepIndex>,
    /// Only rows with this outcome.
    pub status: Option<Outcome>,
    /// Only rows of this node.
    pub node: Option<String>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// Maximum number of rows in the answer; the server decides if it is left out.
    pub limit: Option<u32>,
    /// The run; the newest if it is left out.
    pub run: Option<u32>,
}

impl Client {
    /// # Errors
    /// When `servers` is empty.
    pub fn new(servers: Vec<ServerUrl>, options: Options) -> Result<Self, Error> {
        Ok(Self { transport: Transport::new(servers, options.patience)? })
    }

    /// Sends this token with every call.
    #[must_use]
    pub fn with_token(mut self, token: Option<Token>) -> Self {
        self.transport.token = token;
        self
    }

    /// The time of the controller that answered last, to a second; before the first answer, the time of this machine.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.transport.clock.now()
    }

    /// Submits a job under a new key: however often it is sent, it becomes one job.
    ///
    /// # Errors
    /// [`Error::Refused`] with every fault of the job; or no controller could answer.
    pub async fn submit(&self, namespace: &str, job: &Value) -> Result<JobDoc, Error> {
        self.submit_with_key(namespace, job, &IdempotencyKey::random()?, None).await
    }

    /// Returns what a job would do, without running it.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub async fn plan(&self, namespace: &str, job: &Value) -> Result<PlanDoc, Error> {
        let path = ["api", "v1", "namespaces", namespace, "jobs", "plan"];
        let call = Call::post(&path, job.to_string().into_bytes());
        decode(&self.transport.carry(&call, &mut Journey::default()).await?)
    }

    /// Submits under a key that the caller chose, for a submit that outlives this process, and bound to a plan if one is given.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub async fn submit_with_key(
        &self,
        namespace: &str,
        job: &Value,
        key: &IdempotencyKey,
        plan: Option<&str>,
    ) -> Result<JobDoc, Error> {
        let mut query = Vec::new();
        push(&mut query, "plan", plan);
        let path = ["api", "v1", "namespaces", namespace, "jobs"];
        let call = Call { query, key: Some(key), ..Call::post(&path, job.to_string().into_bytes()) };
        decode(&self.transport.carry(&call, &mut Journey::default()).await?)
    }

    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn job(&self, namespace: &str, job: JobId) -> Result<JobDoc, Error> {
        self.job_in(namespace, job, None).await
    }

    /// The job as of one of its runs; the newest if `run` is left out.
    ///
    /// # Errors
    /// `NOT_FOUND`, also if the job has no such run, or no controller could answer.
    pub async fn job_in(&self, namespace: &str, job: JobId, run: Option<u32>) -> Result<JobDoc, Error> {
        let mut pairs = Vec::new();
        push(&mut pairs, "run", run);
        self.get(&["api", "v1", "namespaces", namespace, "jobs", &job.to_string()], pairs).await
    }

    /// # Errors
    /// An unknown namespace, or no controller could answer.
    pub async fn jobs(&self, namespace: &str, query: &JobsQuery) -> Result<ListDoc<JobDoc>, Error> {
        let mut pairs = Vec::new();
        push(&mut pairs, "status", query.status);
        push(&mut pairs, "name", query.name.as_ref());
        push(&mut pairs, "label", query.label.as_ref());
        push(&mut pairs, "waiting", query.waiting.then_some(true));
        push(&mut pairs, "after", query.after.as_ref());
        push(&mut pairs, "limit", query.limit);
        self.get(&["api", "v1", "namespaces", namespace, "jobs"], pairs).await
    }

    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn results(
        &self,
        namespace: &str,
        job: JobId,
        query: &ResultsQuery,
    ) -> Result<ListDoc<ResultRowDoc>, Error> {
        let mut pairs = Vec::new();
        push(&mut pairs, "step", query.step);
        push(&mut pairs, "status", query.status);
        push(&mut pairs, "node", query.node.as_ref());
        push(&mut pairs, "after", query.after.as_ref());
        push(&mut pairs, "limit", query.limit);
        push(&mut pairs, "run", query.run);
        self.get(&["api", "v1", "namespaces", namespace, "jobs", &job.to_string(), "results"], pairs).await
    }

    /// The last part of a step's output on a node, as its result carried it.
    ///
    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn output(&self, namespace: &str, job: JobId, step: StepIndex, node: &str) -> Result<String, Error> {
        let (job, step) = (job.to_string(), step.to_string());
        let path = ["api", "v1", "namespaces", namespace, "jobs", &job, "output", &step, node];
        let call = Call { accept: "*/*", ..Call::get(&path, Vec::new()) };
        let answer = self.transport.carry(&call, &mut Journey::default()).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// Nodes grouped by the output of a step.
    ///
    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn outputs(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        run: Option<u32>,
    ) -> Result<ListDoc<OutputGroupDoc>, Error> {
        let (job, step) = (job.to_string(), step.to_string());
        let mut pairs = Vec::new();
        push(&mut pairs, "run", run);
        self.get(&["api", "v1", "namespaces", namespace, "jobs", &job, "outputs", &step], pairs).await
    }

    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` for a job that has ended, or no controller could answer.
    pub async fn cancel(&self, namespace: &str, job: JobId) -> Result<JobStateDoc, Error> {
        let id = job.to_string();
        let path = ["api", "v1", "namespaces", namespace, "jobs", &id, "cancel"];
        let call = Call { body: None, ..Call::post(&path, Vec::new()) };
        let mut journey = Journey::default();
        match self.transport.carry(&call, &mut journey).await {
            Ok(answer) => decode(&answer),
            // A cancel has no key: after a lost answer, "it has ended" may be the effect of this same cancel.
            Err(error) if journey.maybe_done && error.code() == Some(Code::Conflict) => {
                match self.job(namespace, job).await {
                    Ok(doc) if doc.status == JobStatus::Cancelled => {
                        Ok(JobStateDoc { id, status: doc.status, note: None, may_have_run: Vec::new() })
                    }
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Confirms a phase that waits for an operator; without `phase`, the one that waits.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if it does not wait, or no controller could answer.
    pub async fn confirm(&self, namespace: &str, job: JobId, phase: Option<u32>) -> Result<JobStateDoc, Error> {
        // A repeated confirm without a phase number could confirm the next phase, which the operator has not seen.
        let body = ConfirmBody { phase, ..ConfirmBody::default() };
        self.decide(namespace, job, "confirm", &body, phase.is_none()).await
    }

    /// Confirms a job that is held after a restore; never a phase that waits.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if the job is not held, or no controller could answer.
    pub async fn release(&self, namespace: &str, job: JobId, once: OnceSteps) -> Result<JobStateDoc, Error> {
        let body = ConfirmBody { phase: None, held: true, rerun_once: once.is_rerun() };
        self.decide(namespace, job, "confirm", &body, false).await
    }

    /// Continues a finished job with the parts that are missing.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if the job has not ended, has nothing left, or has once-only steps with an unknown outcome.
    pub async fn resume(&self, namespace: &str, job: JobId, once: OnceSteps) -> Result<JobStateDoc, Error> {
        // W8: the run that it began may have ended before it is sent again, and a second run would repeat once-only steps that
        // the operator did not order.
        self.decide(namespace, job, "resume", &ResumeBody { rerun_once: once.is_rerun() }, true).await
    }

    /// Runs failed steps again, on the nodes where they failed; the other nodes are not touched.
    ///
    /// # Errors
    /// As [`Client::resume`]; `CONFLICT` also if nothing has failed.
    pub async fn retry(&self, namespace: &str, job: JobId, once: OnceSteps) -> Result<JobStateDoc, Error> {
        self.decide(namespace, job, "retry", &ResumeBody { rerun_once: once.is_rerun() }, true).await
    }

    /// Records how a step with an unknown outcome ended on a node.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if the step does not wait for that, or no controller could answer.
    pub async fn resolve(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: &str,
        verdict: Resolution,
    ) -> Result<JobStateDoc, Error> {
        let body = ResolveBody { step: step.0, node: node.to_owned(), verdict };
        // W8: sent again, it could order one more attempt than the operator asked for.
        self.decide(namespace, job, "resolve", &body, verdict == Resolution::Retry).await
    }

    /// What a job is waiting for, or how it ended.
    ///
    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn why(&self, namespace: &str, job: JobId) -> Result<WhyDoc, Error> {
        self.get(&["api", "v1", "namespaces", namespace, "jobs", &job.to_string(), "why"], Vec::new()).await
    }

    /// The role and epoch of the first controller that answers.
    ///
    /// # Errors
    /// When no controller could answer.
    pub async fn role(&self) -> Result<RoleDoc, Error> {
        self.get(&["role"], Vec::new()).await
    }

    /// Learns the addresses of all controllers, so that a long call survives the loss of the first one. Without an answer
    /// nothing changes.
    pub async fn learn_controllers(&self) {
        if let Ok(role) = self.role().await {
            self.transport.add_servers(role.controllers.iter().filter_map(|url| url.parse().ok()));
        }
    }

    /// # Errors
    /// When no controller could answer.
    pub async fn status(&self) -> Result<StatusDoc, Error> {
        self.get(&["status"], Vec::new()).await
    }

    /// A decision has no key: after a lost answer, "it does not wait" may be the effect of this same decision.
    async fn decide(
        &self,
        namespace: &str,
        job: JobId,
        verb: &str,
        body: &impl Serialize,
        at_most_once: bool,
    ) -> Result<JobStateDoc, Error> {
        let id = job.to_string();
        let path = ["api", "v1", "namespaces", namespace, "jobs", &id, verb];
        let body = serde_json::to_vec(body).map_err(|e| Error::Setup(e.to_string()))?;
        let call = Call { at_most_once, ..Call::post(&path, body) };
        let mut journey = Journey::default();
        match self.transport.carry(&call, &mut journey).await {
            Ok(answer) => decode(&answer),
            Err(Error::Refused(refusal)) if journey.maybe_done => {
                Err(Error::Refused(Refusal { maybe_done: true, ..refusal }))
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Vec<(&'static str, String)>,
    ) -> Result<T, Error> {
        let call = Call::get(path, query);
        decode(&self.transport.carry(&call, &mut Journey::default()).await?)
    }
}

pub(crate) fn push(pairs: &mut Vec<(&'static str, String)>, name: &'static str, value: Option<impl ToString>) {
    pairs.extend(value.map(|value| (name, value.to_string())));
}

pub(crate) fn decode<T: DeserializeOwned>(answer: &Answer) -> Result<T, Error> {
    serde_json::from_slice(&answer.body).map_err(|e| unexpected(&answer.server, e.to_string()))
}
