//! Holds what a run of a job has to do: all of it, or only what an earlier run left open.
//!
//! Fixed when the run begins and as large as steps × nodes. So it is stored with the expected nodes, not in the head,
//! which every batch writes.

use std::collections::BTreeMap;

use grid_types::StepIndex;
use minicbor::{Decode, Encode};

use super::Bits;

/// What a run of a job covers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Scope {
    /// Positions in `expected` that had succeeded when the job was resumed, per step.
    #[n(0)]
    pub done: BTreeMap<StepIndex, Bits>,
    /// Of a retry: positions in `expected` that take part in this run.
    #[n(1)]
    pub only: Option<Bits>,
    /// Positions in `expected` where an earlier run skipped a step because nothing had changed (`condition: on_changed`).
    #[n(2)]
    #[cbor(default)]
    pub unchanged: BTreeMap<StepIndex, Bits>,
    /// Positions in `expected` where an attempt of an earlier run may have changed something and its step is not done
    /// (`condition: on_changed`). None if there are none: it then takes no room in the encoding.
    #[n(3)]
    pub changed: Option<BTreeMap<StepIndex, Bits>>,
}
