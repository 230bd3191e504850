//! Decisions of operators about a job: bodies of the requests, and the answers.

use serde::{Deserialize, Serialize};

use crate::outcome::JobStatus;

/// Response to a cancel, a confirmation or a resolution: the job's new status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobStateDoc {
    /// The job.
    pub id: String,
    /// Its status now.
    pub status: JobStatus,
    /// A hint for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// After the confirmation of a held job: `once` steps that become unknown when they are reached, the first 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_have_run: Vec<DoubtDoc>,
}

/// A `once` step of a restored job that may have run after the backup (E2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DoubtDoc {
    /// The step.
    pub step: u32,
    /// The node on which it may have run.
    pub node: String,
    /// The node has not registered since the restore; its journal may still have the outcome.
    #[serde(default)]
    pub awaited: bool,
}

/// `POST …/confirm`; the body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmBody {
    /// The phase to confirm; without it, the one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<u32>,
    /// Confirm only a job that is held after a restore, never a phase.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// For a held job: run once-only steps again that may have run after the backup.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rerun_once: bool,
}

/// `POST …/resume` and `…/retry`; the body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ResumeBody {
    /// Run once-only steps again that may have run already (W8).
    #[serde(default)]
    pub rerun_once: bool,
}

/// `POST …/resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ResolveBody {
    /// The step.
    pub step: u32,
    /// The node on which its outcome is unknown.
    pub node: String,
    /// How it ended, or that it should run again.
    #[serde(rename = "as")]
    pub verdict: Resolution,
}

/// The operator's decision on a step with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It took effect.
    Success,
    /// It failed.
    Failed,
    /// Run it again.
    Retry,
}

/// `GET …/why`: what a job is waiting for, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WhyDoc {
    /// The job.
    pub id: String,
    /// Its status.
    pub status: JobStatus,
    /// The explanation, for an operator.
    pub why: String,
    /// For a job that is held after a restore: `once` steps that become unknown when they are reached, the first 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_have_run: Vec<DoubtDoc>,
}
