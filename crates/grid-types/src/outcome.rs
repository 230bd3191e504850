//! Defines the status of jobs, and the outcomes of steps.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum JobStatus {
    /// Accepted, and waiting for a place to run.
    #[n(0)]
    Pending,
    /// Started.
    #[n(1)]
    Running,
    /// Ended, with no more failures than tolerated.
    #[n(2)]
    Completed,
    /// Ended otherwise, for the recorded reason.
    #[n(3)]
    Failed,
    /// Ended by a cancel.
    #[n(4)]
    Cancelled,
}

impl JobStatus {
    /// Whether it is final within its job epoch.
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }

    /// The name in documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The state of one step on one node. All but the first two are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Outcome {
    /// Not offered yet, or waiting for a retry.
    #[n(0)]
    Pending,
    /// A lease is outstanding.
    #[n(1)]
    Running,
    /// It succeeded.
    #[n(2)]
    Success,
    /// It ended with an error.
    #[n(3)]
    Failed,
    /// It ran longer than its timeout and was stopped.
    #[n(4)]
    TimedOut,
    /// It was stopped by a cancel, or never started because of it.
    #[n(5)]
    Cancelled,
    /// It was skipped, for the recorded reason.
    #[n(6)]
    Skipped,
    /// It is not known whether, or how, it ended.
    #[n(7)]
    Unknown,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Success,
        Self::Failed,
        Self::TimedOut,
        Self::Cancelled,
        Self::Skipped,
        Self::Unknown,
    ];

    /// Whether it is final within its job epoch.
    #[must_use]
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// J1: outcomes that count as failures.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Unknown)
    }

    /// The name in documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a worker knows of an attempt beyond its outcome; each part only where it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Detail {
    /// The exit code of the last program.
    #[n(0)]
    pub exit_code: Option<i32>,
    /// The signal that ended the last program.
    #[n(1)]
    pub signal: Option<i32>,
    /// Whether the step changed anything on the node.
    #[n(2)]
    pub changed: Option<bool>,
}

impl Detail {
    /// None if nothing is known: it then takes no room anywhere.
    #[must_use]
    pub fn known(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// How a run of a job began (J8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum RunKind {
    /// The first run.
    #[n(0)]
    Submit,
    /// A resume: everything that was missing.
    #[n(1)]
    Resume,
    /// A retry: what was missing on the nodes where a step had failed.
    #[n(2)]
    Retry,
}

impl RunKind {
    /// The name in documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Resume => "resume",
            Self::Retry => "retry",
        }
    }
}

impl fmt::Display for RunKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
