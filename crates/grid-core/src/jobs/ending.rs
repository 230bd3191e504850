//! Ends a job, and decides what is kept of it.
//!
//! J8: terminal is final within a job epoch. L8: the job leaves the state with its last cell; a stub stays behind.

use grid_types::job::Tolerance;
use grid_types::{Event, JobId, JobStatus, Outcome, Reason, StepIndex};

use crate::effect::Effect;
use crate::state::{Job, Stub, Timer, Trip};
use crate::turn::Turn;

impl Turn<'_> {
    pub fn conclude(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let (status, reason) = match (self.verdict(job), count(job.left_out_missing())) {
            (verdict, 0) => verdict,
            ((_, rest), nodes) => {
                (JobStatus::Failed, Some(Reason::RetryIncomplete { rest: rest.map(Box::new), nodes }))
            }
        };
        self.end_job(id, status, reason);
    }

    fn verdict(&self, job: &Job) -> (JobStatus, Option<Reason>) {
        let (failed, nodes) = (count(job.head.failed.len()), count(job.expected.len()));
        let offline = job.head.offline_skips > 0;
        let reason = match &job.head.tripped {
            Some(Trip::JobTimeout) => Reason::JobTimedOut { limit_ms: job.spec.timeout_ms() },
            Some(Trip::FailFast { .. }) if job.spec.tolerance() != Tolerance::Nodes(0) => {
                Reason::ToleranceExceeded { failed, nodes, tolerated: job.spec.tolerance() }
            }
            Some(Trip::FailFast { step, node, outcome }) => match self.state.nodes.get(node) {
                Some(node) => Reason::StepFailed { step: *step, node: node.id.clone(), outcome: *outcome },
                None => Reason::SomeFailed { failed, nodes },
            },
            None if failed == nodes => Reason::AllFailed { nodes },
            None if offline && !job.has_done_anything() && failed == 0 => Reason::NobodyReachable,
            None if offline && !job.has_done_anything() => Reason::OthersOffline,
            None if let Some(step) = job.head.unreached => Reason::PhaseUnreached { step },
            None if job.scope.only.is_some() && offline => Reason::RetriedOffline,
            None if failed > 0 => return (JobStatus::Completed, Some(Reason::SomeFailed { failed, nodes })),
            None if !job.head.excluded.is_empty() => {
                let nodes = count(job.head.excluded.len());
                return (JobStatus::Completed, Some(Reason::UnknownLeftOut { nodes }));
            }
            None => return (JobStatus::Completed, None),
        };
        (JobStatus::Failed, Some(reason))
    }

    /// From now on the job can only clean up and fail: worth knowing before it has ended.
    pub fn tell_trip(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let (_, reason) = self.verdict(job);
        self.record_job_event(id, Event::JobTripped { reason });
    }

    /// Terminal, and final within this job epoch (J8). The job leaves the state when its last cell is closed.
    pub fn end_job(&mut self, id: JobId, status: JobStatus, reason: Option<Reason>) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        // J11: however it ended, nobody is left out in silence.
        let reason = match job.head.skipped_offline.count() {
            0 => reason,
            nodes => Some(Reason::SkippedOffline { rest: reason.map(Box::new), nodes }),
        };
        job.head.status = status;
        job.head.reason.clone_from(&reason);
        job.head.ended_wall_ms = Some(self.state.meta.wall_ms);
        if job.open == 0 {
            self.decided.insert(id);
        }
        (job.head.gate, job.head.held, job.head.remaining_ms) = (None, None, None);
        if let Some(at) = job.head.deadline_ms.take() {
            self.drop_timer(at, Timer::JobDeadline(id));
        }
        self.admit_the_others(id);
        self.state.pending.remove(&id);
        self.state.running.remove(&id);
        self.touch_job(id);
        self.record_job_event(id, Event::JobEnded { status, reason });
    }

    /// L8: only a stub stays behind.
    pub fn retire(&mut self, id: JobId) {
        let Some(mut job) = self.state.jobs.remove(&id) else { return };
        job.head.ended_ms = self.state.meta.now_ms;
        let stub = Stub { epoch: job.head.epoch, status: job.head.status, ended_ms: job.head.ended_ms };
        self.state.stubs.insert(id, stub);
        if job.head.restored.is_some() {
            job.head.complete_journals = Some(self.complete_journals(&job));
            self.forget_past(id);
        }
        if !job.expected.is_empty() {
            self.effects.push(Effect::Forget { job: id, epoch: job.head.epoch, nodes: job.expected.clone() });
        }
        self.changes.retired.push(job);
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

impl Job {
    /// Whether any step has succeeded that is not there for failures only.
    fn has_done_anything(&self) -> bool {
        let counted = self.spec.steps().zip(&self.head.tallies);
        counted.filter(|(step, _)| !self.spec.cleans_up(*step)).any(|(_, tally)| tally.count(Outcome::Success) > 0)
    }

    /// Nodes that a retry left alone and that have not done everything: what failed is mended, but the job is not whole.
    fn left_out_missing(&self) -> usize {
        if self.scope.only.is_none() {
            return 0;
        }
        let steps = u32::try_from(self.spec.step_count()).unwrap_or(u32::MAX);
        let wanted: Vec<StepIndex> = (0..steps).map(StepIndex).filter(|step| !self.spec.is_cleanup(*step)).collect();
        let misses = |position: &usize| {
            wanted.iter().any(|step| !self.is_done(*step, *position) && !self.was_unchanged(*step, *position))
        };
        (0..self.expected.len()).filter(|position| !self.takes_part(*position)).filter(misses).count()
    }
}
