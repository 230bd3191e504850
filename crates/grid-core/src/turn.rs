//! Holds one entry while it is applied (`Turn`): what commands and the rules of jobs and nodes work on.
//!
//! A rule changes the state through it, adds the effects and rows that follow, and names what has to be looked at again
//! before the entry is done (`apply` does that). The rules are `impl Turn` blocks in the modules that they belong to.
//! Not here: the order in which things are settled (`apply`), the rules themselves (`jobs`, `nodes`, `commands`).

mod events;

use std::collections::{BTreeMap, BTreeSet};

use grid_types::{JobId, NodeOrd, Outcome, Reason, StepIndex};

use crate::changes::Changes;
use crate::effect::Effect;
use crate::state::{State, Timer};

/// One entry being applied: the state, what is to be sent and stored, and what still has to be looked at.
pub(crate) struct Turn<'a> {
    pub state: &'a mut State,
    pub effects: Vec<Effect>,
    pub changes: Changes,
    /// Nodes that may have a free slot and a waiting job.
    pub wake: BTreeSet<NodeOrd>,
    /// Of those, nodes that are there: served when it is known what became of the others (J1).
    pub serve: BTreeSet<NodeOrd>,
    /// Jobs without an open cell: their phase is decided.
    pub decided: BTreeSet<JobId>,
    /// Jobs whose window may have room (J2).
    pub windows: BTreeSet<JobId>,
    /// Jobs that may have stalled or gone on (J3).
    pub recheck: BTreeSet<JobId>,
    /// Failed steps, as far as they are recorded.
    pub failures: Failures,
    /// Queued cells of restored jobs: a journal may know how they ended (E2).
    pub recall: BTreeSet<(JobId, usize)>,
    /// Cells of restored jobs: a journal may know of later steps (E2).
    pub ahead: BTreeSet<(JobId, usize)>,
}

impl<'a> Turn<'a> {
    pub fn new(state: &'a mut State) -> Self {
        Self {
            state,
            effects: Vec::new(),
            changes: Changes::default(),
            wake: BTreeSet::new(),
            serve: BTreeSet::new(),
            decided: BTreeSet::new(),
            windows: BTreeSet::new(),
            recheck: BTreeSet::new(),
            failures: Failures::default(),
            recall: BTreeSet::new(),
            ahead: BTreeSet::new(),
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.state.meta.now_ms
    }

    pub fn set_timer(&mut self, at_ms: u64, timer: Timer) {
        self.state.timers.insert((at_ms, timer));
    }

    pub fn drop_timer(&mut self, at_ms: u64, timer: Timer) {
        self.state.timers.remove(&(at_ms, timer));
    }

    /// A cell is to be stored, and so is its job.
    pub fn touch_cell(&mut self, id: JobId, position: usize) {
        self.changes.cells.insert((id, u32::try_from(position).unwrap_or(u32::MAX)));
        self.touch_job(id);
        if self.state.jobs.get(&id).is_some_and(|job| job.head.restored.is_some()) {
            self.ahead.insert((id, position));
        }
    }

    /// A job's head is to be stored, and it may have stalled or gone on.
    pub fn touch_job(&mut self, id: JobId) {
        let (wall_ms, epoch) = (self.state.meta.wall_ms, self.state.meta.leadership.epoch);
        if let Some(job) = self.state.jobs.get_mut(&id) {
            job.head.updated_wall_ms = wall_ms;
            job.head.leader_epoch = epoch;
            self.changes.jobs.insert(id);
            self.recheck.insert(id);
        }
    }
}

/// The failed steps that this entry has recorded so far (`jobs::failed_steps`).
#[derive(Default)]
pub(crate) struct Failures {
    /// The newest failed attempt of a node, and why it failed.
    pub reports: BTreeMap<(JobId, NodeOrd), (Option<Reason>, Option<String>)>,
    /// Where the event of a group is in the entry's history. The reason is in its encoding, which has an order.
    pub groups: BTreeMap<(JobId, StepIndex, Outcome, Vec<u8>), usize>,
}
