//! Finds the outputs of a job: the newest of each node and step, in pages, and those that come after.

use grid_types::{Attempt, JobEpoch, JobId, JobRef, JobStatus, LeaseKey, NodeOrd, Outcome, StepIndex};
use rusqlite::{Connection, OptionalExtension, params};

use super::StoredOutput;
use super::job::StoredJob;
use super::roster::Roster;
use crate::codec::key;
use crate::error::Fault;

/// Which outputs of a job; what is left out is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFilter {
    pub step: Option<StepIndex>,
    /// Names.
    pub nodes: Vec<String>,
    /// Without it, the newest.
    pub attempt: Option<Attempt>,
    /// Of this run; without it, the newest (J8).
    pub run: Option<u32>,
}

/// One output, of an attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    pub lease: LeaseKey,
    pub node: NodeOrd,
    pub name: String,
}

/// Where a page ended: step and name.
pub type LogPlace = (u32, String);
/// Rows, and where the next page begins.
pub type LogPage = (Vec<LogRow>, Option<LogPlace>);

impl LogFilter {
    #[must_use]
    pub fn takes(&self, lease: &LeaseKey, name: &str) -> bool {
        self.step.is_none_or(|step| step == lease.step)
            && self.attempt.is_none_or(|attempt| attempt == lease.attempt)
            && (self.nodes.is_empty() || self.nodes.iter().any(|wanted| wanted == name))
    }
}

/// By step and name, behind `after`; and where the next page begins. None: no such job.
pub(super) fn page(
    conn: &Connection,
    job: &JobRef,
    filter: &LogFilter,
    after: Option<LogPlace>,
    most: usize,
) -> Result<Option<LogPage>, Fault> {
    let Some(job) = StoredJob::of_run(conn, job, filter.run)? else { return Ok(None) };
    let steps = u32::try_from(job.spec.step_count()).unwrap_or(u32::MAX);
    let (mut step, mut name) = after.unwrap_or_default();
    if let Some(only) = filter.step {
        name = if only.0 == step { name } else { String::new() };
        step = step.max(only.0);
    }
    let last = filter.step.map_or(steps, |only| steps.min(only.0 + 1));
    let mut found = Vec::new();
    let roster = Roster::new(conn, &job.expected)?;
    while step < last {
        let nodes = roster.after(&name, most)?;
        for (node, ord) in &nodes {
            if filter.nodes.is_empty() || filter.nodes.contains(node) {
                found.extend(newest(conn, &job, StepIndex(step), *ord, node, filter.attempt)?);
            }
        }
        match nodes.last() {
            Some((node, _)) if nodes.len() == most => name.clone_from(node),
            _ => (step, name) = (step + 1, String::new()),
        }
        if found.len() >= most {
            break;
        }
    }
    Ok(Some((found, (step < last).then_some((step, name)))))
}

fn newest(
    conn: &Connection,
    job: &StoredJob,
    step: StepIndex,
    node: NodeOrd,
    name: &str,
    attempt: Option<Attempt>,
) -> Result<Option<LogRow>, Fault> {
    let mut newest = conn.prepare_cached(
        "SELECT job_epoch, attempt FROM results
         WHERE job = ?1 AND step = ?2 AND node = ?3 AND attempt > 0 AND (?4 IS NULL OR attempt = ?4)
               AND job_epoch BETWEEN ?5 AND ?6
         ORDER BY job_epoch DESC, id DESC LIMIT 1",
    )?;
    let (id, wanted) = (job.head.id, attempt.map(|attempt| attempt.0));
    let (first, last) = job.epochs(step.0, node);
    let found = newest.query_row(params![key(id), step.0, node.0, wanted, first, last], |row| {
        let lease = LeaseKey { job: id, job_epoch: JobEpoch(row.get(0)?), step, attempt: Attempt(row.get(1)?) };
        Ok(LogRow { lease, node, name: name.to_owned() })
    });
    Ok(found.optional()?)
}

pub(super) fn newest_result(conn: &Connection) -> Result<u64, Fault> {
    let newest: Option<i64> = conn.prepare_cached("SELECT max(id) FROM results")?.query_one([], |row| row.get(0))?;
    Ok(newest.unwrap_or(0).cast_unsigned())
}

pub(super) fn status(conn: &Connection, job: &JobRef, run: Option<u32>) -> Result<Option<JobStatus>, Fault> {
    Ok(StoredJob::of_run(conn, job, run)?.map(|job| job.head.status))
}

/// Attempts of a job that ended behind the result with this number, in order; and the newest number.
pub(super) fn since(conn: &Connection, id: JobId, after: u64, most: usize) -> Result<(Vec<LogRow>, u64), Fault> {
    let newest = newest_result(conn)?.max(after);
    let mut new = conn.prepare_cached(
        "SELECT r.id, r.step, r.node, r.job_epoch, r.attempt, n.id FROM results r JOIN nodes n ON n.ord = r.node
         WHERE r.id > ?1 AND +r.job = ?2 AND r.attempt > 0 ORDER BY r.id LIMIT ?3",
    )?;
    let mut rows = new.query(params![after.cast_signed(), key(id), i64::try_from(most).unwrap_or(i64::MAX)])?;
    let (mut found, mut reached) = (Vec::new(), newest);
    while let Some(row) = rows.next()? {
        let (step, job_epoch) = (StepIndex(row.get(1)?), JobEpoch(row.get(3)?));
        let lease = LeaseKey { job: id, job_epoch, step, attempt: Attempt(row.get(4)?) };
        found.push(LogRow { lease, node: NodeOrd(row.get(2)?), name: row.get(5)? });
        if found.len() == most {
            reached = row.get::<_, i64>(0)?.cast_unsigned();
        }
    }
    Ok((found, reached))
}

/// What is stored of the output of one attempt. None: it has not ended.
pub(super) fn stored(conn: &Connection, lease: &LeaseKey, node: NodeOrd) -> Result<Option<StoredOutput>, Fault> {
    let mut newest = conn.prepare_cached(
        "SELECT o.tail, r.output_bytes, r.outcome, r.started_ms FROM results r LEFT JOIN outputs o ON o.id = r.output
         WHERE r.job = ?1 AND r.step = ?2 AND r.node = ?3 AND r.job_epoch = ?4 AND r.attempt = ?5
         ORDER BY r.id DESC LIMIT 1",
    )?;
    let place = params![key(lease.job), lease.step.0, node.0, lease.job_epoch.0, lease.attempt.0];
    let found = newest.query_row(place, |row| {
        let tail: Option<Vec<u8>> = row.get(0)?;
        let total_bytes = row.get::<_, i64>(1)?.cast_unsigned();
        let outcome_known = row.get::<_, u8>(2)? != Outcome::Unknown as u8;
        let started_wall_ms = row.get::<_, i64>(3)?.cast_unsigned();
        let tail = tail.unwrap_or_default();
        Ok(StoredOutput { lease: *lease, tail, total_bytes, started_wall_ms, outcome_known })
    });
    Ok(found.optional()?)
}
