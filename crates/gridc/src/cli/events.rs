//! The options of `gridc events`.

use clap::Args;
use grid_types::{JobId, NodeId};

pub const EXAMPLES: &str = "\
Prints what happened to jobs, nodes and controllers, oldest first. With -f it goes on with what
happens next, over restarts and changes of the leader: no event is lost or shown twice.
With -f -o json each line is one event; without -f it is one list.

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
    /// Stay and show what happens next
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
    /// How many of the past at most [default: 100; with --follow 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub limit: Option<u32>,
    /// With --follow: everything behind the event with this number
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, requires = "follow", conflicts_with = "limit")]
    pub after: Option<u64>,
}
