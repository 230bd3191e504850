//! Limits how many nodes may be in a phase at once (`concurrency`, J2).
//!
//! ```text
//!   Parked (its node is there) ──a place is free──► Queued, Leased … until the phase ends there
//!      ▲ │ goes, comes back                            │
//!      │ ▼                                             │ goes before its first lease
//!   Parked (its node is away, `offline: wait`) ◄───────┘
//! ```
//!
//! I8: never more nodes inside than the window has places. A place belongs to a node from its first lease on; one that is
//! waited for has none before, or a single machine that is switched off would hold up the whole rollout.
//! A node that is there but busy may hold a place without a lease yet: its turn has come, and it only queues.

use grid_types::{JobId, NodeOrd};

use crate::state::{CellState, Job};
use crate::turn::Turn;

impl Turn<'_> {
    pub fn park(&mut self, id: JobId, position: usize) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let away = self.state.nodes.get(&job.expected[position]).is_some_and(|node| job.waits_for(node));
        job.cells[position].state = CellState::Parked;
        job.park_at(position, away);
        self.windows.insert(id);
        self.touch_cell(id, position);
    }

    /// Lets nodes into the phase while there is room; each keeps its place until the phase ends there.
    pub fn fill_window(&mut self, id: JobId) {
        loop {
            let Some(job) = self.state.jobs.get_mut(&id) else { return };
            let Some(room) = job.window() else { return };
            if job.open.saturating_sub(job.outside()) >= room {
                return;
            }
            let Some(next) = job.parked.pop_first() else { return self.ask_for_the_others(id) };
            let position = usize::try_from(next).unwrap_or(usize::MAX);
            if let Some(cell) = job.cells.get_mut(position) {
                cell.state = CellState::Idle;
                self.walk_cell(id, position, 0);
            }
        }
    }

    /// A node came online or went offline: it waits for a place again, or gives up its turn where it has not begun.
    pub fn window_turned(&mut self, ord: NodeOrd) {
        let Some(node) = self.state.nodes.get_mut(&ord) else { return };
        for (id, job) in &mut self.state.jobs {
            let rolls = job.window().is_some();
            let Some(position) = job.position(ord).filter(|_| rolls) else { continue };
            let away = job.waits_for(node);
            match job.cells[position].state {
                CellState::Parked => job.park_at(position, away),
                CellState::Queued if away && !job.cells[position].entered => {
                    job.cells[position].state = CellState::Parked;
                    job.park_at(position, true);
                    node.waiting.remove(id);
                    self.changes.cells.insert((*id, u32::try_from(position).unwrap_or(u32::MAX)));
                }
                _ => continue,
            }
            self.windows.insert(*id);
            self.recheck.insert(*id);
        }
    }

    /// Stops waiting: a node that is away gets its turn like the others, and is then skipped.
    pub fn await_nobody(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        job.parked.append(&mut job.away);
        self.windows.insert(id);
    }
}

impl Job {
    /// How many nodes may be in the current phase at once, if not all. J13: a phase with `first` has a window, however wide.
    pub(crate) fn window(&self) -> Option<u32> {
        let (phase, nodes) = (self.current_phase()?, self.expected.len());
        self.spec.places(phase, nodes).or_else(|| self.spec.first_nodes(phase, nodes).map(|_| u32::MAX))
    }

    /// Open cells that have no place in the window.
    pub(crate) fn outside(&self) -> u32 {
        u32::try_from(self.parked.len() + self.away.len() + self.held_back.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn park_at(&mut self, position: usize, away: bool) {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        let is_held_back = usize::try_from(position).is_ok_and(|at| !self.is_admitted(at));
        self.parked.remove(&position);
        self.away.remove(&position);
        self.held_back.remove(&position);
        let to = match away {
            _ if is_held_back => &mut self.held_back,
            true => &mut self.away,
            false => &mut self.parked,
        };
        to.insert(position);
    }

    pub(crate) fn unpark(&mut self, position: usize) {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        self.parked.remove(&position);
        self.away.remove(&position);
        self.held_back.remove(&position);
    }
}
