//! Detects that a job that is watched makes no progress.
//!
//! A job makes no progress if it runs, nothing of it is on a node, and nothing has changed for [`QUIET`]: shorter pauses are the
//! work of a scheduler, which an operator need not know. The same holds for a job that has ended while a node still runs a step of it.
//! A job that waits for others to end is shown as pending at once, and after that treated like any other.

use std::time::{Duration, Instant};

use grid_types::Outcome;
use grid_types::api::JobDoc;

use crate::text::count;

const QUIET: Duration = Duration::from_secs(2);

pub struct Stall {
    since: Instant,
}

impl Stall {
    /// From now on it is quiet.
    pub fn begin() -> Self {
        Self { since: Instant::now() }
    }

    pub fn is_still(&self, doc: &JobDoc) -> bool {
        let waits = doc.status.is_ended() == (count(&doc.counts, Outcome::Running) > 0);
        waits && self.since.elapsed() > QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::{QUIET, Stall};
    use crate::samples::job;

    #[test]
    fn a_job_stands_still_if_it_goes_on_with_nothing_running_or_has_ended_with_something() {
        let mut stall = Stall::begin();
        let waits = job("running", &[("success", 1), ("pending", 2)]);
        assert!(!stall.is_still(&waits), "it has only just become quiet");
        stall.since -= QUIET * 2;
        assert!(stall.is_still(&waits));
        assert!(stall.is_still(&job("pending", &[("pending", 3)])));
        assert!(!stall.is_still(&job("running", &[("running", 1), ("pending", 2)])));
        assert!(!stall.is_still(&job("failed", &[("failed", 3)])));
        assert!(stall.is_still(&job("cancelled", &[("cancelled", 2), ("running", 1)])));
    }
}
