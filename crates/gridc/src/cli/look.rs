//! Defines the options of `gridc job status|list|wait`, which select jobs and results.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use grid_types::{JobStatus, NodeId, Outcome, Span};

use super::submit::label;

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Id of the job
    pub id: String,
    /// Show this run instead of the newest
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// Only failures: failed, timed_out and unknown
    #[arg(long, conflicts_with = "statuses")]
    pub failed: bool,
    /// Only these nodes
    #[arg(long = "node", value_name = "NAME", value_delimiter = ',')]
    pub nodes: Vec<NodeId>,
    /// Only this step
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub step: Option<u32>,
    /// Only steps with these outcomes
    #[arg(long = "status", value_name = "OUTCOME", value_delimiter = ',')]
    pub statuses: Vec<OutcomeWord>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Maximum number of jobs
    #[arg(long, default_value_t = 100, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Only jobs with this status; `waiting` is the same as --waiting
    #[arg(long, value_name = "STATUS")]
    pub status: Option<StatusWord>,
    /// Only jobs that wait for an operator
    #[arg(long)]
    pub waiting: bool,
    /// Only jobs with this name
    #[arg(long)]
    pub name: Option<String>,
    /// Only jobs with this label; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Id of the job
    pub id: String,
    /// Stop waiting after this time (exit 124); the job continues
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub wait_timeout: Option<Span>,
    /// Also exit 1 if nodes were skipped because they were offline
    #[arg(long)]
    pub fail_on_skipped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusWord {
    Pending,
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
}

impl StatusWord {
    /// None: it is no status of a document.
    pub fn status(self) -> Option<JobStatus> {
        match self {
            Self::Pending => Some(JobStatus::Pending),
            Self::Running => Some(JobStatus::Running),
            Self::Waiting => None,
            Self::Completed => Some(JobStatus::Completed),
            Self::Failed => Some(JobStatus::Failed),
            Self::Cancelled => Some(JobStatus::Cancelled),
        }
    }
}

/// An outcome of a step on a node, by its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutcomeWord(pub Outcome);

impl ValueEnum for OutcomeWord {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [OutcomeWord; Outcome::ALL.len()] = {
            let mut all = [OutcomeWord(Outcome::ALL[0]); Outcome::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = OutcomeWord(Outcome::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.word()))
    }
}
