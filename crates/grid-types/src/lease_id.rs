//! Reads and writes the id of a lease as plain HTTP agents see it: one string for (node, job, job epoch, step, attempt).
//!
//! Opaque to agents, and stable: the same lease has the same id in every answer of every leader. It is neither secret nor a
//! proof: a result still names its epochs.

use std::fmt;
use std::str::FromStr;

use crate::ids::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

/// A lease as agents name it: opaque text that contains node and lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    /// The node.
    pub node: NodeOrd,
    /// The lease of that node.
    pub lease: LeaseKey,
}

/// A text that is not a lease id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a lease id: send the id that /v1/leases returned")]
pub struct BadLeaseId(String);

const PREFIX: &str = "lease-";

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeaseKey { job, job_epoch, step, attempt } = self.lease;
        let job = job.to_string();
        let job = job.trim_start_matches("job-");
        write!(f, "{PREFIX}{job}-{job_epoch}-{step}-{attempt}-{}", self.node)
    }
}

impl FromStr for LeaseId {
    type Err = BadLeaseId;

    fn from_str(text: &str) -> Result<Self, BadLeaseId> {
        let read = || {
            let mut parts = text.strip_prefix(PREFIX)?.split('-');
            let job: JobId = format!("job-{}", parts.next()?).parse().ok()?;
            let mut number = || parts.next()?.parse::<u32>().ok();
            let lease = LeaseKey {
                job,
                job_epoch: JobEpoch(number()?),
                step: StepIndex(number()?),
                attempt: Attempt(number()?),
            };
            let id = Self { node: NodeOrd(number()?), lease };
            // Only one spelling is valid, so that equal leases have equal ids.
            (id.to_string() == text).then_some(id)
        };
        read().ok_or_else(|| BadLeaseId(text.chars().take(60).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::LeaseId;
    use crate::ids::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

    #[test]
    fn lease_ids_round_trip_in_one_spelling() {
        let lease =
            LeaseKey { job: JobId(i64::MAX as u64), job_epoch: JobEpoch(3), step: StepIndex(0), attempt: Attempt(2) };
        let id = LeaseId { node: NodeOrd(71), lease };
        assert_eq!(id.to_string(), "lease-7zzzzzzzzzzzz-3-0-2-71");
        assert_eq!(id.to_string().parse(), Ok(id));
        let bad = [
            "",
            "lease-",
            "lease-7zzzzzzzzzzzz-3-0-2",
            "lease-7zzzzzzzzzzzz-3-0-2-71-",
            "lease-7zzzzzzzzzzzz-03-0-2-71",
        ];
        for bad in bad.into_iter().chain(["lease-7zzzzzzzzzzzz-3-0-+2-71", "7zzzzzzzzzzzz-3-0-2-71", "lease-\u{1}"]) {
            assert!(bad.parse::<LeaseId>().is_err(), "{bad}");
        }
    }
}
