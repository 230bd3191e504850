//! Records how far the journal was written: a small file beside it, without which a journal cut between two records looks whole.
//!
//! Written after each append, never synced for it: a `kill -9` keeps the order of completed writes, so afterwards the
//! journal is at least as long as this says. A power cut may keep one and lose the other; then the journal counts as
//! damaged if it is shorter, and only then.
//! Compaction announces the new file here before it takes the place of the old one, so that a crash between the two
//! finds either of them known.
//! It also names the boot of the machine: within one boot, torn bytes beyond the recorded length are an append that was
//! cut off before anybody acted on it. In another boot this file itself may be stale, and they are damage.

use super::frame::{Damage, Scan};

const BYTES: usize = 44;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) machine_boot: u64,
    pub(super) current: Written,
    /// About to take the place of `current`.
    pub(super) next: Written,
}

/// A journal file and how much of it is written. No bytes: there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) seed: u64,
    pub(super) len_bytes: u64,
}

impl Extent {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let Self { machine_boot, current, next } = self;
        let mut bytes = [0; BYTES];
        let numbers = [*machine_boot, current.seed, current.len_bytes, next.seed, next.len_bytes];
        for (at, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            at.copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[..BYTES - 4]);
        bytes[BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (numbers, sum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(numbers) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let machine_boot = numbers.next()?;
        let current = Written { seed: numbers.next()?, len_bytes: numbers.next()? };
        let next = Written { seed: numbers.next()?, len_bytes: numbers.next()? };
        Some(Self { machine_boot, current, next })
    }
}

/// Whether the journal of `total_bytes` is all that was written of it. `recorded`: the file beside it.
pub(super) fn check(scan: &Scan, total_bytes: usize, recorded: &[u8], machine_boot: u64) -> Result<(), Damage> {
    let extent = Extent::decode(recorded).ok_or(Damage::Unrecorded)?;
    let of_this = |written: &&Written| written.len_bytes > 0 && written.seed == scan.seed;
    let written = [&extent.current, &extent.next].into_iter().find(of_this).ok_or(Damage::Unrecorded)?;
    let good_bytes = scan.good_bytes as u64;
    if good_bytes < written.len_bytes {
        return Err(Damage::Short { good_bytes, written_bytes: written.len_bytes });
    }
    // Zero: the machine does not tell.
    let same_boot = machine_boot != 0 && extent.machine_boot == machine_boot;
    if scan.good_bytes < total_bytes && !same_boot {
        return Err(Damage::Torn { good_bytes });
    }
    Ok(())
}
