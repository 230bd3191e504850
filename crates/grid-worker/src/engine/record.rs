//! Defines what the journal records. Numbers are never reused: an older file must stay readable.

use grid_proto::v1;
use grid_types::decl::EffectClass;
use grid_types::{Detail, JobEpoch, JobId, LeaderEpoch, LeaseKey};
use minicbor::{Decode, Encode};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// The highest leader epoch this worker obeyed (W2).
    #[n(0)]
    Epoch(#[n(0)] LeaderEpoch),
    /// Before anything of the lease runs (W3).
    #[n(1)]
    Started {
        #[n(0)]
        lease: LeaseKey,
        #[n(1)]
        effect: EffectClass,
        #[n(2)]
        at_ms: u64,
    },
    /// A process of the lease, so that the next start of this worker can end it.
    #[n(2)]
    Forked {
        #[n(0)]
        lease: LeaseKey,
        #[n(1)]
        group: Group,
    },
    /// Nothing of the lease runs any more.
    #[n(3)]
    Ended {
        #[n(0)]
        lease: LeaseKey,
        #[n(1)]
        ended: Ended,
        /// All of its output, if that is short: it is in no file.
        #[n(2)]
        #[cbor(with = "minicbor::bytes", default)]
        output: Vec<u8>,
    },
    /// Must not run (any more), seen before or not.
    #[n(4)]
    Revoked {
        #[n(0)]
        lease: LeaseKey,
    },
    /// The leader gave its final answer (W4).
    #[n(5)]
    Settled {
        #[n(0)]
        lease: LeaseKey,
        #[n(1)]
        at_ms: u64,
    },
    /// The job ended, and the leader asks no more about its leases up to this epoch.
    #[n(6)]
    Forgotten {
        #[n(0)]
        job: JobId,
        #[n(1)]
        epoch: JobEpoch,
        #[n(2)]
        at_ms: u64,
        /// What the records before this one say about these leases is kept. Older versions dropped it.
        #[n(3)]
        #[cbor(default)]
        leases_kept: bool,
    },
    /// Of jobs up to this one something was dropped for good (W2): what is not named may have run.
    #[n(7)]
    Dropped {
        #[n(0)]
        up_to: JobId,
    },
    /// It did not start, and the leader took it back: as if it had never been offered (W3).
    #[n(8)]
    Unstarted {
        #[n(0)]
        lease: LeaseKey,
    },
}

/// A process group, distinguished from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Group {
    /// Also the process id of its first process.
    #[n(0)]
    pub pgid: u32,
    /// Start of the first process in clock ticks since the machine booted.
    #[n(1)]
    pub start_ticks: u64,
    /// Which boot of the machine.
    #[n(2)]
    pub machine_boot: u64,
}

/// How a lease ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Ended {
    #[n(0)]
    pub status: Status,
    #[n(1)]
    pub error: String,
    #[n(2)]
    pub duration_ms: u64,
    /// Wall clock, for display.
    #[n(3)]
    pub started_at_ms: u64,
    #[n(4)]
    pub output_bytes: u64,
    /// Some of the output is kept nowhere.
    #[n(5)]
    #[cbor(default)]
    pub output_truncated: bool,
    /// What else is known.
    #[n(6)]
    pub detail: Option<Detail>,
}

impl Ended {
    /// Of a lease of which nothing ran, or nobody saw the end.
    #[must_use]
    pub fn without_run(status: Status, error: &str, started_at_ms: u64) -> Self {
        Self {
            status,
            error: error.to_owned(),
            duration_ms: 0,
            started_at_ms,
            output_bytes: 0,
            output_truncated: false,
            detail: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Status {
    #[n(0)]
    Success,
    #[n(1)]
    Failed,
    #[n(2)]
    TimedOut,
    #[n(3)]
    Unknown,
    #[n(4)]
    Cancelled,
}

impl From<Status> for v1::LeaseStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Success => Self::Success,
            Status::Failed => Self::Failed,
            Status::TimedOut => Self::TimedOut,
            Status::Unknown => Self::Unknown,
            Status::Cancelled => Self::Cancelled,
        }
    }
}
