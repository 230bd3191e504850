//! Job documents.
//!
//! A document is made from the job's own row, its spec and its expected nodes: its counts are kept by the state
//! machine, so that no result is read for them. Only a small job shows its rows inline.

use std::collections::BTreeMap;

use grid_core::{JobHead, Scope, Tally};
use grid_types::api::{Counts, JobDoc, ListDoc, ResultDoc, StepDoc, target_doc, tasks_doc};
use grid_types::job::JobSpec;
use grid_types::{JobId, JobStatus, NodeOrd, Outcome};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::roster::Roster;
use super::time_text;
use super::view::View;
use crate::error::Fault;
use crate::load::{blob, optional_blob};
use crate::write::key;

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
}

const COLUMNS: &str = "SELECT j.head, s.spec, e.nodes, j.live, j.owner, e.scope FROM jobs j
     JOIN specs s ON s.job = j.id LEFT JOIN expected e ON e.job = j.id";

impl JobRow {
    pub fn find(conn: &Connection, namespace: &str, id: JobId) -> Result<Option<Self>, Fault> {
        let mut find = conn.prepare_cached(&format!("{COLUMNS} WHERE j.id = ?1 AND j.namespace = ?2"))?;
        let mut rows = find.query(params![key(id), namespace])?;
        rows.next()?.map(Self::read).transpose()
    }

    fn read(row: &Row<'_>) -> Result<Self, Fault> {
        Ok(Self {
            head: blob(row, 0)?,
            spec: blob(row, 1)?,
            expected: optional_blob(row, 2)?.unwrap_or_default(),
            live: row.get(3)?,
            owner: row.get(4)?,
            scope: optional_blob(row, 5)?.unwrap_or_default(),
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
            target: target_doc(&spec.target),
            tasks: tasks_doc(&spec.phases),
            strategy: spec.strategy.word().to_owned(),
            timeout: spec.timeout.map(|timeout| timeout.to_string()),
            failure_tolerate: spec.tolerance().to_string(),
            offline: spec.offline.word().to_owned(),
            on_unknown: spec.on_unknown.word().to_owned(),
            status: head.status,
            reason: head.reason.as_ref().map(|reason| reason.text(head.id)),
            held: head.held.clone(),
            step: spec.first_step(phase).0,
            expected,
            expected_count: u64::try_from(self.expected.len()).unwrap_or(u64::MAX),
            owner: self.owner.clone(),
            job_epoch: head.epoch.0,
            leader_epoch: head.leader_epoch.wire(),
            counts: counts(&head.tallies),
            steps: steps.collect(),
            results: None,
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

pub(super) fn job(conn: &Connection, namespace: &str, id: JobId) -> Result<Option<JobDoc>, Fault> {
    let Some(row) = JobRow::find(conn, namespace, id)? else { return Ok(None) };
    let mut doc = row.stored_document(conn, usize::MAX)?;
    if row.shows_rows() {
        doc.results = Some(row.results(conn)?);
    }
    Ok(Some(doc))
}

pub(super) fn jobs(
    conn: &Connection,
    namespace: &str,
    limit: u32,
    before: Option<JobId>,
    status: Option<JobStatus>,
) -> Result<ListDoc<JobDoc>, Fault> {
    let before = before.map_or(i64::MAX, key);
    // One more than asked for tells whether there is a next page.
    let most = i64::from(limit) + 1;
    let mut found = Vec::new();
    let of_status = if status.is_some() { "AND j.status = ?4" } else { "AND ?4 IS NULL" };
    let sql = format!("{COLUMNS} WHERE j.namespace = ?1 AND j.id < ?2 {of_status} ORDER BY j.id DESC LIMIT ?3");
    let mut list = conn.prepare_cached(&sql)?;
    let mut rows = list.query(params![namespace, before, most, status.map(JobStatus::word)])?;
    while let Some(row) = rows.next()? {
        found.push(JobRow::read(row)?);
    }
    let more = found.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        found.pop();
    }
    let next = found.last().filter(|_| more).map(|row| row.head.id.to_string());
    let items: Result<Vec<_>, _> = found.iter().map(|row| row.stored_document(conn, MOST_INLINE)).collect();
    Ok(ListDoc { items: items?, next })
}

/// Whether the namespace has this job.
pub(super) fn exists(conn: &Connection, namespace: &str, id: JobId) -> Result<bool, Fault> {
    let mut find = conn.prepare_cached("SELECT 1 FROM jobs WHERE id = ?1 AND namespace = ?2")?;
    Ok(find.query_row(params![key(id), namespace], |_| Ok(())).optional()?.is_some())
}

/// Every word, zeros included.
fn counts(tallies: &[Tally]) -> Counts {
    let of = |outcome| tallies.iter().map(|tally| u64::from(tally.count(outcome))).sum();
    Outcome::ALL.into_iter().map(|outcome| (outcome.word().to_owned(), of(outcome))).collect()
}
