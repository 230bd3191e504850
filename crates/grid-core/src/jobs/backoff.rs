//! Computes how long a retry waits: 1, 2, 4 … 30 s, jittered by what it is for, so that every replica computes the same.

use grid_types::ids::mix64;
use grid_types::{Attempt, JobId, NodeOrd, StepIndex};

const FIRST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 30_000;

/// The wait before `attempt` (2 is the first retry): within a fifth of the plain doubling.
#[must_use]
pub fn backoff_ms(job: JobId, step: StepIndex, node: NodeOrd, attempt: Attempt) -> u64 {
    let doublings = attempt.0.saturating_sub(2).min(16);
    let plain = (FIRST_MS << doublings).min(LONGEST_MS);
    let seed = job.0 ^ u64::from(step.0) << 48 ^ u64::from(node.0) << 16 ^ u64::from(attempt.0);
    let spread = plain / 5;
    plain - spread + mix64(seed) % (2 * spread + 1)
}

#[cfg(test)]
mod tests {
    use super::backoff_ms;
    use grid_types::{Attempt, JobId, NodeOrd, StepIndex};

    #[test]
    fn retries_wait_longer_and_longer_up_to_half_a_minute() {
        let at = |attempt, node| backoff_ms(JobId(5), StepIndex(1), NodeOrd(node), Attempt(attempt));
        for (attempt, plain) in [(2, 1_000), (3, 2_000), (4, 4_000), (7, 30_000), (60, 30_000)] {
            for node in 0..50 {
                assert!((plain * 8 / 10..=plain * 12 / 10).contains(&at(attempt, node)), "{attempt} {node}");
            }
        }
        assert_ne!(at(2, 1), at(2, 2), "nodes do not retry in step");
        assert_eq!(at(3, 1), at(3, 1));
    }
}
