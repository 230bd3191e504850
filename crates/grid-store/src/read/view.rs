//! Reads the state of one step on one node.
//!
//! ```text
//!   a live cell at this step  >  done in an earlier run  >  the newest result of this run (J8)  >  a skip  >  pending
//! ```
//!
//! A live cell is never settled, so that what an earlier attempt left behind says nothing against it: a retry that
//! waits is `pending`, one that runs is `running`, both with the attempts made so far. Of stored rows the highest job
//! epoch counts, and within it the newest: an `unknown` that the journal settled later has two (W8).

use std::ops::Range;

use grid_core::{Cell, CellState, JobHead, Meta};
use grid_types::{NodeOrd, Outcome};
use rusqlite::{CachedStatement, Connection, Row, params};

use super::job::StoredJob;
use crate::cells::StoredCells;
use crate::codec::{blob, key, optional_blob};
use crate::error::Fault;
use crate::noted::Noted;
use crate::rows::{Note, StepResult};

pub(super) struct View<'a> {
    job: &'a StoredJob,
    cells: StoredCells<'a>,
    result: CachedStatement<'a>,
    skip: CachedStatement<'a>,
    earlier: CachedStatement<'a>,
    /// Of which cells may be out.
    steps: Range<u32>,
    /// Wall time minus leader time, by the last entry.
    wall_offset_ms: i64,
}

impl<'a> View<'a> {
    pub fn new(conn: &'a Connection, job: &'a StoredJob) -> Result<Self, Fault> {
        let phase = usize::try_from(job.head.phase).unwrap_or(usize::MAX);
        let tasks = job.spec.phases.get(phase).filter(|_| job.live).map_or(0, |phase| phase.tasks.len());
        let first = job.spec.first_step(phase).0;
        let steps = match job.head.restored.filter(|_| job.live) {
            // E2: a cell may have a later step leased.
            Some(_) => 0..u32::MAX,
            None => first..first.saturating_add(u32::try_from(tasks).unwrap_or(u32::MAX)),
        };
        let mut meta = conn.prepare_cached("SELECT state FROM meta")?;
        let mut rows = meta.query([])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let meta: Meta = blob(row, 0)?;
        Ok(Self {
            job,
            cells: StoredCells::of(conn, &job.head, &job.spec)?,
            result: conn.prepare_cached(
                "SELECT outcome, attempt, duration_ms, started_ms, reason, error FROM results
                 WHERE job = ?1 AND step = ?2 AND node = ?3 AND job_epoch BETWEEN ?4 AND ?5
                 ORDER BY job_epoch DESC, id DESC LIMIT 1",
            )?,
            skip: conn.prepare_cached(
                "SELECT reason FROM skips
                 WHERE job = ?1 AND node IN (0, ?2) AND from_step <= ?3 AND to_step > ?3 AND job_epoch BETWEEN ?4 AND ?5
                 ORDER BY job_epoch DESC, id DESC LIMIT 1",
            )?,
            earlier: conn.prepare_cached(
                "SELECT count(*) FROM (SELECT DISTINCT job_epoch, attempt FROM results
                 WHERE job = ?1 AND step = ?2 AND node = ?3 AND job_epoch < ?4 AND attempt > 0 AND started_ms > 0)",
            )?,
            steps,
            wall_offset_ms: meta.wall_ms.cast_signed().saturating_sub(meta.now_ms.cast_signed()),
        })
    }

    /// With the attempts of all runs up to the one that is shown (J8): leases count theirs from 1 in each.
    pub fn of(&mut self, step: u32, node: NodeOrd) -> Result<StepResult, Fault> {
        let mut result = self.in_run(step, node)?;
        if self.job.head.run > 1 && result.status != Outcome::Skipped {
            let earlier = params![key(self.job.head.id), step, node.0, self.job.head.run_epoch.0];
            let earlier: u32 = self.earlier.query_row(earlier, |row| row.get(0))?;
            let here = if self.job.is_done(step, node) { 0 } else { result.attempts };
            result.attempts = here.saturating_add(earlier);
        }
        Ok(result)
    }

    fn in_run(&mut self, step: u32, node: NodeOrd) -> Result<StepResult, Fault> {
        // What an earlier run has done still counts, whatever became of the step elsewhere, and though its node may still wait
        // for a place in the phase.
        let done = self.job.is_done(step, node);
        if !done
            && let Some(cell) = self.cell_at(step, node)?
            && let Some(open) = of_cell(&cell, &self.job.head, self.wall_offset_ms)
        {
            return Ok(open);
        }
        let job = key(self.job.head.id);
        let (first, last) = self.job.epochs(step, node);
        let mut rows = self.result.query(params![job, step, node.0, first, last])?;
        // Within a run a step has a result or is skipped. A row for all nodes is for those that have no other outcome, and
        // may be of a later epoch than a result that was known ahead of its barrier (E2).
        if let Some(row) = rows.next()? {
            return settled(row);
        }
        let mut rows = self.skip.query(params![job, node.0, step, first, last])?;
        let skip = rows.next()?.map(|row| blob(row, 0)).transpose()?;
        Ok(match skip {
            Some(reason) => StepResult::bare(Outcome::Skipped, Some(Note::Reason(reason))),
            None => StepResult::bare(Outcome::Pending, None),
        })
    }

    fn cell_at(&mut self, step: u32, node: NodeOrd) -> Result<Option<Cell>, Fault> {
        if !self.steps.contains(&step) {
            return Ok(None);
        }
        let Ok(position) = self.job.expected.binary_search(&node) else { return Ok(None) };
        let cell = self.cells.at(position, node)?;
        Ok(cell.filter(|cell| self.cells.step_of(cell) == step))
    }
}

/// The state of a live cell; `None` if nothing is open there.
pub(super) fn of_cell(cell: &Cell, head: &JobHead, wall_offset_ms: i64) -> Option<StepResult> {
    let attempt = cell.attempt().0;
    let waits = |note: Note| {
        Some(StepResult { attempts: attempt.saturating_sub(1), ..StepResult::bare(Outcome::Pending, Some(note)) })
    };
    match cell.state {
        CellState::Idle => None,
        CellState::Parked => waits(Note::Parked),
        CellState::Unresolved => {
            Some(StepResult { attempts: attempt, ..StepResult::bare(Outcome::Unknown, Some(Note::Unresolved)) })
        }
        CellState::Queued if head.held.is_some() => waits(Note::Held),
        CellState::Queued => waits(Note::Queued { attempt }),
        CellState::Backoff { until_ms } => {
            waits(Note::Backoff { attempt, until_wall_ms: until_ms.saturating_add_signed(wall_offset_ms) })
        }
        CellState::Leased { since_wall_ms, revoked, .. } => Some(StepResult {
            attempts: attempt,
            started_wall_ms: Some(since_wall_ms),
            ..StepResult::bare(Outcome::Running, revoked.map(Note::Stopping))
        }),
    }
}

fn settled(row: &Row<'_>) -> Result<StepResult, Fault> {
    let (attempt, started_ms): (u32, i64) = (row.get(1)?, row.get(3)?);
    let ran = attempt > 0 && started_ms > 0;
    let duration_ms = row.get::<_, i64>(2)?.cast_unsigned();
    let Noted { reason, detail } = optional_blob(row, 4)?.unwrap_or_default();
    Ok(StepResult {
        status: outcome(row, 0)?,
        // One that was revoked before it started is not an attempt that ran.
        attempts: if ran { attempt } else { attempt.saturating_sub(1) },
        duration_ms: ran.then_some(duration_ms),
        started_wall_ms: ran.then_some(started_ms.cast_unsigned()),
        error: row.get(5)?,
        note: reason.map(Note::Reason),
        exit_code: detail.exit_code,
        signal: detail.signal,
        changed: detail.changed,
    })
}

pub(super) fn outcome(row: &Row<'_>, column: usize) -> rusqlite::Result<Outcome> {
    let number: i64 = row.get(column)?;
    let known = usize::try_from(number).ok().and_then(|at| Outcome::ALL.get(at)).copied();
    known.ok_or(rusqlite::Error::IntegralValueOutOfRange(column, number))
}
