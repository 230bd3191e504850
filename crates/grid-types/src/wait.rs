//! Defines what a paused job is waiting for: an operator, or offline nodes. Stored in events as data, converted to text when read.

use serde::{Deserialize, Serialize};

use crate::coded::coded;
use crate::ids::{JobId, StepIndex};
use crate::name::NodeId;
use crate::node::NodeStatus;
use crate::span::Span;

coded! {
    /// `text` takes the job that waits. `more`: how many other nodes it waits for in the same way.
    pub enum Wait, text(job: JobId) {
        /// `backup`: the time of the backup, from the entry that restored it.
        0 Held { 0 backup: String } => format!(
            "held: restored from a backup of {backup}; check whether it should continue, then `gridc job confirm {job}`"
        );
        1 Confirmation { 0 phase: u32 } => format!("phase {phase} is waiting for confirmation: gridc job confirm {job}");
        2 Resolution { 0 step: StepIndex, 1 node: NodeId, 2 more: u32 } => format!(
            "the outcome of step {step} on {node} is unknown; an operator has to resolve it: gridc job resolve {job} \
             --step {step} --node {node} --as success|failed|retry{}", and_more(*more)
        );
        3 Node { 0 step: StepIndex, 1 node: NodeId, 2 status: NodeStatus, 3 for_ms: u64, 4 more: u32 } => format!(
            "step {step} waits for {node}, {status} for {}{}", Span::from_ms(for_ms / 1_000 * 1_000), and_more(*more)
        );
        /// J13: `first` nodes are through the phase, `others` are not.
        4 Others { 0 phase: u32, 1 first: u32, 2 others: u32 } => format!(
            "phase {phase} has run on its first {}; {} more {} waiting for confirmation: gridc job confirm {job}",
            on_nodes(*first), others, if *others == 1 { "is" } else { "are" }
        );
    }
}

/// The decision of an operator that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum WaitingFor {
    /// A phase begins, or goes on beyond its first nodes, only when it is confirmed.
    Confirmation,
    /// An outcome is unknown and has to be resolved.
    Resolution,
    /// The job was restored from a backup and is held until it is confirmed.
    Release,
}

impl Wait {
    /// The decision that it waits for; none if it waits for nodes.
    #[must_use]
    pub fn waiting_for(&self) -> Option<WaitingFor> {
        match self {
            Self::Held { .. } => Some(WaitingFor::Release),
            Self::Confirmation { .. } | Self::Others { .. } => Some(WaitingFor::Confirmation),
            Self::Resolution { .. } => Some(WaitingFor::Resolution),
            Self::Node { .. } => None,
        }
    }
}

/// ` (and 7 more)`, or nothing.
#[must_use]
pub fn and_more(more: u32) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

/// `1 node`, `2 nodes`.
pub(crate) fn on_nodes(nodes: u32) -> String {
    format!("{nodes} node{}", if nodes == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::Wait;
    use crate::ids::{JobId, StepIndex};
    use crate::node::NodeStatus;

    #[test]
    fn every_wait_says_what_to_do_or_whom_it_waits_for() {
        let job = JobId(7);
        let (step, node) = (StepIndex(2), || "web-01".parse().unwrap());
        let gate = Wait::Confirmation { phase: 1 }.text(job);
        assert_eq!(gate, format!("phase 1 is waiting for confirmation: gridc job confirm {job}"));
        let rest = Wait::Others { phase: 0, first: 1, others: 7 }.text(job);
        assert_eq!(
            rest,
            format!(
                "phase 0 has run on its first 1 node; 7 more are waiting for confirmation: gridc job confirm {job}"
            )
        );
        let away = Wait::Node { step, node: node(), status: NodeStatus::Dead, for_ms: 41_999, more: 3 };
        assert_eq!(away.text(job), "step 2 waits for web-01, dead for 41s (and 3 more)");
        let unknown = Wait::Resolution { step, node: node(), more: 0 }.text(job);
        assert!(unknown.contains(&format!("gridc job resolve {job} --step 2 --node web-01 --as ")), "{unknown}");
    }
}
