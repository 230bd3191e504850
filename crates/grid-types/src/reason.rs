//! Defines why a step has its outcome, why a step was skipped, and why a job ended as it did.
//!
//! Stored in result rows, skip rows and job heads as a number and data; the text is made when they are read. See `coded` for
//! how to add a reason.

use minicbor::{Decode, Encode};

use crate::coded::coded;
use crate::decl::backend;
use crate::ids::{JobId, StepIndex};
use crate::job::{Target, Tolerance};
use crate::name::NodeId;
use crate::node::NodeStatus;
use crate::outcome::Outcome;
use crate::span::Span;
use crate::wait::on_nodes;

/// Why a lease was revoked; decides the outcome of its step once the worker confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Revoked {
    /// The job was cancelled.
    #[n(0)]
    Cancel,
    /// The job's timeout was over.
    #[n(1)]
    JobTimeout,
}

coded! {
    /// Why a step or a job has its state. `text` takes the job that it is about.
    pub enum Reason, text(job: JobId) {
        // Why a step was skipped.
        0 JobCancelled => "job cancelled";
        1 FailFast => "fail-fast: the job has failed";
        2 JobTimeout => "job timeout";
        /// `None`: the node is no longer known.
        3 NodeOffline { 0 status: Option<NodeStatus> } =>
            format!("offline: the node is {}", status.map_or("gone", NodeStatus::word));
        4 NodeExcluded => "excluded: a step failed on this node";
        5 NotRetried => "left out: this run retries failed nodes only";
        6 EarlierPhaseUnreached => "condition on_success: an earlier phase reached no node";
        7 ANodeFailed => "condition on_success: a node has failed";
        8 NothingFailed => "condition on_failure: nothing has failed";
        9 NothingFailedHere => "condition on_failure: nothing has failed on this node";
        10 PipelineBroken => "an earlier step of the pipeline failed on this node";
        11 StepFailedHere => "condition on_success: a step failed on this node";
        12 NotAFailedNode => "nodes: failed; nothing has failed on this node";
        13 NotAHealthyNode => "nodes: healthy; a step failed on this node";
        // The same where no failure is known: an unknown outcome may turn out to be a success later (W8).
        14 UnknownExcluded => "excluded: the outcome of a step on this node was unknown at the time";
        15 UnknownInPipeline => "the outcome of an earlier step of the pipeline on this node was unknown at the time";
        16 UnknownHere => "condition on_success: the outcome of a step on this node was unknown at the time";
        17 UnknownNotHealthy => "nodes: healthy; the outcome of a step on this node was unknown at the time";
        18 UnknownOnANode => "condition on_success: the outcome of a step was unknown at the time";
        19 NothingChangedHere => "condition on_changed: no earlier task of the pipeline changed anything on this node";

        // Why a result has its outcome, where the worker's error does not explain it.
        /// `ended`: the end that the worker reported; `None`: it never started.
        20 Revoked { 0 why: Revoked, 1 ended: Option<Outcome> } => revoked(*why, *ended);
        21 NodeDead => "node dead";
        22 NodeLeft => "node left";
        23 NodeRemoved => "node removed";
        /// W1: a `once` lease has begun, and the worker's registration does not name it.
        24 NotInJournal =>
            "the worker's journal does not name it: its data folder was lost, copied or restored after the step began";
        25 NoResultInTime => "no result within its timeout";
        /// As `NoResultInTime`, of a node that was not there either.
        32 NodeSilentInTime { 0 status: NodeStatus } =>
            format!("the node was lost: it was {status} when the time of the step was over, and no result has come");
        26 RestoredUnresolved => "restored from a backup: it may have run since, and no journal can tell";
        27 RevokedAfterBackup => "it was revoked after the backup that was restored";
        28 ResolvedByOperator => "resolved by an operator";
        29 BackendMissing { 0 backend: String, 1 action: String } => backend_missing(backend, action);

        /// A failed attempt was to be retried, and is not any more.
        30 RetryDropped => "its retry was dropped";
        31 OutputTruncated => "its output was truncated: the limit of a lease, or the space on the worker's disk, was reached";

        // Why a job ended as it did.
        40 CancelledByRequest => "cancelled by request";
        41 TargetGone { 0 target: Target } => format!("no known node matches {target} any more");
        42 JobTimedOut { 0 limit_ms: u64 } => format!("timeout: the job ran longer than {}", Span::from_ms(*limit_ms));
        43 ToleranceExceeded { 0 failed: u32, 1 nodes: u32, 2 tolerated: Tolerance } =>
            format!("failed on {failed} of {}, more than the tolerated {tolerated}", on_nodes(*nodes));
        /// `outcome`: failed, if it is not said.
        44 StepFailed { 0 step: StepIndex, 1 node: NodeId, 2 outcome: Option<Outcome> } => match outcome {
            Some(Outcome::Unknown) => format!("step {step} is unknown on {node}, which counts as failed (fail-fast)"),
            Some(Outcome::TimedOut) => format!("step {step} timed out on {node} (fail-fast)"),
            _ => format!("step {step} failed on {node} (fail-fast)"),
        };
        45 AllFailed { 0 nodes: u32 } =>
            if *nodes == 1 { "no node is left: the only one failed".to_owned() } else { format!("no node is left: all {nodes} failed") };
        46 NobodyReachable => "no node was reachable";
        47 OthersOffline => "no node is left: the others were offline";
        48 PhaseUnreached { 0 step: StepIndex } => format!("no node was left or reachable for step {step}");
        49 RetriedOffline => "nodes that were to be retried were offline";
        50 SomeFailed { 0 failed: u32, 1 nodes: u32 } => format!("failed on {failed} of {}", on_nodes(*nodes));
        51 UnknownLeftOut { 0 nodes: u32 } =>
            format!("{} left out after an unknown outcome", if *nodes == 1 { "1 node was".to_owned() } else { format!("{nodes} nodes were") });
        52 OfflineSkipped => "offline nodes were skipped";
        /// A retry skipped nodes that miss parts; `rest`: how the retry itself ended.
        53 RetryIncomplete { 0 rest: Option<Box<Reason>>, 1 nodes: u32 } => retry_incomplete(rest.as_deref(), *nodes, job);
        /// J11: nodes were offline when they were due; `rest`: how the job ended otherwise.
        54 SkippedOffline { 0 rest: Option<Box<Reason>>, 1 nodes: u32 } => skipped_offline(rest.as_deref(), *nodes, job);
    }
}

fn revoked(why: Revoked, ended: Option<Outcome>) -> String {
    let because = match why {
        Revoked::Cancel => "job cancelled",
        Revoked::JobTimeout => "job timeout",
    };
    match ended {
        Some(Outcome::Cancelled) => because.to_owned(),
        // The worker died during the step: that the process is gone does not tell how it ended (W9).
        Some(Outcome::Unknown) => format!("{because}; its worker had been restarted while it ran"),
        // A definite outcome is kept; this is for a report that no worker of this version sends.
        Some(before) => format!("{because}; it had already ended: {before}"),
        None => format!("{because} before it started"),
    }
}

fn backend_missing(name: &str, action: &str) -> String {
    let hint = backend(name).map(|decl| format!("; {}", decl.missing())).unwrap_or_default();
    format!("the worker does not run {name} {action}{hint}")
}

fn skipped_offline(rest: Option<&Reason>, nodes: u32, job: JobId) -> String {
    let before = rest.map(|rest| format!("{}; ", rest.text(job))).unwrap_or_default();
    let them = if nodes == 1 { "node was" } else { "nodes were" };
    format!("{before}{nodes} {them} offline and skipped")
}

fn retry_incomplete(rest: Option<&Reason>, nodes: u32, job: JobId) -> String {
    let before = rest.map_or_else(|| "the retry is done".to_owned(), |rest| rest.text(job));
    let them = if nodes == 1 { "node still misses" } else { "nodes still miss" };
    format!("{before}; {nodes} other {them} parts: gridc job resume {job}")
}

#[cfg(test)]
mod tests {
    use super::{Reason, Revoked};
    use crate::ids::{JobId, StepIndex};
    use crate::node::NodeStatus;
    use crate::outcome::Outcome;

    const JOB: JobId = JobId(7);

    #[test]
    fn l2_every_reason_has_a_number_of_its_own_and_is_stored_without_words() {
        let rest =
            Some(Box::new(Reason::StepFailed { step: StepIndex(1), node: "web-01".parse().unwrap(), outcome: None }));
        let examples = [
            Reason::JobCancelled,
            Reason::NodeOffline { status: Some(NodeStatus::Dead) },
            Reason::Revoked { why: Revoked::Cancel, ended: Some(Outcome::Success) },
            Reason::BackendMissing { backend: "apt".to_owned(), action: "install".to_owned() },
            Reason::RetryIncomplete { rest, nodes: 2 },
        ];
        for reason in examples {
            let bytes = minicbor::to_vec(&reason).unwrap();
            assert_eq!(minicbor::decode::<Reason>(&bytes).unwrap(), reason);
            let mut stored = minicbor::Decoder::new(&bytes);
            assert_eq!((stored.array().unwrap(), stored.u32().unwrap()), (Some(2), reason.number()), "{reason:?}");
        }
    }

    #[test]
    fn words_are_made_from_the_data() {
        let said = |reason: Reason| reason.text(JOB);
        assert_eq!(said(Reason::NodeOffline { status: Some(NodeStatus::Left) }), "offline: the node is left");
        assert_eq!(said(Reason::NodeOffline { status: None }), "offline: the node is gone");
        let cancelled = |ended| said(Reason::Revoked { why: Revoked::Cancel, ended });
        assert_eq!(cancelled(Some(Outcome::Cancelled)), "job cancelled");
        assert_eq!(cancelled(Some(Outcome::Success)), "job cancelled; it had already ended: success");
        assert_eq!(cancelled(None), "job cancelled before it started");
        let missing = Reason::BackendMissing { backend: "apt".to_owned(), action: "install".to_owned() };
        assert!(said(missing).starts_with("the worker does not run apt install; apt needs apt-get there"));
        let rest = Some(Box::new(Reason::SkippedOffline { rest: None, nodes: 2 }));
        let incomplete = said(Reason::RetryIncomplete { rest, nodes: 1 });
        assert_eq!(
            incomplete,
            format!("2 nodes were offline and skipped; 1 other node still misses parts: gridc job resume {JOB}")
        );
    }
}
