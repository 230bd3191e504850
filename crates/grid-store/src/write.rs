//! Writes one applied batch: the newest value of every live thing it touched, and its history in order.
//!
//! Entries that were applied together are written together: ten changes of one row are one write, and what left the
//! state meanwhile is in `Changes::retired`, whole.
//! A phase that was entered rewrites all cells of its job, because entering it resets all of them, also those of nodes
//! that take no part in it and are in nobody's `Changes::cells`.
//! `OR ROLLBACK`: SQLite copies every page before a statement that could fail half-way, to take that one back. Here a failure
//! takes back the whole transaction, and ends the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use grid_core::{Cell, Changes, Job, Parts, State};
use grid_types::{JobId, JobStatus, Name, NodeOrd, StepIndex};
use rusqlite::{Connection, ToSql, params};

use crate::cells::closed_by_results;
use crate::codec::{encoded, key};
use crate::error::Fault;
use crate::outputs::RecentOutputs;
use crate::position::Position;
use crate::runs;
use totals::Totals;

mod history;
mod prune;
mod totals;

pub(crate) use history::last_event;

/// What the writer knows of its tables without reading them. Wrong after a failed transaction, which ends the process.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Live jobs, as their rows are.
    jobs: HashMap<JobId, (u32, JobStatus)>,
    outputs: RecentOutputs,
    /// Row of the newest result, there or pruned.
    last_result: i64,
    /// Jobs whose rows of history are still to be removed.
    pruned: BTreeSet<JobId>,
}

impl Written {
    pub fn load(conn: &Connection, parts: &Parts) -> Result<Self, Fault> {
        let jobs = parts.jobs.iter().map(|job| (job.head.id, (job.head.phase, job.head.status)));
        let newest =
            "SELECT max(coalesce((SELECT max(id) FROM results), 0), coalesce((SELECT max(after) FROM cells), 0))";
        let last_result = conn.query_one(newest, [], |row| row.get(0))?;
        let (outputs, pruned) = (RecentOutputs::load(conn)?, prune::unfinished(conn)?);
        Ok(Self { jobs: jobs.collect(), outputs, last_result, pruned })
    }

    /// Inside a transaction.
    pub fn batch(
        &mut self,
        conn: &Connection,
        state: &State,
        changes: &[Changes],
        at: Position,
        membership: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let touched = Touched::of(changes);
        write_nodes(conn, state, &touched)?;
        // Before the cells: these say which result they come after.
        let settled = history::append(conn, self, changes)?;
        let mut totals = Totals::default();
        let rewritten = write_jobs(conn, self, &mut totals, state, &touched)?;
        write_cells(conn, self, state, &touched, &rewritten, &settled)?;
        write_keys(conn, state, changes)?;
        // Last: a job may end and be forgotten in one batch.
        prune::forget(conn, self, &mut totals, changes)?;
        prune::sweep(conn, self, changes)?;
        totals.write(conn)?;
        let mut meta = conn.prepare_cached(
            "UPDATE meta SET state = ?1, term = ?2, log_index = ?3, membership = coalesce(?4, membership)
             WHERE one = 1",
        )?;
        meta.execute(params![encoded(&state.meta)?, at.term.cast_signed(), at.index.cast_signed(), membership])?;
        Ok(())
    }
}

/// The keys of all changes of a batch, each once.
#[derive(Default)]
struct Touched<'a> {
    nodes: BTreeSet<NodeOrd>,
    /// Gone for good: numbers are never reused.
    reclaimed: BTreeSet<NodeOrd>,
    jobs: BTreeSet<JobId>,
    submitted: BTreeSet<JobId>,
    started: BTreeSet<JobId>,
    cells: BTreeSet<(JobId, u32)>,
    retired: BTreeMap<JobId, &'a Job>,
    /// Every job that left, as often as it did, in order.
    left: Vec<&'a Job>,
}

impl<'a> Touched<'a> {
    fn of(changes: &'a [Changes]) -> Self {
        let mut touched = Self::default();
        for one in changes {
            touched.nodes.extend(&one.nodes);
            touched.reclaimed.extend(&one.reclaimed);
            touched.jobs.extend(&one.jobs);
            touched.jobs.extend(&one.submitted);
            touched.jobs.extend(&one.started);
            touched.submitted.extend(&one.submitted);
            touched.started.extend(&one.started);
            touched.cells.extend(&one.cells);
            // The last one counts: a job may leave, come back and leave again.
            touched.retired.extend(one.retired.iter().map(|job| (job.head.id, job)));
            touched.left.extend(&one.retired);
        }
        touched.jobs.extend(touched.retired.keys());
        touched
    }

    /// The newest value of a job, and whether it still lives.
    fn job(&self, state: &'a State, id: JobId) -> Result<(&'a Job, bool), Fault> {
        let live = state.jobs.get(&id).map(|job| (job, true));
        let found = live.or_else(|| self.retired.get(&id).map(|job| (*job, false)));
        found.ok_or_else(|| Fault::Contradiction(format!("{id} changed, but is neither live nor retired")))
    }
}

fn write_nodes(conn: &Connection, state: &State, touched: &Touched<'_>) -> Result<(), Fault> {
    let mut put = conn.prepare_cached(
        "INSERT OR ROLLBACK INTO nodes (ord, id, status, leader_epoch, node) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (ord) DO UPDATE
         SET id = excluded.id, status = excluded.status, leader_epoch = excluded.leader_epoch, node = excluded.node",
    )?;
    let mut gone = conn.prepare_cached("DELETE FROM nodes WHERE ord = ?1")?;
    for ord in &touched.reclaimed {
        gone.execute([ord.0])?;
    }
    for ord in touched.nodes.difference(&touched.reclaimed) {
        let node = state.nodes.get(ord);
        let node = node.ok_or_else(|| Fault::Contradiction(format!("node number {ord} changed, but is not there")))?;
        let epoch = node.leader_epoch.wire().cast_signed();
        put.execute(params![ord.0, node.id.as_str(), node.status.word(), epoch, encoded(node)?])?;
    }
    Ok(())
}

/// Returns jobs whose cells have no rows now.
fn write_jobs(
    conn: &Connection,
    written: &mut Written,
    totals: &mut Totals,
    state: &State,
    touched: &Touched<'_>,
) -> Result<BTreeSet<JobId>, Fault> {
    let mut rewritten = BTreeSet::new();
    for id in &touched.jobs {
        let (job, live) = touched.job(state, *id)?;
        keep_runs(conn, touched, job)?;
        let known = written.jobs.get(id).copied();
        let before = write_head(conn, state, job, live, known.map(|(_, status)| status))?;
        totals.moved(before, Some(job.head.status));
        if touched.submitted.contains(id) {
            let mut put = conn.prepare_cached(
                "INSERT OR ROLLBACK INTO specs (job, spec, name, labels) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (job) DO UPDATE SET spec = excluded.spec",
            )?;
            let spec = job.spec.as_ref();
            put.execute(params![key(*id), encoded(spec)?, spec.name, label_lines(&spec.labels)])?;
        }
        if touched.started.contains(id) {
            let mut put = conn.prepare_cached(
                "INSERT OR ROLLBACK INTO expected (job, nodes, scope) VALUES (?1, ?2, ?3)
                 ON CONFLICT (job) DO UPDATE SET nodes = excluded.nodes, scope = excluded.scope",
            )?;
            put.execute(params![key(*id), encoded(&job.expected)?, encoded(&job.scope)?])?;
        }
        if !live || known.map(|(phase, _)| phase) != Some(job.head.phase) || touched.started.contains(id) {
            conn.prepare_cached("DELETE FROM cells WHERE job = ?1")?.execute([key(*id)])?;
            rewritten.insert(*id);
        }
        if live {
            written.jobs.insert(*id, (job.head.phase, job.head.status));
        } else {
            written.jobs.remove(id);
        }
    }
    Ok(rewritten)
}

/// J8: what the job's row is about to lose. A run may begin and end in one batch, and the next one begin.
fn keep_runs(conn: &Connection, touched: &Touched<'_>, job: &Job) -> Result<(), Fault> {
    let (id, run) = (job.head.id, job.head.run);
    if run <= 1 || !touched.submitted.contains(&id) {
        return Ok(());
    }
    runs::keep_stored(conn, id, run)?;
    for ended in touched.left.iter().filter(|ended| ended.head.id == id && ended.head.run < run) {
        runs::keep(conn, &ended.head, &ended.scope)?;
    }
    Ok(())
}

/// Returns the status that the row had, if it was there.
fn write_head(
    conn: &Connection,
    state: &State,
    job: &Job,
    live: bool,
    known: Option<JobStatus>,
) -> Result<Option<JobStatus>, Fault> {
    let head = &job.head;
    let owner = state.meta.leadership.leader.as_ref().map(grid_types::Name::as_str);
    let epochs = (head.epoch.0, head.leader_epoch.wire().cast_signed());
    let updated_ms = head.updated_wall_ms.cast_signed();
    if live && known == Some(head.status) {
        // Names no column of an index, so that no index is written.
        let mut put = conn.prepare_cached(
            "UPDATE OR ROLLBACK jobs SET job_epoch = ?2, leader_epoch = ?3, owner = ?4, updated_ms = ?5, head = ?6
             WHERE id = ?1",
        )?;
        put.execute(params![key(head.id), epochs.0, epochs.1, owner, updated_ms, encoded(head)?])?;
        return Ok(known);
    }
    let before = if known.is_some() { known } else { totals::status_of(conn, head.id)? };
    let (id, blob, status, ended_ms) = (key(head.id), encoded(head)?, head.status.word(), head.ended_ms.cast_signed());
    let (namespace, created_ms) = (head.namespace.as_str(), head.created_wall_ms.cast_signed());
    let values: [&dyn ToSql; 11] =
        [&id, &epochs.0, &epochs.1, &owner, &updated_ms, &blob, &live, &status, &ended_ms, &namespace, &created_ms];
    let (sql, values) = match before {
        // The last two never change.
        Some(_) => (
            "UPDATE OR ROLLBACK jobs
             SET job_epoch = ?2, leader_epoch = ?3, owner = ?4, updated_ms = ?5, head = ?6, live = ?7,
                 status = ?8, ended_ms = ?9
             WHERE id = ?1",
            &values[..9],
        ),
        None => (
            "INSERT OR ROLLBACK INTO jobs (id, job_epoch, leader_epoch, owner, updated_ms, head,
                                           live, status, ended_ms, namespace, created_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            &values[..],
        ),
    };
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(before)
}

/// As their column has them: each can be found by its line.
fn label_lines(labels: &BTreeMap<Name, Name>) -> Option<String> {
    let lines: String = labels.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    (!lines.is_empty()).then(|| format!("\n{lines}"))
}

fn write_cells(
    conn: &Connection,
    written: &Written,
    state: &State,
    touched: &Touched<'_>,
    rewritten: &BTreeSet<JobId>,
    settled: &BTreeSet<Place>,
) -> Result<(), Fault> {
    let epoch = state.meta.leadership.epoch.wire().cast_signed();
    let after = written.last_result;
    let idle = Cell::default();
    let mut put = conn.prepare_cached(
        "INSERT OR ROLLBACK INTO cells (job, position, after, leader_epoch, cell) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (job, position) DO UPDATE
         SET after = excluded.after, leader_epoch = excluded.leader_epoch, cell = excluded.cell",
    )?;
    let mut drop = conn.prepare_cached("DELETE FROM cells WHERE job = ?1 AND position = ?2")?;
    for job in rewritten.iter().filter_map(|id| state.jobs.get(id)) {
        for (position, cell) in (0u32..).zip(&job.cells).filter(|(_, cell)| **cell != idle) {
            put.execute(params![key(job.head.id), position, after, epoch, encoded(cell)?])?;
        }
    }
    for (id, position) in touched.cells.iter().filter(|(id, _)| !rewritten.contains(id)) {
        let Some(job) = state.jobs.get(id) else { continue };
        let at = usize::try_from(*position).unwrap_or(usize::MAX);
        let (Some(cell), Some(node)) = (job.cells.get(at), job.expected.get(at)) else { continue };
        if *cell != idle {
            put.execute(params![key(*id), position, after, epoch, encoded(cell)?])?;
        } else if job.head.restored.is_some()
            || !(closed_by_results(job.current_phase()) && settled.contains(&(*id, job.first_step(), *node)))
        {
            drop.execute(params![key(*id), position])?;
        }
    }
    Ok(())
}

/// Where a result came in.
pub(crate) type Place = (JobId, StepIndex, NodeOrd);

/// A key added in this batch may be dropped in it, or dropped and added again for another job: rows are by job.
fn write_keys(conn: &Connection, state: &State, changes: &[Changes]) -> Result<(), Fault> {
    let mut put = conn.prepare_cached(
        "INSERT OR ROLLBACK INTO keys (job, namespace, key, at_ms, request) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (job) DO UPDATE SET namespace = excluded.namespace, key = excluded.key, at_ms = excluded.at_ms,
         request = excluded.request",
    )?;
    let mut drop = conn.prepare_cached("DELETE FROM keys WHERE job = ?1")?;
    let rows = changes.iter().flat_map(|one| one.keys_added.iter().chain(&one.keys_dropped));
    for row in rows {
        if state.keys.get(&row.key) == Some(row) {
            let at_ms = row.at_ms.cast_signed();
            put.execute(params![key(row.job), row.key.0.as_str(), row.key.1, at_ms, row.request.0.as_slice()])?;
        } else {
            drop.execute([key(row.job)])?;
        }
    }
    Ok(())
}
