//! Reads what is needed to continue an ended job: whole (`resume`), or only where something failed (`retry`).

mod changes;

use std::collections::BTreeMap;

use grid_core::{Bits, JobHead};
use grid_types::decl::EffectClass;
use grid_types::job::JobSpec;
use grid_types::{JobRef, LeaderEpoch, NodeOrd, Outcome, StepIndex};
use rusqlite::{Connection, params};

use super::job::StoredJob;
use super::roster::Roster;
use crate::codec::key;
use crate::error::Fault;

/// At most so many examples of steps that an operator has to decide about.
const EXAMPLES: usize = 20;

/// On which nodes an ended job goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RerunOn {
    /// On all of them: what is missing anywhere.
    AllNodes,
    /// On those where something failed and has not succeeded since.
    FailedNodes,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Resumable {
    pub head: JobHead,
    /// Something of it may still run: nodes have yet to confirm a cancel (W9).
    pub live: bool,
    pub spec: JobSpec,
    pub expected: Vec<NodeOrd>,
    /// Per step, positions in `expected` that have succeeded in any run.
    pub done: BTreeMap<StepIndex, Bits>,
    /// Positions of nodes on which something failed and has not succeeded since, if only they are to run.
    pub only: Option<Bits>,
    /// E2: of a restored job that ended in this generation, positions in `expected` whose journals were complete.
    pub complete_journals: Option<Bits>,
    /// Per step, positions in `expected` where it was skipped because nothing had changed (`condition: on_changed`).
    pub unchanged: BTreeMap<StepIndex, Bits>,
    /// Per step that is not done, positions in `expected` where an attempt may have changed something (`condition: on_changed`).
    pub changed: BTreeMap<StepIndex, Bits>,
    /// `once` steps of nodes that would run that may have run and have not succeeded (W8): step and node, the first few.
    pub doubtful: Vec<(StepIndex, String)>,
}

impl Resumable {
    /// How many of the nodes that would run miss a part.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.nodes_that_miss(|position| self.would_run(position))
    }

    /// How many of the other nodes miss a part.
    #[must_use]
    pub fn missing_elsewhere(&self) -> usize {
        self.nodes_that_miss(|position| !self.would_run(position))
    }

    fn would_run(&self, position: usize) -> bool {
        self.only.as_ref().is_none_or(|only| only.has(position))
    }

    fn nodes_that_miss(&self, among: impl Fn(usize) -> bool) -> usize {
        let steps = (0u32..).map(StepIndex).zip(self.spec.steps()).map(|(step, _)| step);
        let wanted: Vec<_> = steps.filter(|step| !self.spec.is_cleanup(*step)).collect();
        let has = |bits: &BTreeMap<StepIndex, Bits>, step: &StepIndex, position: usize| {
            bits.get(step).is_some_and(|bits| bits.has(position))
        };
        let misses = |position: usize| {
            wanted.iter().any(|step| !has(&self.done, step, position) && !has(&self.unchanged, step, position))
        };
        (0..self.expected.len()).filter(|at| among(*at) && misses(*at)).count()
    }
}

pub(super) fn of_job(
    conn: &Connection,
    job: &JobRef,
    on: RerunOn,
    generation: u32,
) -> Result<Option<Resumable>, Fault> {
    let Some(job) = StoredJob::find(conn, job)? else { return Ok(None) };
    let cleanup: Vec<bool> =
        (0u32..).zip(job.spec.steps()).map(|(step, _)| job.spec.is_cleanup(StepIndex(step))).collect();
    // A clean-up is neither done nor failed for good: it is wanted again when the next run fails.
    let counts = |step: StepIndex| !flag(&cleanup, step);
    let mut done: BTreeMap<StepIndex, Bits> = BTreeMap::new();
    each_result(conn, &job, &[Outcome::Success], |step, position| {
        if counts(step) {
            done.entry(step).or_default().set(position);
        }
    })?;
    let mut failed = Bits::default();
    if on == RerunOn::FailedNodes {
        each_result(conn, &job, &[Outcome::Failed, Outcome::TimedOut, Outcome::Unknown], |step, position| {
            if counts(step) && !done.get(&step).is_some_and(|done| done.has(position)) {
                failed.set(position);
            }
        })?;
    }
    let only = (on == RerunOn::FailedNodes).then_some(failed);
    let doubtful = doubtful(conn, &job, &done, only.as_ref(), generation)?;
    let complete_journals = complete_journals(&job, generation).cloned();
    let unchanged = changes::unchanged(conn, &job)?;
    let changed = changes::changed(conn, &job, &done)?;
    let StoredJob { head, spec, expected, live, .. } = job;
    Ok(Some(Resumable { head, live, spec, expected, done, only, complete_journals, unchanged, changed, doubtful }))
}

/// Every result with one of these outcomes, of any run, as step and position.
fn each_result(
    conn: &Connection,
    job: &StoredJob,
    outcomes: &[Outcome],
    mut take: impl FnMut(StepIndex, usize),
) -> Result<(), Fault> {
    let mut rows = conn.prepare_cached("SELECT step, node FROM results WHERE job = ?1 AND outcome = ?2")?;
    for outcome in outcomes {
        let mut rows = rows.query(params![key(job.head.id), *outcome as i64])?;
        while let Some(row) = rows.next()? {
            if let Ok(position) = job.expected.binary_search(&NodeOrd(row.get(1)?)) {
                take(StepIndex(row.get(0)?), position);
            }
        }
    }
    Ok(())
}

/// Of a step that is not there: yes, to be on the safe side.
fn flag(of_steps: &[bool], step: StepIndex) -> bool {
    of_steps.get(usize::try_from(step.0).unwrap_or(usize::MAX)).copied().unwrap_or(true)
}

/// What was found in an earlier generation says nothing about the time after the last backup.
fn complete_journals(job: &StoredJob, generation: u32) -> Option<&Bits> {
    job.head.complete_journals.as_ref().filter(|_| job.head.leader_epoch.generation == generation)
}

/// Newest result of each (step, node) that is neither a success nor a definite failure, of steps that must not run twice.
/// E2: of a job from before a restore also every such step without a result of this generation, unless a complete journal
/// excludes that it ran, or it is a clean-up: that one becomes unknown if it is reached.
fn doubtful(
    conn: &Connection,
    job: &StoredJob,
    done: &BTreeMap<StepIndex, Bits>,
    only: Option<&Bits>,
    generation: u32,
) -> Result<Vec<(StepIndex, String)>, Fault> {
    let once: Vec<bool> = job.spec.steps().map(|(_, task)| task.effect == EffectClass::Once).collect();
    let names: BTreeMap<NodeOrd, String> =
        Roster::new(conn, &job.expected)?.after("", usize::MAX)?.into_iter().map(|(name, ord)| (ord, name)).collect();
    let mut newest: BTreeMap<(StepIndex, NodeOrd), bool> = BTreeMap::new();
    let restored = job.head.restored.is_some() || job.head.leader_epoch.generation < generation;
    if restored {
        let steps = (0u32..).map(StepIndex).zip(&once);
        let steps = steps.filter(|(step, once)| **once && !job.spec.is_cleanup(*step)).map(|(step, _)| step);
        let complete = complete_journals(job, generation);
        let excludes = |position: usize| complete.is_some_and(|complete| complete.has(position));
        let nodes: Vec<_> = job.expected.iter().enumerate().filter(|(at, _)| !excludes(*at)).collect();
        newest.extend(steps.flat_map(|step| nodes.iter().map(move |(_, node)| ((step, **node), true))));
    }
    let mut rows = conn.prepare_cached(
        "SELECT step, node, outcome, started_ms, leader_epoch FROM results WHERE job = ?1 ORDER BY job_epoch, id",
    )?;
    let mut rows = rows.query([key(job.head.id)])?;
    while let Some(row) = rows.next()? {
        let (step, node) = (StepIndex(row.get(0)?), NodeOrd(row.get(1)?));
        if !flag(&once, step) {
            continue;
        }
        let (outcome, started_ms, epoch): (i64, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let of_generation = LeaderEpoch::from_wire(u64::try_from(epoch).unwrap_or(0)).generation;
        if restored && of_generation < generation {
            continue;
        }
        let open = [Outcome::Unknown, Outcome::TimedOut, Outcome::Cancelled].iter().any(|o| *o as i64 == outcome);
        newest.insert((step, node), open && started_ms > 0);
    }
    let would_run = |step: &StepIndex, node: &NodeOrd| {
        let Ok(position) = job.expected.binary_search(node) else { return true };
        only.is_none_or(|only| only.has(position)) && !done.get(step).is_some_and(|done| done.has(position))
    };
    let open = newest.into_iter().filter(|((step, node), open)| *open && would_run(step, node));
    Ok(open.take(EXAMPLES).map(|((step, node), _)| (step, names.get(&node).cloned().unwrap_or_default())).collect())
}
