//! Reads a page of a job's rows, by (step, node name).
//!
//! Nothing but the page is read: nodes come in the order of their names from where the last page ended, and each row
//! is looked up. A status that a step's counts do not have skips that step.

use grid_types::{JobRef, NodeId, NodeOrd, Outcome};
use rusqlite::{Connection, OptionalExtension};

use super::budget::Budget;
use super::job::StoredJob;
use super::roster::Roster;
use super::view::View;
use crate::error::Fault;
use crate::rows::{Page, ResultPage, ResultRow};

/// Names fetched at once while looking for rows of a status.
const CHUNK: usize = 1_000;
/// What a row takes of a page besides its error.
const ROW_BYTES: usize = 200;

/// Which rows; what is left out is any, of the newest run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultFilter {
    pub step: Option<u32>,
    pub status: Option<Outcome>,
    pub node: Option<NodeId>,
    pub run: Option<u32>,
}

pub(super) fn page(
    conn: &Connection,
    job: &JobRef,
    limit: u32,
    after: Option<(u32, String)>,
    filter: ResultFilter,
) -> Result<Option<ResultPage>, Fault> {
    let ResultFilter { step, status, node, run } = filter;
    let Some(job) = StoredJob::of_run(conn, job, run)? else { return Ok(None) };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (from, mut name) = after.unwrap_or_default();
    // One more row than asked for shows whether there is a next page.
    let most = limit.saturating_add(1);
    let mut search = Search { job: &job, status, most, found: Vec::new(), budget: Budget::default() };
    let only = node.map(|node| find(conn, &node, &job.expected)).transpose()?;
    let roster = Roster::new(conn, only.as_deref().unwrap_or(&job.expected))?;
    let mut view = View::new(conn, &job)?;
    let steps = u32::try_from(job.spec.step_count()).unwrap_or(u32::MAX);
    for at in (from..steps).filter(|at| step.is_none_or(|only| only == *at)) {
        let behind = if at == from { std::mem::take(&mut name) } else { String::new() };
        search.step(&roster, &mut view, at, behind)?;
        if search.is_full() {
            break;
        }
    }
    let more = search.is_full();
    let mut items = search.found;
    if more {
        items.pop();
    }
    let next = items.last().filter(|_| more).map(|row| (row.step, row.node.clone()));
    Ok(Some(Page { items, next }))
}

/// The node of a name, if it is expected.
fn find(conn: &Connection, node: &NodeId, expected: &[NodeOrd]) -> Result<Vec<NodeOrd>, Fault> {
    let mut by_name = conn.prepare_cached("SELECT ord FROM nodes WHERE id = ?1")?;
    let ord = by_name.query_row([node.as_str()], |row| row.get(0).map(NodeOrd)).optional()?;
    Ok(ord.filter(|ord| expected.binary_search(ord).is_ok()).into_iter().collect())
}

struct Search<'a> {
    job: &'a StoredJob,
    status: Option<Outcome>,
    most: usize,
    found: Vec<ResultRow>,
    budget: Budget,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.most
    }

    /// Rows of one step, of nodes behind a name.
    fn step(&mut self, roster: &Roster<'_>, view: &mut View<'_>, step: u32, mut behind: String) -> Result<(), Fault> {
        let before = self.found.len();
        let there = self.rows_of(step);
        while !self.is_full() && self.found.len() - before < there {
            let missing = self.most - self.found.len();
            let wanted = if self.status.is_some() { CHUNK } else { missing.min(CHUNK) };
            let chunk = roster.after(&behind, wanted)?;
            let Some((last, _)) = chunk.last() else { return Ok(()) };
            behind.clone_from(last);
            for (node, ord) in chunk {
                let result = view.of(step, ord)?;
                if self.status.is_none_or(|status| status == result.status) && !self.is_full() {
                    if self.budget.is_spent() {
                        // This row begins the next page.
                        self.most = self.found.len() + 1;
                    }
                    self.budget.spend_bytes(ROW_BYTES);
                    self.budget.spend(&result.error);
                    self.found.push(ResultRow { job: self.job.head.id, step, node, result });
                }
            }
        }
        Ok(())
    }

    /// How many rows of the wanted status the step has, at most.
    fn rows_of(&self, step: u32) -> usize {
        let tally = self.job.head.tallies.get(usize::try_from(step).unwrap_or(usize::MAX));
        match (self.status, tally) {
            (Some(status), Some(tally)) => usize::try_from(tally.count(status)).unwrap_or(usize::MAX),
            _ => self.job.expected.len(),
        }
    }
}
