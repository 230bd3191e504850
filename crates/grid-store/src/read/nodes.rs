//! Rows of nodes, and totals.
//!
//! A removed node is not listed: its row stays only to give old results its name.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{CellState, Node};
use grid_types::node::NodeStatus;
use grid_types::{JobStatus, NodeId, NodeOrd};
use rusqlite::{Connection, params};

use super::Totals;
use super::budget::Budget;
use crate::cells::StoredCells;
use crate::codec::blob;
use crate::error::Fault;
use crate::rows::{NodeRow, Page};

const NODE_WORDS: [NodeStatus; 6] = [
    NodeStatus::Ready,
    NodeStatus::Warning,
    NodeStatus::Unhealthy,
    NodeStatus::Dead,
    NodeStatus::Draining,
    NodeStatus::Left,
];
const JOB_WORDS: [JobStatus; 5] =
    [JobStatus::Pending, JobStatus::Running, JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled];

pub(super) fn page(
    conn: &Connection,
    limit: u32,
    after: Option<&NodeId>,
    among: Option<&BTreeSet<NodeOrd>>,
) -> Result<Page<NodeRow, NodeId>, Fault> {
    let after = after.map_or("", NodeId::as_str);
    let mut list =
        conn.prepare_cached("SELECT node, ord FROM nodes WHERE id > ?1 AND status <> 'removed' ORDER BY id")?;
    let mut rows = list.query(params![after])?;
    let (mut found, mut more, mut budget) = (Vec::<Node>::new(), false, Budget::default());
    while let Some(row) = rows.next()? {
        let ord: u32 = row.get(1)?;
        if among.is_some_and(|among| !among.contains(&NodeOrd(ord))) {
            continue;
        }
        if budget.is_spent() || found.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            more = true;
            break;
        }
        let mut node: Node = blob(row, 0)?;
        // They would be most of a list; the row of one node has them.
        node.facts.facts.clear();
        budget.spend(&node.facts);
        found.push(node);
    }
    let next = found.last().filter(|_| more).map(|node| node.id.clone());
    Ok(Page { items: with_leases(conn, found)?, next })
}

pub(super) fn node(conn: &Connection, id: &NodeId) -> Result<Option<NodeRow>, Fault> {
    let mut find = conn.prepare_cached("SELECT node FROM nodes WHERE id = ?1 AND status <> 'removed'")?;
    let mut rows = find.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let found: Node = blob(row, 0)?;
    Ok(with_leases(conn, vec![found])?.pop())
}

fn with_leases(conn: &Connection, nodes: Vec<Node>) -> Result<Vec<NodeRow>, Fault> {
    let leases = leases_of(conn, &nodes)?;
    let row = |node: Node| NodeRow {
        leases: leases.get(&node.ord).copied().unwrap_or(0),
        id: node.id,
        ord: node.ord,
        facts: *node.facts,
        status: node.status,
        session: node.session,
        drained: node.drained,
        agent: node.agent,
        seen_wall_ms: node.changed_wall_ms,
        registered_wall_ms: node.registered_wall_ms,
        leader_epoch: node.leader_epoch,
    };
    Ok(nodes.into_iter().map(row).collect())
}

/// The outstanding leases of these nodes, from the cells of live jobs. A count in the node's own row would be a write per lease.
fn leases_of(conn: &Connection, nodes: &[Node]) -> Result<BTreeMap<NodeOrd, u32>, Fault> {
    let mut leases = BTreeMap::new();
    let mut live = conn.prepare_cached(
        "SELECT j.head, s.spec, e.nodes FROM jobs j
         JOIN specs s ON s.job = j.id JOIN expected e ON e.job = j.id WHERE j.live = 1",
    )?;
    let mut jobs = live.query([])?;
    while let Some(job) = jobs.next()? {
        let mut cells = StoredCells::of(conn, &blob(job, 0)?, &blob(job, 1)?)?;
        let expected: Vec<NodeOrd> = blob(job, 2)?;
        for node in nodes {
            let Ok(position) = expected.binary_search(&node.ord) else { continue };
            let cell = cells.at(position, node.ord)?;
            if cell.is_some_and(|cell| matches!(cell.state, CellState::Leased { .. })) {
                *leases.entry(node.ord).or_default() += 1;
            }
        }
    }
    Ok(leases)
}

pub(super) fn expected_among(conn: &Connection, nodes: &BTreeSet<NodeOrd>) -> Result<BTreeSet<NodeOrd>, Fault> {
    let mut found = BTreeSet::new();
    let mut lists = conn.prepare("SELECT nodes FROM expected")?;
    let mut rows = lists.query([])?;
    while found.len() < nodes.len()
        && let Some(row) = rows.next()?
    {
        let expected: Vec<NodeOrd> = blob(row, 0)?;
        found.extend(nodes.iter().filter(|node| expected.binary_search(node).is_ok()).copied());
    }
    Ok(found)
}

pub(super) fn totals(conn: &Connection) -> Result<Totals, Fault> {
    let index: Option<i64> = conn.prepare_cached("SELECT log_index FROM meta")?.query_one([], |row| row.get(0))?;
    let known = "SELECT status, count(*) FROM nodes WHERE status <> 'removed' GROUP BY status";
    Ok(Totals {
        nodes: by_word(conn, known, &NODE_WORDS.map(NodeStatus::word))?,
        jobs: by_word(conn, "SELECT status, jobs FROM job_totals", &JOB_WORDS.map(JobStatus::word))?,
        applied_index: index.unwrap_or(0).cast_unsigned(),
    })
}

fn by_word(conn: &Connection, sql: &str, words: &[&str]) -> Result<BTreeMap<String, u64>, Fault> {
    let mut totals: BTreeMap<String, u64> = words.iter().map(|word| ((*word).to_owned(), 0)).collect();
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        totals.insert(row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned());
    }
    Ok(totals)
}
