//! Rows of jobs.
//!
//! A row is made from what is stored of the job itself, its spec and its expected nodes: its counts are kept by the state
//! machine, so that no result is read for them. Only a small job has its results in its row.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{JobHead, Scope};
use grid_types::job::JobSpec;
use grid_types::limits::SHOWN_RUNS;
use grid_types::{JobId, JobRef, JobStatus, Name, Namespace, NodeOrd, StepIndex};
use rusqlite::{Connection, Row, ToSql, params};

use super::budget::Budget;
use super::roster::Roster;
use super::view::View;
use crate::codec::{blob, key, optional_blob};
use crate::error::Fault;
use crate::rows::{JobRow, Page, ResultRow, RunRow};
use crate::runs;

/// More rows than this are paged, not shown inline; more names than this are not repeated for each job of a list.
const MOST_INLINE: usize = 1_000;
/// What a job takes of a page, and each of its steps, besides the parts that have no fixed length.
const ROW_BYTES: usize = 1_024;
const STEP_BYTES: usize = 320;

/// A stored job, ended or not.
pub(super) struct StoredJob {
    pub head: JobHead,
    pub spec: JobSpec,
    /// Ascending; empty before the start.
    pub expected: Vec<NodeOrd>,
    pub scope: Scope,
    pub live: bool,
    pub owner: Option<String>,
    /// The last job epoch of the run; no bound for the newest.
    pub last_epoch: u32,
}

const COLUMNS: &str = "SELECT j.head, s.spec, e.nodes, j.live, j.owner, e.scope FROM jobs j
     JOIN specs s ON s.job = j.id LEFT JOIN expected e ON e.job = j.id";

impl StoredJob {
    /// As its newest run has it.
    pub fn find(conn: &Connection, job: &JobRef) -> Result<Option<Self>, Fault> {
        let mut find = conn.prepare_cached(&format!("{COLUMNS} WHERE j.id = ?1 AND j.namespace = ?2"))?;
        let mut rows = find.query(params![key(job.id), job.namespace.as_str()])?;
        rows.next()?.map(Self::read).transpose()
    }

    /// As one of its runs had it (J8); none: the newest. `None` also if there is no such run.
    pub fn of_run(conn: &Connection, job: &JobRef, run: Option<u32>) -> Result<Option<Self>, Fault> {
        let Some(newest) = Self::find(conn, job)? else { return Ok(None) };
        match run {
            Some(run) if run != newest.head.run => newest.at_run(conn, run),
            _ => Ok(Some(newest)),
        }
    }

    fn at_run(self, conn: &Connection, run: u32) -> Result<Option<Self>, Fault> {
        let Some((head, scope, last_epoch)) = runs::find(conn, &self.head, run)? else { return Ok(None) };
        // A run that found no nodes has none, although a later one may have.
        let had_nodes = head.tallies.iter().any(|tally| tally.total() > 0);
        let expected = if had_nodes { self.expected } else { Vec::new() };
        Ok(Some(Self { head, expected, scope, live: false, last_epoch, ..self }))
    }

    /// Whether an earlier run has done the step there.
    pub fn is_done(&self, step: u32, node: NodeOrd) -> bool {
        let Some(done) = self.scope.done.get(&StepIndex(step)) else { return false };
        self.expected.binary_search(&node).is_ok_and(|position| done.has(position))
    }

    /// The job epochs whose results the run shows of a step on a node: its own, and earlier ones where those have done it.
    pub fn epochs(&self, step: u32, node: NodeOrd) -> (u32, u32) {
        (if self.is_done(step, node) { 0 } else { self.head.run_epoch.0 }, self.last_epoch)
    }

    fn read(row: &Row<'_>) -> Result<Self, Fault> {
        Ok(Self {
            head: blob(row, 0)?,
            spec: blob(row, 1)?,
            expected: optional_blob(row, 2)?.unwrap_or_default(),
            live: row.get(3)?,
            owner: row.get(4)?,
            scope: optional_blob(row, 5)?.unwrap_or_default(),
            last_epoch: u32::MAX,
        })
    }

    /// Of the expected nodes, in their order.
    fn names(&self, conn: &Connection) -> Result<Vec<String>, Fault> {
        Roster::new(conn, &self.expected)?.names()
    }

    /// Without results and runs. `expected`: the names, in their order.
    pub fn into_row(self, expected: Option<Vec<String>>) -> JobRow {
        let head = self.head;
        JobRow {
            id: head.id,
            namespace: head.namespace,
            spec: self.spec,
            status: head.status,
            reason: head.reason,
            held: head.held,
            phase: head.phase,
            expected,
            expected_count: u64::try_from(self.expected.len()).unwrap_or(u64::MAX),
            skipped_offline: u64::from(head.skipped_offline.count()),
            owner: self.owner,
            epoch: head.epoch,
            leader_epoch: head.leader_epoch,
            tallies: head.tallies,
            results: None,
            run: head.run,
            runs: None,
            created_wall_ms: head.created_wall_ms,
            updated_wall_ms: head.updated_wall_ms,
        }
    }

    pub fn shows_rows(&self) -> bool {
        self.spec.step_count().saturating_mul(self.expected.len()) <= MOST_INLINE
    }

    /// By step and name.
    fn results(&self, conn: &Connection) -> Result<Vec<ResultRow>, Fault> {
        let nodes = Roster::new(conn, &self.expected)?.after("", usize::MAX)?;
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = Vec::with_capacity(self.spec.step_count().saturating_mul(nodes.len()));
        let mut view = View::new(conn, self)?;
        for (step, _) in (0u32..).zip(self.spec.steps()) {
            for (name, node) in &nodes {
                rows.push(ResultRow { job: self.head.id, step, node: name.clone(), result: view.of(step, *node)? });
            }
        }
        Ok(rows)
    }
}

pub(super) fn job(conn: &Connection, job: &JobRef, run: Option<u32>) -> Result<Option<JobRow>, Fault> {
    let Some(newest) = StoredJob::find(conn, job)? else { return Ok(None) };
    let shown = runs::list(conn, &newest.head, None, SHOWN_RUNS)?;
    let Some(stored) = StoredJob::of_run(conn, job, run)? else { return Ok(None) };
    let results = if stored.shows_rows() { Some(stored.results(conn)?) } else { None };
    let names = stored.names(conn)?;
    Ok(Some(JobRow { results, runs: Some(shown), ..stored.into_row(Some(names)) }))
}

/// Which jobs of a namespace; what is left out is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Jobs older than this one.
    pub before: Option<JobId>,
    pub status: Option<JobStatus>,
    pub name: Option<String>,
    /// All of them.
    pub labels: BTreeMap<Name, Name>,
    /// Only these.
    pub among: Option<BTreeSet<JobId>>,
}

pub(super) fn jobs(
    conn: &Connection,
    namespace: &Namespace,
    limit: u32,
    filter: &JobFilter,
) -> Result<Page<JobRow, JobId>, Fault> {
    let before = filter.before.map_or(i64::MAX, key);
    // One more row than asked for shows whether there is a next page.
    let most = i64::from(limit) + 1;
    let mut found = Vec::new();
    let status = filter.status.map(JobStatus::word);
    let lines: Vec<String> = filter.labels.iter().map(|(key, value)| format!("\n{key}={value}\n")).collect();
    let namespace = namespace.as_str();
    let mut values: Vec<&dyn ToSql> = vec![&namespace, &before, &most];
    let mut wanted = String::new();
    if let Some(status) = &status {
        values.push(status);
        wanted.push_str(&format!(" AND j.status = ?{}", values.len()));
    }
    if let Some(name) = &filter.name {
        values.push(name);
        wanted.push_str(&format!(" AND s.name = ?{}", values.len()));
    }
    for line in &lines {
        values.push(line);
        wanted.push_str(&format!(" AND instr(s.labels, ?{}) > 0", values.len()));
    }
    let among = filter.among.as_ref().map(|ids| {
        let ids: Vec<_> = ids.iter().map(|id| key(*id).to_string()).collect();
        format!("[{}]", ids.join(","))
    });
    if let Some(among) = &among {
        values.push(among);
        wanted.push_str(&format!(" AND j.id IN (SELECT value FROM json_each(?{}))", values.len()));
    }
    let sql = format!("{COLUMNS} WHERE j.namespace = ?1 AND j.id < ?2{wanted} ORDER BY j.id DESC LIMIT ?3");
    let mut list = conn.prepare_cached(&sql)?;
    let mut rows = list.query(values.as_slice())?;
    let (mut more, mut budget) = (false, Budget::default());
    while let Some(row) = rows.next()? {
        if budget.is_spent() || found.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            more = true;
            break;
        }
        // One row after the other: a thousand specs at once may be a gigabyte.
        let stored = StoredJob::read(row)?;
        let few = stored.expected.len() <= MOST_INLINE;
        let names = if few { Some(stored.names(conn)?) } else { None };
        let row = stored.into_row(names);
        spend(&mut budget, &row);
        found.push(row);
    }
    let next = found.last().filter(|_| more).map(|row| row.id);
    Ok(Page { items: found, next })
}

/// Newest first, older than `before`; `next` is the `before` of the next page.
pub(super) fn runs(
    conn: &Connection,
    job: &JobRef,
    before: Option<u32>,
    limit: u32,
) -> Result<Option<Page<RunRow, u32>>, Fault> {
    let Some(newest) = StoredJob::find(conn, job)? else { return Ok(None) };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // One more row than asked for shows whether there is a next page.
    let mut items = runs::list(conn, &newest.head, before, limit.saturating_add(1))?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| last.run);
    Ok(Some(Page { items, next }))
}

fn spend(budget: &mut Budget, row: &JobRow) {
    budget.spend_bytes(ROW_BYTES);
    budget.spend(&row.expected);
    budget.spend(&row.spec.labels);
    for (_, task) in row.spec.steps() {
        budget.spend_bytes(STEP_BYTES);
        budget.spend(&task.params);
    }
}
