//! A leader's term as the rest of the controller sees it, and its clock.
//!
//! Leader time goes on where the last term's entries left it and advances with the monotonic clock of the leader
//! (W6): a jump of the wall clock moves nothing, and time without a leader does not count.

mod elapsed;

use std::sync::Arc;

use grid_core::EntryHead;
use grid_types::LeaderEpoch;
use grid_types::clock::Clock;

pub use elapsed::Elapsed;

#[derive(Clone)]
pub struct Term {
    pub epoch: LeaderEpoch,
    /// The Raft term.
    pub term: u64,
    base_ms: u64,
    began_mono_ms: u64,
    clock: Arc<dyn Clock>,
}

impl Term {
    /// `base_ms`: where leader time stood.
    pub fn new(epoch: LeaderEpoch, term: u64, base_ms: u64, clock: Arc<dyn Clock>) -> Self {
        Self { epoch, term, base_ms, began_mono_ms: clock.mono_ms(), clock }
    }

    pub fn now_ms(&self) -> u64 {
        self.base_ms + self.clock.mono_ms().saturating_sub(self.began_mono_ms)
    }

    pub fn head(&self, commands: usize) -> EntryHead {
        EntryHead {
            epoch: self.epoch,
            term: self.term,
            now_ms: self.now_ms(),
            wall_ms: self.clock.wall_ms(),
            commands: u32::try_from(commands).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Term;
    use grid_types::LeaderEpoch;
    use grid_types::clock::Clock;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct HandClock {
        mono: AtomicU64,
        wall: AtomicU64,
    }

    impl Clock for HandClock {
        fn mono_ms(&self) -> u64 {
            self.mono.load(Ordering::Relaxed)
        }

        fn wall_ms(&self) -> u64 {
            self.wall.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn w6_leader_time_follows_the_monotonic_clock_and_goes_on_across_terms() {
        let clock = Arc::new(HandClock { mono: AtomicU64::new(500), wall: AtomicU64::new(9_000_000) });
        let term = Term::new(LeaderEpoch::default(), 1, 70_000, clock.clone());
        clock.mono.store(1_500, Ordering::Relaxed);
        clock.wall.store(1, Ordering::Relaxed);
        let head = term.head(1);
        assert_eq!((head.now_ms, head.wall_ms), (71_000, 1), "a wall clock that jumps moves no timeout");
        let next = Term::new(LeaderEpoch::default(), 2, head.now_ms, clock);
        assert_eq!(next.now_ms(), 71_000);
    }
}
