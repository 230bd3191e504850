//! Records of a job's log stream: one JSON document per line.
//!
//! An output is identified by step, node, job epoch and attempt; `run` distinguishes the executions of an attempt whose worker
//! was restarted. Offsets count the bytes of one run, so that a reader that reconnects continues where it stopped and never
//! shows a byte twice.

use serde::{Deserialize, Serialize};

use crate::outcome::JobStatus;

/// One record of a log stream.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogDoc {
    /// Lines that a node wrote.
    Output(LogText),
    /// Something about an output that is not part of it.
    Note(LogNote),
    /// The end: the job has ended, or the whole output was sent.
    End {
        /// Status of the job.
        status: JobStatus,
    },
}

/// Whole lines of one output.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogText {
    /// The step.
    pub step: u32,
    /// The node.
    pub node: String,
    /// The job epoch of the lease.
    pub epoch: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The execution of the attempt.
    pub run: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Offset after the last byte.
    pub next: u64,
    /// Bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
    /// The last line is not complete yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// A remark about an output.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogNote {
    /// The step.
    pub step: u32,
    /// The node.
    pub node: String,
    /// `away`, `back`, `again`, `tail` or `lost`.
    pub word: String,
    /// The remark, for an operator.
    pub text: String,
}

/// How far one output was read.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogCursor {
    /// The step.
    pub step: u32,
    /// The node.
    pub node: String,
    /// The job epoch of the lease.
    pub epoch: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The execution of the attempt.
    pub run: u64,
    /// The first byte that was not read yet.
    pub next: u64,
}

/// `POST …/logs`: the same as `GET`, for a reader that reconnects.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogsBody {
    /// How far each output was read; outputs that are not named are read from the beginning.
    #[serde(default)]
    pub from: Vec<LogCursor>,
}
