//! How jobs and steps stand.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum JobStatus {
    #[n(0)]
    Pending,
    #[n(1)]
    Running,
    #[n(2)]
    Completed,
    #[n(3)]
    Failed,
    #[n(4)]
    Cancelled,
}

impl JobStatus {
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }

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

/// How one step stands on one node. All but the first two are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Outcome {
    #[n(0)]
    Pending,
    #[n(1)]
    Running,
    #[n(2)]
    Success,
    #[n(3)]
    Failed,
    #[n(4)]
    TimedOut,
    #[n(5)]
    Cancelled,
    #[n(6)]
    Skipped,
    #[n(7)]
    Unknown,
}

impl Outcome {
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

    #[must_use]
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// J1: what counts against the tolerance.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::TimedOut | Self::Unknown)
    }

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

/// How a run of a job began (J8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum RunKind {
    /// The first run.
    #[n(0)]
    Submit,
    /// Everything that was missing.
    #[n(1)]
    Resume,
    /// What was missing on the nodes where something had failed.
    #[n(2)]
    Retry,
}

impl RunKind {
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
