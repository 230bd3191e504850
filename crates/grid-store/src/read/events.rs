//! Events in the order of their numbers.
//!
//! Rows of one job come by their index; every other wish is looked for row by row, in windows of [`WINDOW`] numbers a
//! call, so that a rare kind among millions costs many short reads and never a long one.

use grid_types::JobId;
use grid_types::api::{EventDoc, EventFilter, ListDoc};
use rusqlite::{Connection, Row, params};

use super::time_text;
use crate::error::Fault;
use crate::write::key;

const WINDOW: u64 = 10_000;

const COLUMNS: &str = "SELECT id, wall_ms, leader_epoch, kind, subject, text, job, node, namespace FROM events";

pub(super) fn newest(conn: &Connection) -> Result<u64, Fault> {
    let newest: Option<i64> = conn.prepare_cached("SELECT max(id) FROM events")?.query_one([], |row| row.get(0))?;
    Ok(newest.unwrap_or(0).cast_unsigned())
}

pub(super) fn after(
    conn: &Connection,
    filter: &EventFilter,
    after: u64,
    limit: usize,
) -> Result<(Vec<EventDoc>, u64), Fault> {
    let newest = newest(conn)?;
    // The events of one job are few: no window is needed.
    let to = if filter.job.is_some() { newest } else { newest.min(after.saturating_add(WINDOW)) };
    let found = between(conn, filter, after, to, limit, "ASC")?;
    let reached = if found.len() < limit { to.max(after) } else { found.last().map_or(to, |event| event.id) };
    Ok((found, reached))
}

pub(super) fn before(
    conn: &Connection,
    filter: &EventFilter,
    before: Option<u64>,
    limit: usize,
) -> Result<ListDoc<EventDoc>, Fault> {
    let mut to = newest(conn)?.min(before.map_or(u64::MAX, |before| before.saturating_sub(1)));
    let mut items = Vec::new();
    while items.len() < limit && to > 0 {
        let from = if filter.job.is_some() { 0 } else { to.saturating_sub(WINDOW) };
        items.extend(between(conn, filter, from, to, limit - items.len(), "DESC")?);
        to = from;
    }
    let full = items.len() == limit;
    let next = items.last().filter(|_| full).map(|event| event.id.to_string());
    Ok(ListDoc { items, next })
}

/// Numbers above `from`, up to `to`.
fn between(
    conn: &Connection,
    filter: &EventFilter,
    from: u64,
    to: u64,
    limit: usize,
    order: &str,
) -> Result<Vec<EventDoc>, Fault> {
    let of_job = if filter.job.is_some() { "job = ?3" } else { "?3 IS NULL" };
    let sql = format!("{COLUMNS} WHERE {of_job} AND id > ?1 AND id <= ?2 ORDER BY id {order}");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query(params![from.cast_signed(), to.cast_signed(), filter.job.map(key)])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let event = document(row)?;
        if filter.matches(&event) {
            found.push(event);
        }
    }
    Ok(found)
}

fn document(row: &Row<'_>) -> Result<EventDoc, Fault> {
    let job: Option<i64> = row.get(6)?;
    Ok(EventDoc {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        at: time_text(row.get::<_, i64>(1)?.cast_unsigned()),
        leader_epoch: row.get::<_, i64>(2)?.cast_unsigned(),
        kind: row.get(3)?,
        subject: row.get(4)?,
        text: row.get(5)?,
        job: job.map(|id| JobId(id.cast_unsigned()).to_string()),
        node: row.get(7)?,
        namespace: row.get(8)?,
        role: None,
    })
}
