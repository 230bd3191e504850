//! Events in the order of their numbers.
//!
//! Rows of one job come by their index; every other wish is looked for row by row, in windows of [`WINDOW`] numbers a
//! transaction, so that a rare kind among millions costs many short reads and never a long one. Numbers have gaps: old rows
//! are pruned, and a restore moves them on (E2); a window begins at a row that is there.

use std::collections::BTreeMap;

use grid_types::{Event, JobId};
use rusqlite::{Connection, Row, params};

use super::budget::Budget;
use crate::codec::{blob, key};
use crate::error::Fault;
use crate::rows::EventRow;
use crate::write::last_event;

const WINDOW: u64 = 10_000;
/// What one page may cost; a reader that wants to know of older ones asks for the next.
pub(super) const WINDOWS_A_PAGE: u32 = 100;
/// What a row takes of a page besides its event and its labels.
const ROW_BYTES: usize = 320;

const COLUMNS: &str = "SELECT e.id, e.wall_ms, e.leader_epoch, e.event, e.job, e.node, e.namespace, s.name, s.labels
     FROM events e LEFT JOIN specs s ON s.job = e.job";

/// Selects events; an empty field matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Events of these kinds; empty: any.
    pub kinds: Vec<String>,
    /// Events about this job.
    pub job: Option<JobId>,
    /// Events about this node, alone or among others.
    pub node: Option<String>,
    /// Events of this namespace.
    pub namespace: Option<String>,
}

impl EventFilter {
    /// Whether an event passes the filter.
    #[must_use]
    pub fn matches(&self, event: &EventRow) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == event.event.kind()))
            && self.job.is_none_or(|job| event.job == Some(job))
            && (same(&self.node, &event.node) || self.is_named_by(&event.event))
            && same(&self.namespace, &event.namespace)
    }

    /// Whether the node is one of several that the event names.
    fn is_named_by(&self, event: &Event) -> bool {
        let named = self.node.as_ref().zip(event.nodes());
        named.is_some_and(|(node, nodes)| nodes.iter().any(|name| name.as_str() == node))
    }
}

/// The newest number that was given, whether its row is still there or pruned.
pub(super) fn newest(conn: &Connection) -> Result<u64, Fault> {
    Ok(last_event(conn)?.cast_unsigned())
}

pub(super) fn after(
    conn: &Connection,
    filter: &EventFilter,
    after: u64,
    limit: usize,
) -> Result<(Vec<EventRow>, u64), Fault> {
    let newest = newest(conn)?;
    // The events of one job are few: no window is needed.
    let mut next = conn.prepare_cached("SELECT min(id) FROM events WHERE id > ?1")?;
    let next: Option<i64> = next.query_one([signed(after)], |row| row.get(0))?;
    let begin = next.map_or(newest, |next| next.cast_unsigned().saturating_sub(1)).max(after);
    let to = if filter.job.is_some() { newest } else { newest.min(begin.saturating_add(WINDOW)) };
    let mut budget = Budget::default();
    let found = between(conn, filter, (after, to), limit, "ASC", &mut budget)?;
    let is_full = found.len() >= limit || budget.is_spent();
    let reached = if is_full { found.last().map_or(to, |event| event.id) } else { to.max(after) };
    Ok((found, reached))
}

/// One window of them, newest first, and the `before` of the next one; `None`: there are no older ones.
pub(super) fn before(
    conn: &Connection,
    filter: &EventFilter,
    before: Option<u64>,
    limit: usize,
    budget: &mut Budget,
) -> Result<(Vec<EventRow>, Option<u64>), Fault> {
    let to = before.map_or(u64::MAX, |before| before.saturating_sub(1));
    let mut last = conn.prepare_cached("SELECT max(id) FROM events WHERE id <= ?1")?;
    let last: Option<i64> = last.query_one([signed(to)], |row| row.get(0))?;
    let to = last.unwrap_or(0).cast_unsigned();
    let from = if filter.job.is_some() { 0 } else { to.saturating_sub(WINDOW) };
    let found = between(conn, filter, (from, to), limit, "DESC", budget)?;
    let next = match found.last() {
        Some(last) if found.len() >= limit || budget.is_spent() => last.id,
        _ => from + 1,
    };
    let oldest: Option<i64> = conn.prepare_cached("SELECT min(id) FROM events")?.query_one([], |row| row.get(0))?;
    Ok((found, oldest.map(i64::cast_unsigned).filter(|oldest| *oldest < next).map(|_| next)))
}

/// No number is above this.
fn signed(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}

/// Numbers above `from`, up to `to`.
fn between(
    conn: &Connection,
    filter: &EventFilter,
    (from, to): (u64, u64),
    limit: usize,
    order: &str,
    budget: &mut Budget,
) -> Result<Vec<EventRow>, Fault> {
    let of_job = if filter.job.is_some() { "e.job = ?3" } else { "?3 IS NULL" };
    let sql = format!("{COLUMNS} WHERE {of_job} AND e.id > ?1 AND e.id <= ?2 ORDER BY e.id {order}");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query(params![signed(from), signed(to), filter.job.map(key)])?;
    let mut found = Vec::new();
    while found.len() < limit
        && !budget.is_spent()
        && let Some(row) = rows.next()?
    {
        let event = read(row)?;
        if filter.matches(&event) {
            budget.spend_bytes(ROW_BYTES + 2 * row.get_ref(3)?.as_blob().map_or(0, <[u8]>::len));
            budget.spend(&event.labels);
            found.push(event);
        }
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<EventRow, Fault> {
    Ok(EventRow {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        wall_ms: row.get::<_, i64>(1)?.cast_unsigned(),
        leader_epoch: row.get::<_, i64>(2)?.cast_unsigned(),
        event: blob(row, 3)?,
        job: row.get::<_, Option<i64>>(4)?.map(|id| JobId(id.cast_unsigned())),
        node: row.get(5)?,
        namespace: row.get(6)?,
        name: row.get(7)?,
        labels: row.get::<_, Option<String>>(8)?.map(|lines| labels(&lines)),
    })
}

/// Of the job, from its lines.
fn labels(lines: &str) -> BTreeMap<String, String> {
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use grid_types::{Event, Outcome, StepIndex};

    use super::{Budget, EventFilter, WINDOW, after, before};
    use crate::rows::EventRow;
    use crate::schema;

    #[test]
    fn issue13_26_a_node_finds_events_that_name_it_among_others() {
        let nodes = ["web-01", "web-02"].map(|name| name.parse().unwrap()).to_vec();
        let (step, outcome) = (StepIndex(0), Outcome::Failed);
        let event = Event::StepFailed { step, outcome, reason: None, nodes, more: 0, error: None };
        let row = EventRow {
            id: 1,
            wall_ms: 0,
            leader_epoch: 1,
            event,
            job: None,
            node: None,
            namespace: None,
            name: None,
            labels: None,
        };
        let of = |node: &str| EventFilter { node: Some(node.to_owned()), ..EventFilter::default() };
        assert!(of("web-02").matches(&row) && !of("web-03").matches(&row));
        assert!(EventFilter::default().matches(&row));
    }

    #[test]
    fn e2_a_gap_in_the_numbers_costs_nothing() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("db");
        schema::create(&path, b"").unwrap();
        let conn = schema::writer(&path).unwrap();
        let far = 1i64 << 48;
        for id in [1, 2, far, far + 1] {
            let row = "INSERT INTO events (id, wall_ms, leader_epoch, kind, event, now_ms) VALUES (?1, 0, 1, 3, ?2, 0)";
            conn.execute(row, rusqlite::params![id, minicbor::to_vec(Event::JobContinued).unwrap()]).unwrap();
        }
        let ids = |found: Vec<EventRow>| found.iter().map(|event| event.id.cast_signed()).collect::<Vec<_>>();
        let everything = EventFilter::default();
        let (found, reached) = after(&conn, &everything, 0, 10).unwrap();
        assert_eq!(ids(found), [1, 2]);
        let (found, reached) = after(&conn, &everything, reached, 10).unwrap();
        assert_eq!((ids(found), reached.cast_signed()), (vec![far, far + 1], far + 1));
        assert_eq!(ids(after(&conn, &everything, 1_000, 10).unwrap().0), [far, far + 1], "an id of a lost time");
        let (found, next) = before(&conn, &everything, None, 10, &mut Budget::default()).unwrap();
        assert_eq!(ids(found), [far + 1, far]);
        let (found, next) = before(&conn, &everything, next, 10, &mut Budget::default()).unwrap();
        assert_eq!((ids(found), next), (vec![2, 1], None));
    }

    #[test]
    fn a_kind_that_is_not_there_costs_one_window_a_transaction() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("db");
        schema::create(&path, b"").unwrap();
        let conn = schema::writer(&path).unwrap();
        let rows = "WITH RECURSIVE n(i) AS (SELECT 8001 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) \
             INSERT INTO events (id, wall_ms, leader_epoch, kind, event, now_ms) SELECT i, 0, 1, 3, ?1, 0 FROM n";
        conn.execute(rows, [minicbor::to_vec(Event::JobContinued).unwrap()]).unwrap();
        let rare = EventFilter { kinds: vec!["Rare".to_owned()], ..EventFilter::default() };
        let (mut asked, mut seen) = (None, Vec::new());
        loop {
            let (found, next) = before(&conn, &rare, asked, 10, &mut Budget::default()).unwrap();
            assert!(found.is_empty());
            seen.push(next);
            asked = next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(seen, [Some(25_001 - WINDOW), None], "older ones were pruned");
        let (page, next) = before(&conn, &EventFilter::default(), Some(8_004), 2, &mut Budget::default()).unwrap();
        assert_eq!((page.iter().map(|event| event.id).collect::<Vec<_>>(), next), (vec![8_003, 8_002], Some(8_002)));
        let (page, next) = before(&conn, &EventFilter::default(), next, 2, &mut Budget::default()).unwrap();
        assert_eq!((page.len(), next), (1, None));
    }
}
