//! How a job ends, and what is left of it.
//!
//! J8: terminal is final within a job epoch. L8: the job leaves the state with its last cell; a stub stays behind.

use grid_types::job::Tolerance;
use grid_types::{JobId, JobStatus, Outcome, StepIndex};

use crate::apply::Turn;
use crate::effect::Effect;
use crate::state::{Job, Stub, Timer, Trip};

impl Turn<'_> {
    pub fn conclude(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let (status, reason) = match (self.verdict(job), job.left_out_missing()) {
            (verdict, 0) => verdict,
            ((_, reason), missing) => {
                let them = if missing == 1 { "node still misses" } else { "nodes still miss" };
                let rest = format!("{missing} other {them} parts: gridc job resume {id}");
                let before = reason.unwrap_or_else(|| "the retry is done".to_owned());
                (JobStatus::Failed, Some(format!("{before}; {rest}")))
            }
        };
        self.end_job(id, status, reason);
    }

    fn verdict(&self, job: &Job) -> (JobStatus, Option<String>) {
        let failed = job.head.failed.len();
        match &job.head.tripped {
            Some(Trip::JobTimeout) => {
                let limit = grid_types::Span::from_ms(job.spec.timeout_ms());
                (JobStatus::Failed, Some(format!("timeout: the job ran longer than {limit}")))
            }
            Some(Trip::FailFast { .. }) if job.spec.tolerance() != Tolerance::Nodes(0) => {
                let tolerated = job.spec.tolerance();
                let all = job.expected.len();
                (
                    JobStatus::Failed,
                    Some(format!("failed on {failed} of {all} nodes, more than the tolerated {tolerated}")),
                )
            }
            Some(Trip::FailFast { step, node }) => {
                let name = self.state.nodes.get(node).map_or_else(|| node.to_string(), |node| node.id.to_string());
                (JobStatus::Failed, Some(format!("step {step} failed on {name} (fail-fast)")))
            }
            None if failed == job.expected.len() => {
                (JobStatus::Failed, Some(format!("no node is left: all {failed} failed")))
            }
            None if job.head.offline_skips > 0 && job.total(Outcome::Success) == 0 => {
                let why =
                    if failed == 0 { "no node was reachable" } else { "no node is left: the others were offline" };
                (JobStatus::Failed, Some(why.to_owned()))
            }
            None if let Some(step) = job.head.unreached => {
                (JobStatus::Failed, Some(format!("no node was left or reachable for step {step}")))
            }
            None if job.head.only.is_some() && job.head.offline_skips > 0 => {
                (JobStatus::Failed, Some("nodes that were to be retried were offline".to_owned()))
            }
            None if failed > 0 => {
                (JobStatus::Completed, Some(format!("failed on {failed} of {} nodes", job.expected.len())))
            }
            None if !job.head.excluded.is_empty() => {
                let left_out = job.head.excluded.len();
                (JobStatus::Completed, Some(format!("{left_out} nodes were left out after an unknown outcome")))
            }
            None if job.head.offline_skips > 0 => (JobStatus::Completed, Some("offline nodes were skipped".to_owned())),
            None => (JobStatus::Completed, None),
        }
    }

    /// From now on the job can only clean up and fail: worth knowing before it has ended.
    pub fn tell_trip(&mut self, id: JobId) {
        let Some(job) = self.state.jobs.get(&id) else { return };
        let (_, reason) = self.verdict(job);
        self.record_event("JobTripped", id.to_string(), reason.unwrap_or_default());
    }

    /// Terminal, and final within this job epoch (J8). The job leaves the state when its last cell is closed.
    pub fn end_job(&mut self, id: JobId, status: JobStatus, reason: Option<String>) {
        let Some(job) = self.state.jobs.get_mut(&id) else { return };
        let text = format!("{status}: {}", reason.as_deref().unwrap_or("all done"));
        job.head.status = status;
        job.head.reason = reason;
        if job.open == 0 {
            self.decided.insert(id);
        }
        (job.head.gate, job.head.held, job.head.remaining_ms) = (None, None, None);
        if let Some(at) = job.head.deadline_ms.take() {
            self.drop_timer(at, Timer::JobDeadline(id));
        }
        self.state.pending.remove(&id);
        self.state.running.remove(&id);
        self.touch_job(id);
        self.record_event("JobEnded", id.to_string(), text);
    }

    /// L8: only a stub stays behind.
    pub fn retire(&mut self, id: JobId) {
        let Some(mut job) = self.state.jobs.remove(&id) else { return };
        job.head.ended_ms = self.state.meta.now_ms;
        let stub = Stub { epoch: job.head.epoch, status: job.head.status, ended_ms: job.head.ended_ms };
        self.state.stubs.insert(id, stub);
        if !job.expected.is_empty() {
            self.effects.push(Effect::Forget { job: id, nodes: job.expected.clone() });
        }
        self.changes.retired.push(job);
    }
}

impl Job {
    /// Nodes that a retry left alone and that have not done everything: what failed is mended, but the job is not whole.
    fn left_out_missing(&self) -> usize {
        if self.head.only.is_none() {
            return 0;
        }
        let steps = u32::try_from(self.spec.step_count()).unwrap_or(u32::MAX);
        let wanted: Vec<StepIndex> = (0..steps).map(StepIndex).filter(|step| !self.spec.is_cleanup(*step)).collect();
        let misses = |position: &usize| wanted.iter().any(|step| !self.is_done(*step, *position));
        (0..self.expected.len()).filter(|position| !self.takes_part(*position)).filter(misses).count()
    }
}
