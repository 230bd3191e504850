//! Removes what is stored of forgotten jobs (L6).
//!
//! ```text
//!   forgotten: the job's own rows go at once, nobody finds it any more; its number is noted in `pruned`
//!   every batch after that takes a bounded number of rows of its history; the last one takes the note
//! ```
//!
//! In steps, because a job may have two million results, and to remove them in one transaction would hold up everybody for
//! many seconds. When which row goes is nobody's business: no read gets at them without the job.

use std::collections::BTreeSet;

use grid_core::Changes;
use grid_types::JobId;
use rusqlite::{Connection, params};

use super::Written;
use super::totals::{self, Totals};
use crate::codec::key;
use crate::error::Fault;

/// Rows of history that one batch removes.
const MOST_ROWS: usize = 2_000;

/// What an earlier life of the process has left to do.
pub(super) fn unfinished(conn: &Connection) -> Result<BTreeSet<JobId>, Fault> {
    let mut noted = conn.prepare("SELECT job FROM pruned")?;
    let jobs = noted.query_map([], |row| Ok(JobId(row.get::<_, i64>(0)?.cast_unsigned())))?;
    Ok(jobs.collect::<Result<_, _>>()?)
}

pub(super) fn forget(
    conn: &Connection,
    written: &mut Written,
    totals: &mut Totals,
    changes: &[Changes],
) -> Result<(), Fault> {
    for id in changes.iter().flat_map(|one| &one.pruned) {
        totals.moved(totals::remove(conn, *id)?, None);
        for of_job in [
            "DELETE FROM specs WHERE job = ?1",
            "DELETE FROM runs WHERE job = ?1",
            "DELETE FROM expected WHERE job = ?1",
            "DELETE FROM cells WHERE job = ?1",
            "INSERT INTO pruned (job) VALUES (?1)",
        ] {
            conn.prepare_cached(of_job)?.execute([key(*id)])?;
        }
        written.pruned.insert(*id);
    }
    Ok(())
}

pub(super) fn sweep(conn: &Connection, written: &mut Written, changes: &[Changes]) -> Result<(), Fault> {
    let mut left = MOST_ROWS;
    // What one batch leaves of these, the leader asks for again.
    if let Some(before_ms) = changes.iter().filter_map(|one| one.events_before_ms).max() {
        let old = "DELETE FROM events WHERE id IN
                   (SELECT id FROM events WHERE job IS NULL AND now_ms < ?1 ORDER BY now_ms LIMIT ?2)";
        left -= conn.prepare_cached(old)?.execute(params![before_ms.cast_signed(), left.cast_signed()])?;
    }
    while left > 0
        && let Some(id) = written.pruned.first().copied()
    {
        for table in [Table::Results, Table::Skips, Table::Events] {
            left -= table.take(conn, id, left)?;
        }
        if left > 0 {
            conn.prepare_cached("DELETE FROM pruned WHERE job = ?1")?.execute([key(id)])?;
            written.pruned.remove(&id);
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Table {
    Results,
    Skips,
    Events,
}

impl Table {
    /// Removes at most so many rows of a job, and returns how many it were.
    fn take(self, conn: &Connection, id: JobId, most: usize) -> Result<usize, Fault> {
        let rows = match self {
            Self::Results => {
                // Outputs are of one job: nobody else refers to them.
                conn.prepare_cached(
                    "DELETE FROM outputs WHERE id IN
                     (SELECT output FROM results WHERE job = ?1 AND output IS NOT NULL ORDER BY step, node LIMIT ?2)",
                )?
                .execute(params![key(id), most.cast_signed()])?;
                "DELETE FROM results WHERE id IN (SELECT id FROM results WHERE job = ?1 ORDER BY step, node LIMIT ?2)"
            }
            Self::Skips => "DELETE FROM skips WHERE id IN (SELECT id FROM skips WHERE job = ?1 LIMIT ?2)",
            Self::Events => "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE job = ?1 LIMIT ?2)",
        };
        Ok(conn.prepare_cached(rows)?.execute(params![key(id), most.cast_signed()])?)
    }
}
