//! Runs canaries: a phase with `first` begins on a few nodes, and on the others when an operator has confirmed it (J13).
//!
//! ```text
//!   phase begins ─► first nodes run it, the others are parked ─► through: the job waits for an operator
//!                        │ trip, timeout, cancel                      │ confirm
//!                        ▼                                            ▼
//!                   the others are skipped, as without `first`    the others are let in, as the window has room
//! ```
//!
//! The others are parked as if the window were full, so everything that holds for windows (nodes that go, trips, restores) holds
//! here. Which nodes are first is stored: it must not change while they run.
//! Not here: the number of nodes in a phase at once (`window`).

use grid_types::{Event, JobId};

use crate::state::{Bits, FirstNodes, Job, State};
use crate::turn::Turn;

impl Turn<'_> {
    /// Chooses the first nodes of the phase that is about to begin. `members`: by position, who takes part in it.
    pub fn choose_first(&mut self, id: JobId, members: &[bool]) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let first = first_of(self.state, job, members);
        if let Some(job) = self.state.jobs.get_mut(&id) {
            job.head.first = first.map(|nodes| FirstNodes { nodes, through: false });
        }
    }

    /// The first nodes may be through: then the others wait for an operator.
    pub fn ask_for_the_others(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let are_through = job.open > 0 && usize::try_from(job.open) == Ok(job.held_back.len());
        let Some(first) = job.head.first.as_mut().filter(|first| !first.through && are_through) else { return };
        first.through = true;
        let phase = job.head.phase;
        self.touch_job(id);
        self.record_job_event(id, Event::ConfirmationWanted { phase });
    }

    /// The others are admitted: an operator has confirmed the first nodes, or the job goes no further.
    pub fn admit_the_others(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        if job.head.first.take().is_none() {
            return;
        }
        for position in std::mem::take(&mut job.held_back) {
            let position = usize::try_from(position).unwrap_or(usize::MAX);
            let away = self.state.nodes.get(&job.expected[position]).is_some_and(|node| job.waits_for(node));
            job.park_at(position, away);
        }
        self.windows.insert(id);
        self.touch_job(id);
    }
}

impl Job {
    /// Whether a node may be let into the current phase, as far as its first nodes are concerned.
    pub(crate) fn is_admitted(&self, position: usize) -> bool {
        self.head.first.as_ref().is_none_or(|first| first.nodes.has(position))
    }
}

/// By their ids, those that are online before the others; none if nobody would be left to wait for them.
fn first_of(state: &State, job: &Job, members: &[bool]) -> Option<Bits> {
    let phase = job.current_phase()?;
    let count = usize::try_from(job.spec.first_nodes(phase, job.expected.len())?).unwrap_or(usize::MAX);
    let busy = (0..members.len()).filter(|at| members[*at] && job.has_work_at(phase, *at));
    let mut order: Vec<_> = busy
        .filter_map(|at| state.nodes.get(&job.expected[at]).map(|node| (!node.status.is_online(), &node.id, at)))
        .collect();
    if order.len() <= count {
        return None;
    }
    order.sort_unstable();
    let mut first = Bits::default();
    order.into_iter().take(count).for_each(|(_, _, at)| first.set(at));
    Some(first)
}

#[cfg(test)]
mod tests;
