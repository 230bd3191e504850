//! Job documents.
//!
//! A document is made from the job's own row, its spec and its expected nodes: its counts are kept by the state
//! machine, so that no result is read for them. Only a small job shows its rows inline.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{JobHead, Scope, Tally};
use grid_types::api::{Counts, JobDoc, ListDoc, ResultDoc, RunDoc, StepDoc, target_doc, tasks_doc};
use grid_types::job::JobSpec;
use grid_types::limits::SHOWN_RUNS;
use grid_types::{JobId, JobRef, JobStatus, Name, Namespace, NodeOrd, Outcome, StepIndex};
use rusqlite::{Connection, Row, ToSql, params};

use super::budget::Budget;
use super::roster::Roster;
use super::view::View;
use crate::codec::{blob, key, optional_blob};
use crate::error::Fault;
use crate::runs;
use crate::time::time_text;

/// More rows than this are paged, not shown inline; more names than this are not repeated for each job of a list.
const MOST_INLINE: usize = 1_000;

/// A stored job, ended or not.
pub(super) struct JobRow {
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

impl JobRow {
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

    /// `most`: a job with more expected nodes shows only how many.
    fn stored_document(&self, conn: &Connection, most: usize) -> Result<JobDoc, Fault> {
        let few = self.expected.len() <= most;
        let names = if few { Some(Roster::new(conn, &self.expected)?.names()?) } else { None };
        Ok(self.document(names))
    }

    /// `expected`: the names, in their order.
    pub fn document(&self, expected: Option<Vec<String>>) -> JobDoc {
        let (head, spec) = (&self.head, &self.spec);
        let phase = usize::try_from(head.phase).unwrap_or(usize::MAX);
        // A job that has not started has no tallies yet.
        let tallies = head.tallies.chunks(1).chain(std::iter::repeat(&[] as &[Tally]));
        let steps = (0u32..).zip(spec.steps()).zip(tallies).map(|((step, (phase, task)), tally)| StepDoc {
            step,
            phase: u32::try_from(phase).unwrap_or(u32::MAX),
            backend: task.backend.clone(),
            action: task.action.clone(),
            counts: counts(tally),
        });
        JobDoc {
            id: head.id.to_string(),
            namespace: head.namespace.to_string(),
            name: spec.name.clone(),
            labels: spec.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            target: target_doc(&spec.target),
            exclude: spec.exclude.as_ref().map(ToString::to_string),
            limit: spec.limit.as_ref().map(ToString::to_string),
            first: spec.first.as_ref().map(ToString::to_string),
            tasks: tasks_doc(&spec.phases),
            strategy: spec.strategy.word().to_owned(),
            timeout: spec.timeout.map(|timeout| timeout.to_string()),
            failure_tolerate: spec.tolerance().to_string(),
            offline: spec.offline.word().to_owned(),
            on_unknown: spec.on_unknown.word().to_owned(),
            concurrency: spec.concurrency.as_ref().map(ToString::to_string),
            status: head.status,
            reason: head.reason.as_ref().map(|reason| reason.text(head.id)),
            held: head.held.clone(),
            // Only the state knows (`grid-controller`).
            waiting_for: None,
            why: None,
            step: spec.first_step(phase).0,
            expected,
            expected_count: u64::try_from(self.expected.len()).unwrap_or(u64::MAX),
            skipped_offline: u64::from(head.skipped_offline.count()),
            owner: self.owner.clone(),
            job_epoch: head.epoch.0,
            leader_epoch: head.leader_epoch.wire(),
            counts: counts(&head.tallies),
            steps: steps.collect(),
            results: None,
            run: head.run,
            runs: None,
            created_at: time_text(head.created_wall_ms),
            updated_at: time_text(head.updated_wall_ms),
        }
    }

    pub fn shows_rows(&self) -> bool {
        self.spec.step_count().saturating_mul(self.expected.len()) <= MOST_INLINE
    }

    /// Step → node → result.
    fn results(&self, conn: &Connection) -> Result<BTreeMap<String, BTreeMap<String, ResultDoc>>, Fault> {
        let mut steps = BTreeMap::new();
        let nodes = Roster::new(conn, &self.expected)?.after("", usize::MAX)?;
        if nodes.is_empty() {
            return Ok(steps);
        }
        let mut view = View::new(conn, self)?;
        for (step, _) in (0u32..).zip(self.spec.steps()) {
            let mut rows = BTreeMap::new();
            for (name, node) in &nodes {
                rows.insert(name.clone(), view.of(step, *node)?);
            }
            steps.insert(step.to_string(), rows);
        }
        Ok(steps)
    }
}

pub(super) fn job(conn: &Connection, job: &JobRef, run: Option<u32>) -> Result<Option<JobDoc>, Fault> {
    let Some(newest) = JobRow::find(conn, job)? else { return Ok(None) };
    let shown = runs::list(conn, &newest.head, None, SHOWN_RUNS)?;
    let Some(row) = JobRow::of_run(conn, job, run)? else { return Ok(None) };
    let mut doc = row.stored_document(conn, usize::MAX)?;
    doc.runs = Some(shown);
    if row.shows_rows() {
        doc.results = Some(row.results(conn)?);
    }
    Ok(Some(doc))
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
) -> Result<ListDoc<JobDoc>, Fault> {
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
        let doc = JobRow::read(row)?.stored_document(conn, MOST_INLINE)?;
        budget.spend(&doc);
        found.push(doc);
    }
    let next = found.last().filter(|_| more).map(|doc| doc.id.clone());
    Ok(ListDoc { items: found, next })
}

/// Newest first, older than `before`; `next` is the `before` of the next page.
pub(super) fn runs(
    conn: &Connection,
    job: &JobRef,
    before: Option<u32>,
    limit: u32,
) -> Result<Option<ListDoc<RunDoc>>, Fault> {
    let Some(newest) = JobRow::find(conn, job)? else { return Ok(None) };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // One more row than asked for shows whether there is a next page.
    let mut items = runs::list(conn, &newest.head, before, limit.saturating_add(1))?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| last.run.to_string());
    Ok(Some(ListDoc { items, next }))
}

/// Every word, zeros included.
fn counts(tallies: &[Tally]) -> Counts {
    let of = |outcome| tallies.iter().map(|tally| u64::from(tally.count(outcome))).sum();
    Outcome::ALL.into_iter().map(|outcome| (outcome.word().to_owned(), of(outcome))).collect()
}
