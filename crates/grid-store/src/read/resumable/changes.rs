//! Reads what earlier runs of a job changed on its nodes, or skipped because nothing had changed (`condition: on_changed`).
//!
//! Only phases with such a condition are looked at.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{Bits, PastAttempt};
use grid_types::job::{Condition, Task};
use grid_types::{Attempt, JobEpoch, NodeOrd, Outcome, Reason, StepIndex};
use rusqlite::{Connection, params};

use crate::codec::{blob, key, optional_blob};
use crate::error::Fault;
use crate::noted::Noted;
use crate::read::job::StoredJob;
use crate::read::view::outcome;

/// Per step, positions in `expected` where an attempt may have changed something although the step is not done.
pub(super) fn changed(
    conn: &Connection,
    job: &StoredJob,
    done: &BTreeMap<StepIndex, Bits>,
) -> Result<BTreeMap<StepIndex, Bits>, Fault> {
    let mut found: BTreeMap<StepIndex, Bits> = BTreeMap::new();
    let tasks = watched(job);
    if tasks.is_empty() {
        return Ok(found);
    }
    let mut rows =
        conn.prepare_cached("SELECT step, node, attempt, outcome, started_ms, reason FROM results WHERE job = ?1")?;
    let mut rows = rows.query(params![key(job.head.id)])?;
    while let Some(row) = rows.next()? {
        let step = StepIndex(row.get(0)?);
        let (Some(task), Ok(position)) = (tasks.get(&step), job.expected.binary_search(&NodeOrd(row.get(1)?))) else {
            continue;
        };
        if done.get(&step).is_some_and(|done| done.has(position)) {
            continue;
        }
        let outcome = outcome(row, 3)?;
        let noted: Option<Noted> = if outcome == Outcome::Success { optional_blob(row, 5)? } else { None };
        let attempt = PastAttempt {
            attempt: Attempt(row.get(2)?),
            outcome,
            started_wall_ms: row.get::<_, i64>(4)?.cast_unsigned(),
            changed: noted.and_then(|noted| noted.detail.changed),
        };
        if attempt.may_have_changed(task) {
            found.entry(step).or_default().set(position);
        }
    }
    Ok(found)
}

/// Per step, positions in `expected` where it was skipped because nothing had changed, unless its pipeline ran there in a
/// later run. A clean-up is wanted again when the next run fails, whatever it changed before.
pub(super) fn unchanged(conn: &Connection, job: &StoredJob) -> Result<BTreeMap<StepIndex, Bits>, Fault> {
    let mut found: BTreeMap<StepIndex, Bits> = BTreeMap::new();
    if watched(job).is_empty() {
        return Ok(found);
    }
    let ran = newest_epochs(conn, job)?;
    let phases: Vec<usize> = job.spec.steps().map(|(phase, _)| phase).collect();
    let mut rows = conn
        .prepare_cached("SELECT node, from_step, to_step, reason, job_epoch FROM skips WHERE job = ?1 AND node > 0")?;
    let mut rows = rows.query(params![key(job.head.id)])?;
    while let Some(row) = rows.next()? {
        let (node, epoch) = (NodeOrd(row.get(0)?), JobEpoch(row.get(4)?));
        let (Reason::NothingChangedHere, Ok(position)) = (blob(row, 3)?, job.expected.binary_search(&node)) else {
            continue;
        };
        let (from, to): (u32, u32) = (row.get(1)?, row.get(2)?);
        for step in (from..to).map(StepIndex).filter(|step| !job.spec.is_cleanup(*step)) {
            let phase = usize::try_from(step.0).ok().and_then(|step| phases.get(step));
            let Some(first) = phase.map(|phase| job.spec.first_step(*phase)) else { continue };
            let mut before = ran.range((node, first)..=(node, step));
            if before.all(|(_, ran)| *ran <= epoch) {
                found.entry(step).or_default().set(position);
            }
        }
    }
    Ok(found)
}

/// The job epoch of the newest result of each node and step.
fn newest_epochs(conn: &Connection, job: &StoredJob) -> Result<BTreeMap<(NodeOrd, StepIndex), JobEpoch>, Fault> {
    let mut rows =
        conn.prepare_cached("SELECT node, step, MAX(job_epoch) FROM results WHERE job = ?1 GROUP BY step, node")?;
    let mut rows = rows.query(params![key(job.head.id)])?;
    let mut newest = BTreeMap::new();
    while let Some(row) = rows.next()? {
        newest.insert((NodeOrd(row.get(0)?), StepIndex(row.get(1)?)), JobEpoch(row.get(2)?));
    }
    Ok(newest)
}

/// The tasks of phases with a task that looks at changes.
fn watched(job: &StoredJob) -> BTreeMap<StepIndex, &Task> {
    let looks = |task: &Task| task.condition == Condition::OnChanged;
    let phases: BTreeSet<usize> = job.spec.steps().filter(|(_, task)| looks(task)).map(|(phase, _)| phase).collect();
    let steps = (0u32..).map(StepIndex).zip(job.spec.steps());
    steps.filter(|(_, (phase, _))| phases.contains(phase)).map(|(step, (_, task))| (step, task)).collect()
}
