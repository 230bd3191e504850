//! An ended job, as it has to be known to go on.

use std::collections::BTreeMap;

use grid_core::{Bits, JobHead};
use grid_types::decl::EffectClass;
use grid_types::job::JobSpec;
use grid_types::{JobId, NodeOrd, Outcome, StepIndex};
use rusqlite::{Connection, params};

use super::job::JobRow;
use super::roster::Roster;
use crate::error::Fault;
use crate::write::key;

/// At most so many examples of steps that a person has to decide about.
const EXAMPLES: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub struct Resumable {
    pub head: JobHead,
    /// Something of it may still run: nodes have yet to confirm a cancel (W9).
    pub live: bool,
    pub spec: JobSpec,
    pub expected: Vec<NodeOrd>,
    /// Per step, positions in `expected` that have succeeded in any run.
    pub done: BTreeMap<StepIndex, Bits>,
    /// `once` steps that may have run and have not succeeded (W8): step and node, the first few.
    pub doubtful: Vec<(StepIndex, String)>,
}

pub(super) fn of_job(conn: &Connection, namespace: &str, id: JobId) -> Result<Option<Resumable>, Fault> {
    let Some(job) = JobRow::find(conn, namespace, id)? else { return Ok(None) };
    let mut done: BTreeMap<StepIndex, Bits> = BTreeMap::new();
    let cleanup: Vec<bool> =
        (0u32..).zip(job.spec.steps()).map(|(step, _)| job.spec.is_cleanup(StepIndex(step))).collect();
    let mut rows = conn.prepare_cached("SELECT step, node FROM results WHERE job = ?1 AND outcome = ?2")?;
    let mut rows = rows.query(params![key(id), Outcome::Success as i64])?;
    while let Some(row) = rows.next()? {
        let (step, node) = (StepIndex(row.get(0)?), NodeOrd(row.get(1)?));
        // A clean-up that was done is wanted again when the next run fails.
        if cleanup.get(usize::try_from(step.0).unwrap_or(usize::MAX)).copied().unwrap_or(true) {
            continue;
        }
        if let Ok(position) = job.expected.binary_search(&node) {
            done.entry(step).or_default().set(position);
        }
    }
    let doubtful = doubtful(conn, &job, &done)?;
    let JobRow { head, spec, expected, live, .. } = job;
    Ok(Some(Resumable { head, live, spec, expected, done, doubtful }))
}

/// Newest result of each (step, node) that is neither a success nor a definite failure, of steps that must not run twice.
fn doubtful(
    conn: &Connection,
    job: &JobRow,
    done: &BTreeMap<StepIndex, Bits>,
) -> Result<Vec<(StepIndex, String)>, Fault> {
    let once: Vec<bool> = job.spec.steps().map(|(_, task)| task.effect == EffectClass::Once).collect();
    let names: BTreeMap<NodeOrd, String> =
        Roster::new(conn, &job.expected)?.after("", usize::MAX)?.into_iter().map(|(name, ord)| (ord, name)).collect();
    let mut newest: BTreeMap<(StepIndex, NodeOrd), bool> = BTreeMap::new();
    let mut rows = conn
        .prepare_cached("SELECT step, node, outcome, started_ms FROM results WHERE job = ?1 ORDER BY job_epoch, id")?;
    let mut rows = rows.query([key(job.head.id)])?;
    while let Some(row) = rows.next()? {
        let (step, node) = (StepIndex(row.get(0)?), NodeOrd(row.get(1)?));
        if !once.get(usize::try_from(step.0).unwrap_or(usize::MAX)).copied().unwrap_or(true) {
            continue;
        }
        let (outcome, started_ms): (i64, i64) = (row.get(2)?, row.get(3)?);
        let open = [Outcome::Unknown, Outcome::TimedOut, Outcome::Cancelled].iter().any(|o| *o as i64 == outcome);
        newest.insert((step, node), open && started_ms > 0);
    }
    let open = newest.into_iter().filter(|((step, node), open)| {
        let position = job.expected.binary_search(node);
        *open && !position.is_ok_and(|position| done.get(step).is_some_and(|done| done.has(position)))
    });
    Ok(open.take(EXAMPLES).map(|((step, node), _)| (step, names.get(&node).cloned().unwrap_or_default())).collect())
}
