//! Defines requests for what the steps of a job returned: results, and outputs as bytes, lines or groups.

use std::future::Future;

use bytes::Bytes;
use grid_store::LogFilter;
use grid_types::api::{ListDoc, LogCursor, LogDoc, OutputGroupDoc, ResultRowDoc};
use grid_types::{Attempt, JobRef, NodeId, Outcome, StepIndex};
use tokio::sync::mpsc;

use super::{Caller, Introspect, Refusal};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultQuery {
    pub limit: u32,
    /// Rows after (step, node), in that order.
    pub after: Option<(u32, String)>,
    pub step: Option<u32>,
    pub status: Option<Outcome>,
    pub node: Option<NodeId>,
    /// Of this run; without it, the newest.
    pub run: Option<u32>,
}

/// Which outputs of a job, and whether to stay for what is still printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub filter: LogFilter,
    pub follow: bool,
    /// Of each output only the last so many lines.
    pub tail: Option<u32>,
    /// Where the reader was before.
    pub from: Vec<LogCursor>,
}

/// Which output of a job, and which part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputQuery {
    pub step: StepIndex,
    pub node: NodeId,
    pub follow: bool,
    pub offset: u64,
    /// Without it, the newest.
    pub attempt: Option<Attempt>,
    /// Of this run; without it, the newest.
    pub run: Option<u32>,
}

/// One output: whole if it is short or its worker is connected, otherwise its last bytes.
#[derive(Debug)]
pub struct Output {
    pub attempt: Attempt,
    /// Of the whole; none while it grows.
    pub total_bytes: Option<u64>,
    /// Of the first byte.
    pub offset: u64,
    pub pieces: mpsc::Receiver<Result<Bytes, BrokenOff>>,
}

/// Why an output ends before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BrokenOff(pub String);

pub trait Outputs: Introspect {
    fn results(
        &self,
        caller: &Caller,
        job: &JobRef,
        query: ResultQuery,
    ) -> impl Future<Output = Result<ListDoc<ResultRowDoc>, Refusal>> + Send;
    fn output(
        &self,
        caller: &Caller,
        job: &JobRef,
        query: OutputQuery,
    ) -> impl Future<Output = Result<Output, Refusal>> + Send;
    /// The outputs of a job, record by record.
    fn logs(
        &self,
        caller: &Caller,
        job: &JobRef,
        query: LogQuery,
    ) -> impl Future<Output = Result<mpsc::Receiver<LogDoc>, Refusal>> + Send;
    /// Equal outputs of a step once, with the nodes that had them. `run`: without it, the newest.
    fn outputs(
        &self,
        caller: &Caller,
        job: &JobRef,
        step: StepIndex,
        run: Option<u32>,
    ) -> impl Future<Output = Result<Vec<OutputGroupDoc>, Refusal>> + Send;
}
