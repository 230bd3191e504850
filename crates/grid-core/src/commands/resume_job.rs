//! `ResumeJob`: an ended job goes on under a new epoch and runs only what is not done: what failed, timed out, was
//! cancelled, skipped, is unknown, or was never reached. With `only` it is a retry: the same, on those nodes alone.
//!
//! L8: of an ended job only a stub is here; the command carries what the leader read of it, and counts only if the job has
//! not moved since. A clean-up is never done for good: it is wanted again when the next run fails. Its nodes are those of the first run: a resumed job does not grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use grid_types::job::JobSpec;
use grid_types::limits::MAX_RUNS;
use grid_types::{Event, JobEpoch, JobId, JobStatus, Name, NodeOrd, RunKind, StepIndex};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::state::{Bits, Job, JobHead, Restored, Scope};
use crate::turn::Turn;

/// Begins the next run of an ended job (J8).
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ResumeJob {
    /// The namespace of the job.
    #[n(0)]
    pub namespace: Name,
    /// The job that ended.
    #[n(1)]
    pub job: JobId,
    /// The epoch in which it ended.
    #[n(2)]
    pub epoch: JobEpoch,
    /// Its spec, which does not change.
    #[n(3)]
    pub spec: JobSpec,
    /// The nodes of its first run.
    #[n(4)]
    pub expected: Vec<NodeOrd>,
    /// Per step, positions in `expected` that succeeded.
    #[n(5)]
    pub done: BTreeMap<StepIndex, Bits>,
    /// When the job was submitted.
    #[n(6)]
    pub created_wall_ms: u64,
    /// Positions in `expected` that take part; none: all of them.
    #[n(7)]
    pub only: Option<Bits>,
    /// It is from before a restore: what ran of it after the backup is not known here. `Some(true)`: an operator allowed
    /// `once` steps that may have run already to run again (E2).
    #[n(8)]
    pub restored: Option<bool>,
    /// The run that ended (J8).
    #[n(9)]
    #[cbor(default)]
    pub run: u32,
    /// E2: of a restored job, positions in `expected` whose journals were complete while it was held, in this generation.
    #[n(10)]
    pub complete_journals: Option<Bits>,
    /// Per step, positions in `expected` where it was skipped because nothing had changed (`condition: on_changed`).
    #[n(11)]
    #[cbor(default)]
    pub unchanged: BTreeMap<StepIndex, Bits>,
    /// Per step that is not done, positions in `expected` where an attempt may have changed something (`condition: on_changed`).
    #[n(12)]
    #[cbor(default)]
    pub changed: BTreeMap<StepIndex, Bits>,
}

impl ResumeJob {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        self.check(turn)?;
        let state = &mut turn.state;
        let restored = self.restored.map(|rerun_once| Restored { rerun_once, ..Restored::by(&state.meta) });
        let epochs_from = restored.map_or(self.epoch, |restored| restored.epochs_from);
        let (epoch, run) = (self.epoch.next().max(epochs_from), self.run.max(1) + 1);
        let head = JobHead {
            created_wall_ms: self.created_wall_ms,
            restored,
            complete_journals: self.complete_journals.clone().filter(|_| restored.is_some()),
            run,
            run_kind: if self.only.is_some() { RunKind::Retry } else { RunKind::Resume },
            ..JobHead::new(self.job, self.namespace.clone(), epoch, &state.meta)
        };
        let mut job = Job::new(head, Arc::new(self.spec.clone()));
        job.scope = Scope {
            done: self.done.clone(),
            only: self.only.clone(),
            unchanged: self.unchanged.clone(),
            changed: Some(self.changed.clone()).filter(|changed| !changed.is_empty()),
        };
        job.freeze(self.expected.clone());
        state.stubs.remove(&self.job);
        state.jobs.insert(self.job, job);
        state.pending.insert(self.job);
        turn.changes.jobs.insert(self.job);
        turn.changes.started.insert(self.job);
        turn.changes.submitted.insert(self.job);
        let all = u32::try_from(self.expected.len()).unwrap_or(u32::MAX);
        let event = match &self.only {
            Some(only) => Event::JobRetried { epoch, nodes: only.count(), run },
            None => Event::JobResumed { epoch, nodes: all, run },
        };
        turn.record_job_event(self.job, event);
        Ok(Reply::Moved { job: self.job, status: JobStatus::Pending })
    }

    fn check(&self, turn: &Turn<'_>) -> Result<(), Rejection> {
        let state = &turn.state;
        if let Some(job) = state.jobs.get(&self.job) {
            let what = format!("{} has not ended, it is {}; there is nothing to resume", self.job, job.head.status);
            return Err(Rejection::NotWaiting(what));
        }
        let stub = state.stubs.get(&self.job).ok_or(Rejection::NoJob(self.job))?;
        if stub.epoch != self.epoch {
            return Err(Rejection::NotWaiting(format!("{} has moved meanwhile; look again", self.job)));
        }
        if self.run >= MAX_RUNS {
            return Err(Rejection::NotWaiting(format!(
                "{} has had {MAX_RUNS} runs, which is the most; submit it as a new job",
                self.job
            )));
        }
        if self.only.as_ref().is_some_and(|only| only.count() == 0) {
            return Err(Rejection::NotWaiting(format!(
                "nothing of {} has failed; there is nothing to retry",
                self.job
            )));
        }
        if let Some(gone) = self.expected.iter().find(|node| !state.nodes.contains_key(node)) {
            return Err(Rejection::NoNode(*gone));
        }
        turn.check_queue()
    }
}

#[cfg(test)]
mod tests;
