//! Records of a job's log stream: one JSON document a line.
//!
//! An output is known by step, node, job epoch and attempt; `run` tells apart the executions of an attempt whose worker was
//! restarted. Offsets count the bytes of one run, so that a reader which comes back says where it was, and never shows a
//! byte twice.

use serde::{Deserialize, Serialize};

use crate::outcome::JobStatus;

#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogDoc {
    Output(LogText),
    /// Something about an output that is not part of it.
    Note(LogNote),
    /// Nothing follows: the job has ended, or everything there is was shown.
    End {
        status: JobStatus,
    },
}

/// Whole lines of one output.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogText {
    pub step: u32,
    pub node: String,
    pub epoch: u32,
    pub attempt: u32,
    pub run: u64,
    /// Of the first byte.
    pub offset: u64,
    /// Behind the last byte.
    pub next: u64,
    /// Bytes that are no UTF-8 are shown as U+FFFD.
    pub text: String,
    /// The last line has no end yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogNote {
    pub step: u32,
    pub node: String,
    /// `away`, `back`, `again`, `tail` or `lost`.
    pub word: String,
    pub text: String,
}

/// How far one output was read.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogCursor {
    pub step: u32,
    pub node: String,
    pub epoch: u32,
    pub attempt: u32,
    pub run: u64,
    pub next: u64,
}

/// `POST …/logs`: the same as `GET`, for a reader that comes back.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogsBody {
    #[serde(default)]
    pub from: Vec<LogCursor>,
}
