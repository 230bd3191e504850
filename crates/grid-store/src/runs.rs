//! Runs of a job that a later one followed (J8).
//!
//! The newest run is the job's own row. When the next one begins, that row is overwritten; what it said until then becomes a
//! row of `runs`, in the same transaction: a small summary for lists and the whole head, from which the run is shown again.
//! Results need nothing for it: a run is a range of job epochs, from its own `run_epoch` up to that of the next run.

use grid_core::{JobHead, Scope, Tally};
use grid_types::{JobStatus, Outcome, Reason, RunKind};
use minicbor::{Decode, Encode};
use rusqlite::{Connection, OptionalExtension, params};

use crate::codec::{blob, encoded, key, optional_blob};
use crate::error::Fault;
use crate::rows::RunRow;

/// What a list shows of a run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Summary {
    #[n(0)]
    run: u32,
    #[n(1)]
    kind: RunKind,
    #[n(2)]
    status: JobStatus,
    #[n(3)]
    reason: Option<Reason>,
    /// By the number of the outcome.
    #[n(4)]
    counts: Vec<u64>,
    #[n(5)]
    started_wall_ms: Option<u64>,
    #[n(6)]
    ended_wall_ms: Option<u64>,
}

impl Summary {
    fn of(head: &JobHead) -> Self {
        let count = |outcome| head.tallies.iter().map(|tally| u64::from(Tally::count(tally, outcome))).sum();
        Self {
            run: head.run,
            kind: head.run_kind,
            status: head.status,
            reason: head.reason.clone(),
            counts: Outcome::ALL.into_iter().map(count).collect(),
            started_wall_ms: head.started_wall_ms,
            ended_wall_ms: head.ended_wall_ms,
        }
    }

    fn row(self, job: grid_types::JobId) -> RunRow {
        RunRow {
            job,
            run: self.run,
            kind: self.kind,
            status: self.status,
            reason: self.reason,
            counts: Outcome::ALL.into_iter().zip(self.counts).collect(),
            started_wall_ms: self.started_wall_ms,
            ended_wall_ms: self.ended_wall_ms,
        }
    }
}

/// The run of a head, as a row of a list.
pub(crate) fn row(head: &JobHead) -> RunRow {
    Summary::of(head).row(head.id)
}

/// Keeps a run that another one follows.
pub(crate) fn keep(conn: &Connection, head: &JobHead, scope: &Scope) -> Result<(), Fault> {
    let mut put = conn.prepare_cached(
        "INSERT OR ROLLBACK INTO runs (job, run, run_epoch, summary, head, scope) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let (summary, run_epoch) = (encoded(&Summary::of(head))?, head.run_epoch.0);
    put.execute(params![key(head.id), head.run, run_epoch, summary, encoded(head)?, encoded(scope)?])?;
    Ok(())
}

/// Keeps the run that the job's row still shows, if it has ended and is older than `run`.
pub(crate) fn keep_stored(conn: &Connection, job: grid_types::JobId, run: u32) -> Result<(), Fault> {
    let mut find = conn.prepare_cached(
        "SELECT j.head, e.scope FROM jobs j LEFT JOIN expected e ON e.job = j.id WHERE j.id = ?1 AND j.live = 0",
    )?;
    let mut rows = find.query([key(job)])?;
    if let Some(row) = rows.next()? {
        let head: JobHead = blob(row, 0)?;
        if head.run < run {
            keep(conn, &head, &optional_blob::<Scope>(row, 1)?.unwrap_or_default())?;
        }
    }
    Ok(())
}

/// A run that is not the newest: its head, its scope, and the last job epoch that belongs to it.
pub(crate) fn find(conn: &Connection, newest: &JobHead, run: u32) -> Result<Option<(JobHead, Scope, u32)>, Fault> {
    let mut find = conn.prepare_cached("SELECT head, scope FROM runs WHERE job = ?1 AND run = ?2")?;
    let mut rows = find.query(params![key(newest.id), run])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (head, scope) = (blob(row, 0)?, blob(row, 1)?);
    let next = conn
        .prepare_cached("SELECT run_epoch FROM runs WHERE job = ?1 AND run = ?2")?
        .query_row(params![key(newest.id), run + 1], |row| row.get::<_, u32>(0))
        .optional()?;
    Ok(Some((head, scope, next.unwrap_or(newest.run_epoch.0).saturating_sub(1))))
}

/// Newest first, older than `before`, at most `limit`. The newest is in `newest`.
pub(crate) fn list(
    conn: &Connection,
    newest: &JobHead,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<RunRow>, Fault> {
    let mut found = Vec::new();
    let before = before.unwrap_or(u32::MAX);
    if newest.run < before && limit > 0 {
        found.push(row(newest));
    }
    if newest.run <= 1 {
        return Ok(found);
    }
    let mut older =
        conn.prepare_cached("SELECT summary FROM runs WHERE job = ?1 AND run < ?2 ORDER BY run DESC LIMIT ?3")?;
    let left = i64::try_from(limit - found.len()).unwrap_or(i64::MAX);
    let mut rows = older.query(params![key(newest.id), before, left])?;
    while let Some(stored) = rows.next()? {
        found.push(blob::<Summary>(stored, 0)?.row(newest.id));
    }
    Ok(found)
}
