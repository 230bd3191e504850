//! `ConfirmJob`: an operator lets a phase begin, or go on beyond its first nodes (J13), or a restored job go on. For one wait of one job, and once.

use grid_types::{Event, JobId, JobStatus, Name};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// Lets a phase with `confirm` begin, one with `first` go on (J13), or a restored job continue (E2).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ConfirmJob {
    /// The namespace of the job.
    #[n(0)]
    pub namespace: Name,
    /// The job to confirm.
    #[n(1)]
    pub job: JobId,
    /// The phase the person saw; none: whichever waits.
    #[n(2)]
    pub phase: Option<u32>,
    /// Only a job that is held is meant, no phase (E2).
    #[n(3)]
    pub held: Option<bool>,
    /// Of a held job: `once` steps that may have run already are to run again.
    #[n(4)]
    #[cbor(default)]
    pub rerun_once: bool,
}

impl ConfirmJob {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let job = turn.live_job(&self.namespace, self.job)?;
        if job.head.held.is_some() {
            return self.release(turn);
        }
        if self.held == Some(true) {
            return Err(Rejection::NotWaiting(format!("{} is not held", self.job)));
        }
        let is_begun = job.head.gate.is_none();
        let asked = job.head.waiting_phase();
        let waiting = asked.filter(|gate| self.phase.is_none_or(|phase| phase == *gate));
        let Some(phase) = waiting else {
            return Err(match asked {
                None => Rejection::NotWaiting(format!("{} does not wait for a confirmation", self.job)),
                Some(gate) => Rejection::NotWaiting(format!("{} waits for phase {gate} to be confirmed", self.job)),
            });
        };
        let asks_twice = job.current_phase().is_some_and(|phase| phase.confirm);
        if is_begun && asks_twice && self.phase.is_some() {
            // A repeated confirmation of the phase's begin must not admit the other nodes.
            return Err(Rejection::NotWaiting(format!(
                "phase {phase} of {0} has begun and waits for its other nodes; confirm them without a phase: gridc job confirm {0}",
                self.job
            )));
        }
        if is_begun {
            turn.record_job_event(self.job, Event::PhaseConfirmed { phase });
            turn.admit_the_others(self.job);
            return Ok(Reply::Moved { job: self.job, status: JobStatus::Running });
        }
        if let Some(job) = turn.state.jobs.get_mut(&self.job) {
            job.head.gate = None;
            job.head.confirmed = phase + 1;
        }
        turn.touch_job(self.job);
        turn.record_job_event(self.job, Event::PhaseConfirmed { phase });
        turn.enter_phase(self.job, phase);
        Ok(Reply::Moved { job: self.job, status: JobStatus::Running })
    }

    fn release(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        if let Some(phase) = self.phase {
            let what = format!(
                "{0} is held since it was restored from a backup; confirm that first, without phase {phase}: gridc job \
                 confirm {0}",
                self.job
            );
            return Err(Rejection::NotWaiting(what));
        }
        turn.release(self.job, self.rerun_once);
        turn.record_job_event(self.job, Event::JobReleased);
        let status = turn.state.jobs.get(&self.job).map_or(JobStatus::Running, |job| job.head.status);
        Ok(Reply::Moved { job: self.job, status })
    }
}
