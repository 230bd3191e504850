//! What people decide in a test's world: about gates and held jobs, unknown steps, ended jobs, old history.

use std::collections::BTreeMap;

use grid_types::job::JobSpec;
use grid_types::{JobId, Outcome, Reason, StepIndex};

use super::World;
use crate::changes::{History, PastAttempt, ResultRow};
use crate::commands::{Command, ConfirmJob, PruneHistory, Rejection, Reply, ResolveStep, ResumeJob, Verdict};
use crate::state::Bits;

impl World {
    pub fn confirm(&mut self, job: JobId, phase: Option<u32>) -> Result<Reply, Rejection> {
        self.one(Command::ConfirmJob(ConfirmJob {
            namespace: "default".parse().unwrap(),
            job,
            phase,
            held: None,
            rerun_once: false,
        }))
    }

    pub fn confirm_held(&mut self, job: JobId) -> Result<Reply, Rejection> {
        let (namespace, phase, held) = ("default".parse().unwrap(), None, Some(true));
        self.one(Command::ConfirmJob(ConfirmJob { namespace, job, phase, held, rerun_once: false }))
    }

    pub fn resolve(&mut self, job: JobId, step: u32, node: u32, verdict: Verdict) -> Result<Reply, Rejection> {
        let node = format!("node-{node}").parse().unwrap();
        let namespace = "default".parse().unwrap();
        self.one(Command::ResolveStep(ResolveStep { namespace, job, step: grid_types::StepIndex(step), node, verdict }))
    }

    /// What a leader would read of an ended job and propose.
    pub fn resume_command(&self, job: JobId) -> Command {
        let ended = self.job(job);
        let mut done: BTreeMap<_, Bits> = BTreeMap::new();
        let counts = |row: &&ResultRow| row.outcome == Outcome::Success && !ended.spec.is_cleanup(row.step);
        for row in self.results_of(job).iter().filter(counts) {
            done.entry(row.step).or_default().set(ended.position(row.node).unwrap());
        }
        let is_of_generation = ended.head.leader_epoch.generation == self.state.meta.leadership.epoch.generation;
        Command::ResumeJob(ResumeJob {
            namespace: ended.head.namespace.clone(),
            job,
            epoch: ended.head.epoch,
            spec: JobSpec::clone(&ended.spec),
            expected: ended.expected.clone(),
            done,
            created_wall_ms: ended.head.created_wall_ms,
            only: None,
            restored: None,
            run: ended.head.run,
            complete_journals: ended.head.complete_journals.clone().filter(|_| is_of_generation),
            unchanged: self.unchanged_of(job),
            changed: self.changed_of(job),
        })
    }

    fn changed_of(&self, job: JobId) -> BTreeMap<StepIndex, Bits> {
        let ended = self.job(job);
        let results = self.results_of(job);
        let is_done = |row: &ResultRow| {
            let same = |other: &&ResultRow| (other.step, other.node) == (row.step, row.node);
            !ended.spec.is_cleanup(row.step)
                && results.iter().filter(same).any(|other| other.outcome == Outcome::Success)
        };
        let mut changed: BTreeMap<_, Bits> = BTreeMap::new();
        let may_have_changed =
            |row: &ResultRow| ended.task_at(row.step).is_some_and(|task| PastAttempt::from(row).may_have_changed(task));
        for row in results.iter().filter(|row| may_have_changed(row) && !is_done(row)) {
            changed.entry(row.step).or_default().set(ended.position(row.node).unwrap());
        }
        changed
    }

    fn unchanged_of(&self, job: JobId) -> BTreeMap<StepIndex, Bits> {
        let ended = self.job(job);
        let results = self.results_of(job);
        let mut unchanged: BTreeMap<_, Bits> = BTreeMap::new();
        for row in &self.history {
            let History::Skip(skip) = row else { continue };
            let (Some(node), Reason::NothingChangedHere) = (skip.node.filter(|_| skip.job == job), &skip.reason) else {
                continue;
            };
            for step in (skip.from.0..skip.to.0).map(StepIndex).filter(|step| !ended.spec.is_cleanup(*step)) {
                let phase = ended.spec.steps().nth(step.0 as usize).unwrap().0;
                let pipeline = ended.spec.first_step(phase)..=step;
                let later = |row: &ResultRow| {
                    row.node == node && row.job_epoch > skip.job_epoch && pipeline.contains(&row.step)
                };
                if !results.iter().any(later) {
                    unchanged.entry(step).or_default().set(ended.position(node).unwrap());
                }
            }
        }
        unchanged
    }

    /// The same on those nodes alone where something failed and has not succeeded since.
    pub fn retry(&mut self, job: JobId) -> Result<Reply, Rejection> {
        let Command::ResumeJob(resume) = self.resume_command(job) else { unreachable!() };
        let mut only = Bits::default();
        for row in self.results_of(job).iter().filter(|row| row.outcome.is_failure()) {
            let position = resume.expected.binary_search(&row.node).unwrap();
            let done = resume.done.get(&row.step).is_some_and(|done| done.has(position));
            if !done && !resume.spec.is_cleanup(row.step) {
                only.set(position);
            }
        }
        self.one(Command::ResumeJob(ResumeJob { only: Some(only), ..resume }))
    }

    pub fn resume(&mut self, job: JobId) -> Result<Reply, Rejection> {
        let command = self.resume_command(job);
        self.one(command)
    }

    /// Forgets what ended before a time.
    pub fn prune(&mut self, ended_before_ms: u64) -> Vec<JobId> {
        let jobs = self.state.stubs.keys().copied().collect();
        self.apply(vec![Command::PruneHistory(PruneHistory { ended_before_ms, jobs, events_before_ms: 0 })])
            .changes
            .pruned
    }
}
