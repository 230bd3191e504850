//! Defines the options of `gridc events`.

use clap::Args;
use grid_types::{JobId, NodeId};

pub const EXAMPLES: &str = "\
Prints the events of jobs, nodes and controllers, oldest first. With -f it continues with new events,
also across restarts and leader changes: no event is lost or printed twice.
With -f -o json every line is one event; without -f the output is one list.

Kinds:
  JobSubmitted JobStarted JobPaused JobContinued JobTripped JobEnded JobResumed
  JobRetried JobHeld JobReleased
  ConfirmationWanted PhaseConfirmed StepFailed StepFailuresOmitted StepResolved
  NodeRegistered NodeReturned NodeWarning NodeUnhealthy NodeReady NodeDead
  NodeDraining NodeDrained NodeLeft NodeRemoved TermBegun HistoryPruned
  ClusterSuperseded SupersessionLifted HigherGenerationClaimed
  SnapshotsFailed SnapshotsRecovered

Examples:
  gridc events
  gridc events -f
  gridc events --job job-0c5t9v3k2m7qa
  gridc events -f --kind JobEnded,NodeDead -o json
  gridc events -f --after 812";

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Follow new events
    #[arg(short, long)]
    pub follow: bool,
    /// Only events of this job
    #[arg(long, value_name = "ID")]
    pub job: Option<JobId>,
    /// Only events of this node
    #[arg(long, value_name = "NAME")]
    pub node: Option<NodeId>,
    /// Only events of these kinds
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    pub kinds: Vec<String>,
    /// Maximum number of past events [default: 100; with --follow 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub limit: Option<u32>,
    /// With --follow: all events after the event with this number
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, requires = "follow", conflicts_with = "limit")]
    pub after: Option<u64>,
}
