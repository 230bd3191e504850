//! Decides which leader epochs restores of a cluster can explain (E2).
//!
//! An epoch on the wire is `generation << 32 | n`. A forged one must not supersede a cluster for good, and must not use up the
//! 32 bits of a generation: the next restore has to rise above the highest generation that is known.
//!
//! - A restore raises the generation of its backup by one. A cluster that sees a generation d above the newest that it knows
//!   has missed a chain of d restores, each made from a backup of the one before. [`GENERATION_STEP`] allows 64 such restores, five
//!   years of one a month, and a forger needs 2^26 superseded clusters, each lifted by an operator, to reach the end of the range.
//! - In a *higher* generation any `n` is believed. Its epochs begin with the time of the restore as the restored controller read
//!   it, and this controller's clock may be years behind: bounded by it, this cluster would never be superseded. Nothing is lost:
//!   a caller that can show a generation can show it with a small `n` as well.
//! - In the *own* generation `n` tells two restores of one backup apart, and leaders of this cluster count on in it. There
//!   it is bounded by the time now: no leader and no restore of this generation has reached an `n` that is still to come.

/// How far a generation may lie above the newest known one.
pub const GENERATION_STEP: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlausibleEpochs {
    pub own_generation: u32,
    /// The highest that is known here, recorded and lifted ones included.
    pub newest_generation: u32,
    /// The highest `n` that is believed in the own generation.
    pub most_n: u32,
}

impl PlausibleEpochs {
    #[must_use]
    pub fn contains(&self, epoch: u64) -> bool {
        let (generation, n) = (epoch >> 32, epoch & u64::from(u32::MAX));
        let is_reachable = generation <= u64::from(self.newest_generation) + u64::from(GENERATION_STEP);
        is_reachable && (generation != u64::from(self.own_generation) || n <= u64::from(self.most_n))
    }
}

#[cfg(test)]
mod tests {
    use super::{GENERATION_STEP, PlausibleEpochs};

    #[test]
    fn e2_n_is_bounded_in_the_own_generation_only_and_generations_always_are() {
        let plausible = PlausibleEpochs { own_generation: 3, newest_generation: 5, most_n: 1_000 };
        let contains = |generation: u64, n: u32| plausible.contains(generation << 32 | u64::from(n));
        assert!(contains(3, 1_000) && !contains(3, 1_001));
        assert!(contains(4, u32::MAX) && contains(6, u32::MAX), "its clock may be years ahead of this one");
        let highest = 5 + u64::from(GENERATION_STEP);
        assert!(contains(highest, 1) && !contains(highest + 1, 1) && !contains(u64::from(u32::MAX), 1));
        let last = PlausibleEpochs { newest_generation: u32::MAX, ..plausible };
        assert!(last.contains(u64::MAX), "no overflow at the end of the range");
    }
}
