//! Lists the expected nodes of a job in the order of their names.
//!
//! A job knows its nodes by number, people by name. A job over much of the fleet walks the index of names and leaves
//! out who is not expected, so that a page costs a page; a job over a few nodes looks those up and sorts them.

use grid_types::NodeOrd;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Fault;

/// Walk the index if at least one in this many of its nodes is expected.
const SPARSE: usize = 16;

pub(super) struct Roster<'a> {
    conn: &'a Connection,
    expected: &'a [NodeOrd],
    /// Of a job over a few nodes.
    sorted: Option<Vec<(String, NodeOrd)>>,
}

impl<'a> Roster<'a> {
    pub fn new(conn: &'a Connection, expected: &'a [NodeOrd]) -> Result<Self, Fault> {
        let newest: Option<u32> = conn.prepare_cached("SELECT max(ord) FROM nodes")?.query_one([], |row| row.get(0))?;
        let fleet = usize::try_from(newest.unwrap_or(0)).unwrap_or(usize::MAX);
        let sparse = expected.len().saturating_mul(SPARSE) < fleet;
        let sorted = if sparse { Some(look_up(conn, expected)?) } else { None };
        Ok(Self { conn, expected, sorted })
    }

    pub fn names(&self) -> Result<Vec<String>, Fault> {
        Ok(self.after("", usize::MAX)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The first `most` whose name is greater; every name is greater than "".
    pub fn after(&self, name: &str, most: usize) -> Result<Vec<(String, NodeOrd)>, Fault> {
        if let Some(sorted) = &self.sorted {
            let from = sorted.partition_point(|(known, _)| known.as_str() <= name);
            return Ok(sorted[from..].iter().take(most).cloned().collect());
        }
        let mut found = Vec::new();
        let mut walk = self.conn.prepare_cached("SELECT id, ord FROM nodes WHERE id > ?1 ORDER BY id")?;
        let mut rows = walk.query([name])?;
        while found.len() < most.min(self.expected.len())
            && let Some(row) = rows.next()?
        {
            let ord = NodeOrd(row.get(1)?);
            if self.expected.binary_search(&ord).is_ok() {
                found.push((row.get(0)?, ord));
            }
        }
        Ok(found)
    }
}

fn look_up(conn: &Connection, expected: &[NodeOrd]) -> Result<Vec<(String, NodeOrd)>, Fault> {
    let mut by_ord = conn.prepare_cached("SELECT id FROM nodes WHERE ord = ?1")?;
    let mut found = Vec::with_capacity(expected.len());
    for ord in expected {
        if let Some(name) = by_ord.query_row(params![ord.0], |row| row.get(0)).optional()? {
            found.push((name, *ord));
        }
    }
    found.sort();
    Ok(found)
}
