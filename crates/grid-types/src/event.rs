//! Events that an operator wants to know about, as numbers and data. Their text is made when they are read.
//!
//! A stored row also has time, leader epoch, job, node and namespace; an event has only the rest. See `coded` for how to add
//! one; docs/http.md and the help of `gridc events` list the kinds.

use crate::coded::coded;
use crate::ids::{JobEpoch, JobId, LeaderEpoch, SessionId, StepIndex};
use crate::job::Target;
use crate::name::{Name, NodeId};
use crate::node::NodeStatus;
use crate::outcome::{JobStatus, Outcome};
use crate::reason::Reason;
use crate::span::Span;
use crate::wait::{Wait, and_more, on_nodes};

coded! {
    /// `text` takes the job that the event is about, if it is about one.
    pub enum Event, text(job: Option<JobId>) {
        0 JobSubmitted { 0 target: Target } => format!("target {target}");
        1 JobStarted { 0 nodes: u32 } => on_nodes(*nodes);
        2 JobPaused { 0 wait: Wait } => job.map(|job| wait.text(job)).unwrap_or_default();
        3 JobContinued => "running again";
        /// Its `on_failure` phases may still run.
        4 JobTripped { 0 reason: Option<Reason> } => reason_text(reason.as_ref(), job);
        5 JobEnded { 0 status: JobStatus, 1 reason: Option<Reason> } => match reason {
            Some(_) => format!("{status}: {}", reason_text(reason.as_ref(), job)),
            None => format!("{status}: all done"),
        };
        6 JobResumed { 0 epoch: JobEpoch, 1 nodes: u32, 2 run: u32 } => format!("run {run}, {}", on_nodes(*nodes));
        7 JobRetried { 0 epoch: JobEpoch, 1 nodes: u32, 2 run: u32 } => format!("run {run}, {}", on_nodes(*nodes));
        /// `backup`: the time of the backup, from the entry that restored it.
        8 JobHeld { 0 backup: String } => format!("restored from a backup of {backup}");
        9 JobReleased => "released after the restore";
        10 ConfirmationWanted { 0 phase: u32 } => format!("phase {phase} is waiting for confirmation");
        11 PhaseConfirmed { 0 phase: u32 } => format!("phase {phase}");
        // 12 was StepUnknown.
        /// `verdict`: the outcome that the operator set; `None`: it runs again.
        13 StepResolved { 0 step: StepIndex, 1 verdict: Option<Outcome> } =>
            format!("step {step}: {}", verdict.map_or("retry", Outcome::word));
        /// Failed, timed out or unknown, and not retried. `nodes`: the first ones; `more`: how many others; `error`: the
        /// beginning of the first node's error.
        14 StepFailed {
            0 step: StepIndex,
            1 outcome: Outcome,
            2 reason: Option<Reason>,
            3 nodes: Vec<NodeId>,
            4 more: u32,
            5 error: Option<String>,
        } => step_failed(
            *step, *outcome, nodes, *more, error.as_deref(), &reason_text(reason.as_ref(), job)
        );
        15 StepFailuresOmitted { 0 recorded: u32 } =>
            format!("this run has {recorded} StepFailed events; further failures are only in its results");

        20 NodeRegistered { 0 session: SessionId } => format!("session {session}");
        21 NodeReturned { 0 was: NodeStatus, 1 session: SessionId } => format!("was {was}; session {session}");
        22 NodeReady { 0 was: NodeStatus, 1 cause: Option<NodeCause> } => moved(*was, NodeStatus::Ready, cause.as_ref());
        23 NodeWarning { 0 was: NodeStatus, 1 cause: Option<NodeCause> } =>
            moved(*was, NodeStatus::Warning, cause.as_ref());
        24 NodeUnhealthy { 0 was: NodeStatus, 1 cause: Option<NodeCause> } =>
            moved(*was, NodeStatus::Unhealthy, cause.as_ref());
        25 NodeDead { 0 was: NodeStatus, 1 cause: Option<NodeCause> } => moved(*was, NodeStatus::Dead, cause.as_ref());
        26 NodeDraining { 0 was: NodeStatus, 1 cause: Option<NodeCause> } =>
            moved(*was, NodeStatus::Draining, cause.as_ref());
        27 NodeDrained => "nothing runs there any more";
        28 NodeLeft { 0 was: NodeStatus, 1 cause: Option<NodeCause> } => moved(*was, NodeStatus::Left, cause.as_ref());
        29 NodeRemoved { 0 was: NodeStatus, 1 cause: Option<NodeCause> } =>
            moved(*was, NodeStatus::Removed, cause.as_ref());

        40 TermBegun { 0 leader: Name, 1 epoch: LeaderEpoch } => format!("leader epoch {epoch}");
        41 HistoryPruned { 0 jobs: u32 } => format!("{jobs} jobs");
        /// `by`: the worker or controller that reported it.
        42 ClusterSuperseded { 0 generation: u32, 1 by: String } =>
            format!("{by} follows generation {generation}; writes are refused");
        43 SupersessionLifted => "an operator lifted it; writes are accepted";
        44 HigherGenerationClaimed { 0 generation: u32 } =>
            format!("a client sent an epoch of generation {generation}");
        45 SnapshotsFailed { 0 controller: Name, 1 problem: String } =>
            format!("its snapshots fail and are tried again: {problem}");
        46 SnapshotsRecovered { 0 controller: Name } => "its snapshots work again";
    }
}

coded! {
    /// Why a node's status changed.
    pub enum NodeCause, text() {
        0 MessageReceived => "it sends messages again";
        /// `mass`: more than half of the nodes are silent (V2).
        1 Silent { 0 silent_ms: u64, 1 mass: bool } => silent(*silent_ms, *mass);
        2 WorkerDrains => "its worker is stopping";
        3 WorkerLeft => "its worker has stopped";
        4 DrainOrdered => "drained by an operator";
        5 DrainEnded => "an operator ended the drain";
        6 RemovalOrdered => "removed by an operator";
        7 AgentSilent => "the agent has not polled for a day";
    }
}

impl Event {
    /// A node's status has changed.
    #[must_use]
    pub fn node_moved(was: NodeStatus, to: NodeStatus, cause: Option<NodeCause>) -> Self {
        match to {
            NodeStatus::Ready => Self::NodeReady { was, cause },
            NodeStatus::Warning => Self::NodeWarning { was, cause },
            NodeStatus::Unhealthy => Self::NodeUnhealthy { was, cause },
            NodeStatus::Dead => Self::NodeDead { was, cause },
            NodeStatus::Draining => Self::NodeDraining { was, cause },
            NodeStatus::Left => Self::NodeLeft { was, cause },
            NodeStatus::Removed => Self::NodeRemoved { was, cause },
        }
    }

    /// The nodes that it names, if it is about several.
    #[must_use]
    pub fn nodes(&self) -> Option<&[NodeId]> {
        match self {
            Self::StepFailed { nodes, .. } if nodes.len() > 1 => Some(nodes),
            _ => None,
        }
    }

    /// The id of its subject: its job, its node, or the object that the event names.
    #[must_use]
    pub fn subject(&self, job: Option<JobId>, node: Option<&str>) -> String {
        match (self, job, node) {
            (_, Some(job), _) => job.to_string(),
            (_, None, Some(node)) => node.to_owned(),
            (Self::TermBegun { leader, .. }, None, None) => leader.to_string(),
            (Self::SnapshotsFailed { controller, .. } | Self::SnapshotsRecovered { controller }, None, None) => {
                controller.to_string()
            }
            (Self::ClusterSuperseded { .. } | Self::SupersessionLifted | Self::HigherGenerationClaimed { .. }, ..) => {
                "cluster".to_owned()
            }
            _ => "history".to_owned(),
        }
    }
}

/// The text of a reason, or nothing.
fn reason_text(reason: Option<&Reason>, job: Option<JobId>) -> String {
    reason.zip(job).map(|(reason, job)| reason.text(job)).unwrap_or_default()
}

/// The row of the event names a single node.
fn step_failed(
    step: StepIndex,
    outcome: Outcome,
    nodes: &[NodeId],
    more: u32,
    error: Option<&str>,
    reason: &str,
) -> String {
    let several = nodes.len() > 1;
    let names: Vec<_> = nodes.iter().map(NodeId::as_str).collect();
    let places = if several { format!(" on {}{}", names.join(", "), and_more(more)) } else { String::new() };
    let what = match outcome {
        Outcome::TimedOut => format!("step {step} timed out{places}"),
        Outcome::Unknown => format!("the outcome of step {step}{places} is unknown"),
        _ => format!("step {step} failed{places}"),
    };
    match (reason, error.filter(|error| !error.is_empty())) {
        ("", None) => what,
        ("", Some(error)) if several => format!("{what}: {error} ({})", names[0]),
        ("", Some(error)) => format!("{what}: {error}"),
        (reason, _) => format!("{what}: {reason}"),
    }
}

fn moved(was: NodeStatus, to: NodeStatus, cause: Option<&NodeCause>) -> String {
    let because = cause.map(|cause| format!(": {}", cause.text())).unwrap_or_default();
    format!("{was} → {to}{because}")
}

fn silent(silent_ms: u64, mass: bool) -> String {
    let many = if mass { "; more than half of the nodes are silent, so none is declared dead" } else { "" };
    format!("no message for {}{many}", Span::from_ms(silent_ms / 1_000 * 1_000))
}

#[cfg(test)]
mod tests {
    use super::{Event, NodeCause};
    use crate::ids::JobId;
    use crate::node::NodeStatus;
    use crate::outcome::JobStatus;
    use crate::reason::Reason;

    #[test]
    fn l2_events_are_stored_without_words_and_worded_when_read() {
        let job = Some(JobId(7));
        let ended = Event::JobEnded { status: JobStatus::Failed, reason: Some(Reason::NobodyReachable) };
        let bytes = minicbor::to_vec(&ended).unwrap();
        assert!(bytes.len() < 12, "{bytes:?}");
        let read: Event = minicbor::decode(&bytes).unwrap();
        assert_eq!(
            (read.kind(), read.number(), read.text(job).as_str()),
            ("JobEnded", 5, "failed: no node was reachable")
        );
        assert_eq!(read.subject(job, None), JobId(7).to_string());
        let silent = Some(NodeCause::Silent { silent_ms: 31_400, mass: true });
        let moved = Event::node_moved(NodeStatus::Warning, NodeStatus::Unhealthy, silent);
        assert_eq!(
            moved.text(None),
            "warning → unhealthy: no message for 31s; more than half of the nodes are silent, so none is declared dead"
        );
        assert_eq!(moved.subject(None, Some("web-01")), "web-01");
        let started = [1, 2].map(|nodes| Event::JobStarted { nodes }.text(job));
        assert_eq!(started, ["1 node", "2 nodes"]);
    }

    #[test]
    fn numbers_and_kinds_are_used_once() {
        let mut kinds = Event::KINDS.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), Event::KINDS.len());
    }
}
