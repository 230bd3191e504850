//! Pauses a job while all of it waits: for an operator's confirmation, for steps that an operator has to resolve, for nodes that are
//! offline (J3).
//!
//! ```text
//!   running ──everything open waits──► stalled (no place in admission; no deadline while it waits for an operator)
//!      ▲                                  │
//!      └── confirm, resolve, node back ───┘
//! ```
//!
//! A job that goes on takes its place back at once, even past `max_concurrent`: it was admitted long ago, and no new one
//! starts until the number has come down again.

use grid_types::job::Phase;
use grid_types::node::NodeStatus;
use grid_types::{Event, JobId, JobStatus, NodeOrd};

use super::why::wait_of;
use crate::state::Timer;
use crate::turn::Turn;

impl Turn<'_> {
    /// Whether a phase may begin, or first needs an operator's confirmation. Nobody is asked about a phase with nothing left to do.
    pub fn passes_gate(&mut self, id: JobId, phase: u32, entered: &Phase) -> bool {
        let Some(job) = self.state.jobs.get_mut(&id) else { return false };
        if !entered.confirm || phase < job.head.confirmed || !job.has_work(entered) {
            return true;
        }
        job.head.gate = Some(phase);
        self.touch_job(id);
        self.record_job_event(id, Event::ConfirmationWanted { phase });
        false
    }

    /// Takes stalled jobs out of admission and the others back in. Returns whether a place has become free.
    pub fn update_pauses(&mut self) -> bool {
        let mut freed = false;
        for id in std::mem::take(&mut self.recheck) {
            let Some(job) = self.state.jobs.get(&id).filter(|job| job.head.status == JobStatus::Running) else {
                continue;
            };
            let (stalled, person) = (job.is_stalled(), job.waits_for_a_person());
            if stalled && self.state.running.contains(&id) {
                let wait = wait_of(self.state, job);
                self.state.running.remove(&id);
                freed = true;
                if let Some(wait) = wait {
                    self.record_job_event(id, Event::JobPaused { wait });
                }
            } else if !stalled && self.state.running.insert(id) {
                self.record_job_event(id, Event::JobContinued);
            }
            self.pause_deadline(id, person);
        }
        freed
    }

    /// J3: a wait for an operator does not count against the job's timeout.
    fn pause_deadline(&mut self, id: JobId, person: bool) {
        let now_ms = self.now_ms();
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        match (person, job.head.deadline_ms, job.head.remaining_ms) {
            (true, Some(at), _) => {
                job.head.remaining_ms = Some(at.saturating_sub(now_ms));
                job.head.deadline_ms = None;
                self.drop_timer(at, Timer::JobDeadline(id));
            }
            (false, None, Some(left)) => {
                let at = now_ms.saturating_add(left);
                job.head.deadline_ms = Some(at);
                job.head.remaining_ms = None;
                self.set_timer(at, Timer::JobDeadline(id));
            }
            _ => return,
        }
        self.touch_job(id);
    }

    /// A node has come or gone: jobs that wait for it stall or go on.
    pub fn node_turned(&mut self, ord: NodeOrd, was: NodeStatus) {
        let Some(node) = self.state.nodes.get(&ord) else { return };
        let (was_away, is_away) = (was.is_away(), node.status.is_away());
        self.journal_turned(ord);
        if was_away == is_away {
            return;
        }
        self.window_turned(ord);
        let Some(node) = self.state.nodes.get(&ord) else { return };
        for id in &node.waiting {
            let Some(job) = self.state.jobs.get_mut(id) else { continue };
            if job.waits_for(node) {
                job.blocked += 1;
            } else if job.may_wait() {
                job.blocked = job.blocked.saturating_sub(1);
            }
            self.recheck.insert(*id);
        }
    }
}

#[cfg(test)]
mod tests;
