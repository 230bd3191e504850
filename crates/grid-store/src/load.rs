//! Reads the live tables back: everything `State::from_parts` needs, and where the log stood.

use grid_core::{Cell, JobHead, JobParts, KeyRow, Node, Parts, RequestHash, Scope, Stub};
use grid_types::job::JobSpec;
use grid_types::{JobEpoch, JobId, JobStatus, Name, NodeOrd};
use rusqlite::{Connection, Row};

use crate::cells::StoredCells;
use crate::codec::{blob, optional_blob};
use crate::error::Fault;
use crate::position::Position;

/// What a store holds of the live state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    pub parts: Parts,
    /// Of the last entry it contains; none before the first.
    pub applied: Option<Position>,
    /// As it was handed to [`Store::persist`](crate::Store::persist) last.
    pub membership: Option<Vec<u8>>,
}

const STATUSES: [JobStatus; 5] =
    [JobStatus::Pending, JobStatus::Running, JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled];

pub(crate) fn load(conn: &Connection) -> Result<Stored, Fault> {
    let (meta, term, index, membership) =
        conn.query_row("SELECT state, term, log_index, membership FROM meta", [], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?, row.get(3)?))
        })?;
    let applied =
        term.zip(index).map(|(term, index)| Position { term: term.cast_unsigned(), index: index.cast_unsigned() });
    let parts = Parts {
        meta: minicbor::decode(&meta)?,
        nodes: rows(conn, "SELECT node FROM nodes ORDER BY ord", |row| blob::<Node>(row, 0))?,
        jobs: jobs(conn)?,
        stubs: rows(conn, "SELECT id, job_epoch, status, ended_ms FROM jobs WHERE live = 0 ORDER BY id", stub)?,
        keys: rows(conn, "SELECT namespace, key, job, at_ms, request FROM keys ORDER BY job", key_row)?,
    };
    Ok(Stored { parts, applied, membership })
}

fn jobs(conn: &Connection) -> Result<Vec<JobParts>, Fault> {
    let live = "SELECT j.head, s.spec, e.nodes, e.scope FROM jobs j
                JOIN specs s ON s.job = j.id LEFT JOIN expected e ON e.job = j.id
                WHERE j.live = 1 ORDER BY j.id";
    let mut jobs = rows(conn, live, |row| {
        Ok(JobParts {
            head: blob::<JobHead>(row, 0)?,
            spec: blob::<JobSpec>(row, 1)?,
            expected: optional_blob::<Vec<NodeOrd>>(row, 2)?.unwrap_or_default(),
            scope: optional_blob::<Scope>(row, 3)?.unwrap_or_default(),
            cells: Vec::new(),
        })
    })?;
    for job in &mut jobs {
        job.cells = cells(conn, job)?;
    }
    Ok(jobs)
}

fn cells(conn: &Connection, job: &JobParts) -> Result<Vec<(u32, Cell)>, Fault> {
    let mut stored = StoredCells::of(conn, &job.head, &job.spec)?;
    let mut found = Vec::new();
    for (at, (position, node)) in (0u32..).zip(&job.expected).enumerate() {
        found.extend(stored.at(at, *node)?.map(|cell| (position, cell)));
    }
    Ok(found)
}

pub(crate) fn status(word: &str) -> Result<JobStatus, Fault> {
    let status = STATUSES.into_iter().find(|status| status.word() == word);
    status.ok_or_else(|| Fault::Value(format!("a job has the status {word:?}")))
}

fn stub(row: &Row<'_>) -> Result<(JobId, Stub), Fault> {
    let status = status(&row.get::<_, String>(2)?)?;
    let ended_ms = row.get::<_, i64>(3)?.cast_unsigned();
    Ok((JobId(row.get::<_, i64>(0)?.cast_unsigned()), Stub { epoch: JobEpoch(row.get(1)?), status, ended_ms }))
}

fn key_row(row: &Row<'_>) -> Result<KeyRow, Fault> {
    let namespace: String = row.get(0)?;
    let namespace: Name = namespace.parse().map_err(|e: grid_types::name::BadName| Fault::Value(e.to_string()))?;
    Ok(KeyRow {
        key: (namespace, row.get(1)?),
        job: JobId(row.get::<_, i64>(2)?.cast_unsigned()),
        at_ms: row.get::<_, i64>(3)?.cast_unsigned(),
        request: RequestHash(row.get(4)?),
    })
}

fn rows<T>(conn: &Connection, sql: &str, mut read: impl FnMut(&Row<'_>) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}
