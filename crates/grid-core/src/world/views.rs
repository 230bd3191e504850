//! What a test can see of its world.

use std::collections::BTreeMap;

use grid_types::decl::EffectClass;
use grid_types::{JobId, JobStatus, Outcome};

use super::World;
use crate::changes::{History, ResultRow, SkipRow};
use crate::commands::{Answer, Command, Reply};
use crate::entry::{Entry, EntryHead};
use crate::state::Job;

impl World {
    /// What the leader would stamp on an entry now.
    pub fn head(&self) -> EntryHead {
        let leadership = &self.state.meta.leadership;
        EntryHead {
            epoch: leadership.epoch,
            term: leadership.term,
            now_ms: self.now_ms,
            wall_ms: self.wall_ms(),
            commands: 0,
        }
    }

    fn wall_ms(&self) -> u64 {
        const YEAR_MS: u64 = 365 * 24 * 3_600_000;
        let years = if self.wild_wall { (self.now_ms + self.history.len() as u64) % 3 } else { 1 };
        1_790_000_000_000 + self.now_ms + years * YEAR_MS
    }

    pub fn job(&self, job: JobId) -> &Job {
        self.state.jobs.get(&job).or_else(|| self.retired.get(&job)).unwrap()
    }

    pub fn status(&self, job: JobId) -> JobStatus {
        self.job(job).head.status
    }

    pub fn reason(&self, job: JobId) -> String {
        self.job(job).head.reason.as_ref().map(|reason| reason.text(job)).unwrap_or_default()
    }

    pub fn count(&self, job: JobId, step: usize, outcome: Outcome) -> u32 {
        self.job(job).head.tallies[step].count(outcome)
    }

    pub fn total(&self, job: JobId, outcome: Outcome) -> u64 {
        self.job(job).total(outcome)
    }

    pub fn results_of(&self, job: JobId) -> Vec<ResultRow> {
        let rows = self.history.iter().filter_map(|row| match row {
            History::Result(result) if result.job == job => Some(result.clone()),
            _ => None,
        });
        rows.collect()
    }

    pub fn skip_reason(&self, job: JobId, step: u32, node: u32) -> Option<String> {
        let is_of = |skip: &SkipRow| {
            (skip.from.0..skip.to.0).contains(&step) && skip.node.is_none_or(|skipped| skipped.0 == node)
        };
        self.skips_of(job).into_iter().find(is_of).map(|skip| skip.reason.text(job))
    }

    fn skips_of(&self, job: JobId) -> Vec<SkipRow> {
        let rows = self.history.iter().filter_map(|row| match row {
            History::Skip(skip) if skip.job == job => Some(skip.clone()),
            _ => None,
        });
        rows.collect()
    }

    /// The settled outcome of each (step, node), read from history alone; checked against the counts.
    pub fn rows_of(&self, job: JobId) -> BTreeMap<(u32, u32), Outcome> {
        let mut rows = BTreeMap::new();
        let run = self.job(job).head.run_epoch;
        for (step, done) in &self.job(job).scope.done {
            let nodes = self.job(job).expected.iter().enumerate().filter(|(position, _)| done.has(*position));
            rows.extend(nodes.map(|(_, node)| ((step.0, node.0), Outcome::Success)));
        }
        let results: Vec<_> = self.results_of(job).into_iter().filter(|row| row.job_epoch >= run).collect();
        let has_result = |step, node| results.iter().any(|row| (row.step.0, row.node) == (step, node));
        for skip in self.skips_of(job).into_iter().filter(|skip| skip.job_epoch >= run) {
            let nodes = skip.node.map_or_else(|| self.job(job).expected.clone(), |node| vec![node]);
            for node in nodes {
                for step in skip.from.0..skip.to.0 {
                    let position = self.job(job).position(node).unwrap();
                    // One row for all is for those that have no other outcome.
                    let is_left_out = skip.node.is_none() && has_result(step, node);
                    if self.job(job).is_done(grid_types::StepIndex(step), position) || is_left_out {
                        continue;
                    }
                    assert_eq!(rows.insert((step, node.0), Outcome::Skipped), None, "I9: skipped twice");
                }
            }
        }
        for row in results {
            let before = rows.insert((row.step.0, row.node.0), row.outcome);
            assert_ne!(before, Some(Outcome::Skipped), "I9: ran and was skipped");
        }
        for (step, tally) in (0u32..).zip(&self.job(job).head.tallies) {
            for outcome in Outcome::ALL.into_iter().filter(|o| o.is_settled()) {
                let counted = rows.iter().filter(|((s, _), o)| *s == step && **o == outcome).count();
                // A retry that waits has a row of its own already.
                if self.state.stubs.contains_key(&job) {
                    assert_eq!(counted, tally.count(outcome) as usize, "step {step} {outcome}");
                }
            }
        }
        rows
    }

    /// Whether a step must never run twice.
    pub fn is_once(&self, job: JobId, step: grid_types::StepIndex) -> bool {
        self.job(job).task_at(step).unwrap().effect == EffectClass::Once
    }

    pub fn effect_of(&self, job: JobId) -> EffectClass {
        self.job(job).spec.steps().next().unwrap().1.effect
    }
}

impl World {
    /// What the leader answers to a report that it keeps out of the log; none: it proposes it.
    pub(super) fn foreseen(&self, entry: &Entry) -> Option<Reply> {
        let superseded = |stale| Reply::Answered(Answer::Superseded(stale));
        match &entry.commands[..] {
            [Command::RecordResult(result)] => self.state.concerns_result(result).err().map(superseded),
            [Command::ConfirmRevoke(done)] => self.state.concerns_revoke(done).err().map(superseded),
            [Command::BeginLease(begin)] => self.state.concerns_begin(begin).err(),
            _ => None,
        }
    }
}
