//! Computes the digest of outstanding leases (W5): equal sets give equal digests in any order, so neither side has to sort.

use grid_types::LeaseKey;
use grid_types::ids::mix64;

/// Sum of a mixed hash per lease. Collisions only delay a repair until the sets change again, so 64 bits do.
#[must_use]
pub fn outstanding_digest<'a>(leases: impl IntoIterator<Item = &'a LeaseKey>) -> u64 {
    leases.into_iter().fold(0, |sum, lease| {
        let small = u64::from(lease.job_epoch.0) << 40 ^ u64::from(lease.step.0) << 20 ^ u64::from(lease.attempt.0);
        sum.wrapping_add(mix64(lease.job.0 ^ mix64(small)))
    })
}

#[cfg(test)]
mod tests {
    use super::outstanding_digest;
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    #[test]
    fn w5_the_digest_tells_sets_apart_and_ignores_order() {
        let key = |job, step, attempt| LeaseKey {
            job: JobId(job),
            job_epoch: JobEpoch(1),
            step: StepIndex(step),
            attempt: Attempt(attempt),
        };
        let (a, b, c) = (key(1, 0, 1), key(1, 1, 1), key(1, 0, 2));
        assert_eq!(outstanding_digest([&a, &b]), outstanding_digest([&b, &a]));
        assert_ne!(outstanding_digest([&a]), outstanding_digest([&c]));
        assert_ne!(outstanding_digest([&a]), outstanding_digest([&a, &b]));
        assert_eq!(outstanding_digest([]), 0);
    }
}
