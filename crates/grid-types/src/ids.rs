//! Ids and epochs. Newtypes, so that a step cannot be used as an attempt.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize)]
        #[cbor(transparent)]
        #[serde(transparent)]
        pub struct $name(#[n(0)] pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A node's number, assigned at its first registration and never reused.
    NodeOrd(u32)
);
number!(
    /// One registration of one worker process.
    SessionId(u64)
);
number!(
    /// The flat, depth-first index of a leaf.
    StepIndex(u32)
);
number!(
    /// The number of an attempt of a step on a node, from 1.
    Attempt(u32)
);
number!(
    /// Rises each time a job's outstanding leases are invalidated, from 1.
    JobEpoch(u32)
);

impl JobEpoch {
    /// The epoch that follows.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// E2: ordered `(generation, n)`; on the wire one integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub struct LeaderEpoch {
    /// Rises with a restore or a forced new cluster.
    #[n(0)]
    pub generation: u32,
    /// Rises with each new leader.
    #[n(1)]
    pub n: u32,
}

impl LeaderEpoch {
    /// The epoch of the next leader, in the same generation.
    #[must_use]
    pub fn next(self) -> Self {
        Self { generation: self.generation, n: self.n + 1 }
    }

    /// As one integer: `generation << 32 | n`.
    #[must_use]
    pub fn wire(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.n)
    }

    /// From one integer.
    #[must_use]
    pub fn from_wire(wire: u64) -> Self {
        let low = u32::try_from(wire & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        let high = u32::try_from(wire >> 32).unwrap_or(u32::MAX);
        Self { generation: high, n: low }
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.wire().fmt(f)
    }
}

/// The id of a job: 42 bits of milliseconds and 22 random bits, so that rows arrive in key order and a restored cluster never
/// assigns an old id to a new job. Written as `job-` and 13 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(transparent)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(#[n(0)] pub u64);

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const JOB_PREFIX: &str = "job-";

/// A text that is not a job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a job id: it looks like job-0c5t9v3k2m7qa")]
pub struct BadJobId(String);

impl JobId {
    /// 2020-01-01, so that 42 bits last until 2159.
    const ORIGIN_MS: u64 = 1_577_836_800_000;

    /// The time that an id begins with, in milliseconds since 1970.
    #[must_use]
    pub fn minted_ms(self) -> u64 {
        if self.0 == 0 { 0 } else { (self.0 >> 22).saturating_add(Self::ORIGIN_MS) }
    }

    /// The next id: by time, random in its low bits, and above every earlier one.
    #[must_use]
    pub fn mint(wall_ms: u64, random: u32, last: Option<JobId>) -> Self {
        let fresh = wall_ms.saturating_sub(Self::ORIGIN_MS) << 22 | u64::from(random & 0x3f_ffff);
        let fresh = fresh & (i64::MAX as u64);
        Self(last.map_or(fresh, |last| fresh.max(last.0 + 1)))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(JOB_PREFIX)?;
        for i in (0..13).rev() {
            let digit = usize::try_from(self.0 >> (5 * i) & 31).unwrap_or(0);
            write!(f, "{}", char::from(ALPHABET[digit]))?;
        }
        Ok(())
    }
}

impl FromStr for JobId {
    type Err = BadJobId;

    fn from_str(text: &str) -> Result<Self, BadJobId> {
        let bad = || BadJobId(text.chars().take(40).collect());
        let digits = text.strip_prefix(JOB_PREFIX).filter(|d| d.len() == 13).ok_or_else(bad)?;
        let mut value: u128 = 0;
        for byte in digits.bytes() {
            let digit = ALPHABET.iter().position(|a| *a == byte).ok_or_else(bad)?;
            value = value << 5 | digit as u128;
        }
        // SQLite's integers are signed, so the top bit stays free.
        u64::try_from(value).ok().filter(|v| i64::try_from(*v).is_ok()).map(Self).ok_or_else(bad)
    }
}

impl TryFrom<String> for JobId {
    type Error = BadJobId;

    fn try_from(text: String) -> Result<Self, BadJobId> {
        text.parse()
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.to_string()
    }
}

/// Identifies one attempt of one step on one node; the node is known from the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct LeaseKey {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// The job epoch that it was granted in.
    #[n(1)]
    pub job_epoch: JobEpoch,
    /// The step.
    #[n(2)]
    pub step: StepIndex,
    /// The attempt.
    #[n(3)]
    pub attempt: Attempt,
}

/// Spreads the bits of a number evenly: the finalizer of splitmix64. Deterministic, and not a secret.
#[must_use]
pub fn mix64(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl LeaseKey {
    /// The smallest one, for ranges.
    pub const FIRST: Self = Self { job: JobId(0), job_epoch: JobEpoch(0), step: StepIndex(0), attempt: Attempt(0) };
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.job, self.job_epoch, self.step, self.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::{JobId, LeaderEpoch};

    #[test]
    fn job_ids_round_trip_and_rise() {
        let first = JobId::mint(1_790_000_000_000, u32::MAX, None);
        let second = JobId::mint(1_780_000_000_000, 0, Some(first));
        assert!(second > first, "a clock that went back must not lower ids");
        for id in [first, second, JobId(0), JobId(i64::MAX as u64)] {
            assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        }
        for bad in ["", "job-", "job-0", "job-zzzzzzzzzzzzz", "0123456789abc", "job-o123456789abc"] {
            assert!(bad.parse::<JobId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn e2_epochs_are_ordered_by_generation_first() {
        let old = LeaderEpoch { generation: 1, n: 900 };
        let new = LeaderEpoch { generation: 2, n: 1 };
        assert!(new > old && new.wire() > old.wire());
        assert_eq!(LeaderEpoch::from_wire(new.wire()), new);
    }
}
