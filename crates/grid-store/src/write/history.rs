//! Appends history in the order in which it happened; equal outputs once.

use std::collections::BTreeSet;

use grid_core::{Changes, EventRow, History, ResultRow, SkipRow};
use grid_types::JobId;
use rusqlite::{CachedStatement, Connection, params};

use super::{Place, Written};
use crate::codec::{encoded, key};
use crate::error::Fault;
use crate::noted::noted;
use crate::outputs::{RecentOutputs, hash};

struct Pens<'c> {
    conn: &'c Connection,
    result: CachedStatement<'c>,
    output: CachedStatement<'c>,
    skip: CachedStatement<'c>,
    event: CachedStatement<'c>,
}

/// Returns where results came in.
pub(super) fn append(conn: &Connection, written: &mut Written, changes: &[Changes]) -> Result<BTreeSet<Place>, Fault> {
    let mut pens = Pens {
        conn,
        result: conn.prepare_cached(
            "INSERT OR ROLLBACK INTO results (id, job, step, node, job_epoch, attempt, outcome, duration_ms, started_ms, leader_epoch,
                                  output, output_bytes, reason, error)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?,
        output: conn.prepare_cached("INSERT OR ROLLBACK INTO outputs (hash, tail) VALUES (?1, ?2)")?,
        skip: conn.prepare_cached(
            "INSERT OR ROLLBACK INTO skips (job, node, job_epoch, from_step, to_step, leader_epoch, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?,
        event: conn.prepare_cached(
            "INSERT OR ROLLBACK INTO events (wall_ms, leader_epoch, kind, event, job, node, namespace, now_ms, id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?,
    };
    let mut settled = BTreeSet::new();
    for one in changes {
        let mut event_id = first_event(conn, one)?;
        for row in &one.history {
            match row {
                History::Result(row) => {
                    // Numbered here: SQLite would give the number of a pruned row again, and cells tell earlier from later
                    // by it.
                    written.last_result += 1;
                    pens.result(written.last_result, &mut written.outputs, row)?;
                    settled.insert((row.job, row.step, row.node));
                }
                History::Skip(row) => pens.skip(row)?,
                History::Event(row) => pens.event(event_id.take(), row, one.now_ms)?,
            }
        }
    }
    Ok(settled)
}

/// The number of the next event, if SQLite is not to give the next one: after a restore they begin beyond what was given
/// since the backup (E2).
fn first_event(conn: &Connection, changes: &Changes) -> Result<Option<i64>, Fault> {
    let Some(from) = changes.events_from.map(u64::cast_signed) else { return Ok(None) };
    Ok((from > last_event(conn)?).then_some(from))
}

/// The newest number of an event that was given; 0 before the first. Rows do not say it: the newest may be pruned.
pub(crate) fn last_event(conn: &Connection) -> Result<i64, Fault> {
    let last = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'";
    Ok(conn.prepare_cached(last)?.query_one([], |row| row.get(0))?)
}

impl Pens<'_> {
    fn result(&mut self, id: i64, recent: &mut RecentOutputs, row: &ResultRow) -> Result<(), Fault> {
        let output = self.output(recent, row.job, &row.output_tail)?;
        self.result.execute(params![
            id,
            key(row.job),
            row.step.0,
            row.node.0,
            row.job_epoch.0,
            row.attempt.0,
            row.outcome as u8,
            row.duration_ms.cast_signed(),
            row.started_wall_ms.cast_signed(),
            row.leader_epoch.wire().cast_signed(),
            output,
            row.output_bytes.cast_signed(),
            noted(row)?,
            row.error,
        ])?;
        Ok(())
    }

    fn output(&mut self, recent: &mut RecentOutputs, job: JobId, tail: &[u8]) -> Result<Option<i64>, Fault> {
        if tail.is_empty() {
            return Ok(None);
        }
        let hash = hash(tail);
        if let Some(known) = recent.row_of(job, hash) {
            return Ok(Some(known));
        }
        self.output.execute(params![hash, tail])?;
        let id = self.conn.last_insert_rowid();
        recent.insert(job, hash, id);
        Ok(Some(id))
    }

    fn skip(&mut self, row: &SkipRow) -> Result<(), Fault> {
        self.skip.execute(params![
            key(row.job),
            // Node numbers begin at 1.
            row.node.map_or(0, |node| node.0),
            row.job_epoch.0,
            row.from.0,
            row.to.0,
            row.leader_epoch.wire().cast_signed(),
            encoded(&row.reason)?,
        ])?;
        Ok(())
    }

    fn event(&mut self, id: Option<i64>, row: &EventRow, now_ms: u64) -> Result<(), Fault> {
        let epoch = row.leader_epoch.wire().cast_signed();
        self.event.execute(params![
            row.wall_ms.cast_signed(),
            epoch,
            row.event.number(),
            encoded(&row.event)?,
            row.job.map(key),
            row.node.as_ref().map(grid_types::NodeId::as_str),
            row.namespace.as_ref().map(grid_types::Name::as_str),
            now_ms.cast_signed(),
            id,
        ])?;
        Ok(())
    }
}
