//! Counts how many jobs have which status, in step with their rows.
//!
//! Once a batch: the triggers that the tables have for it would write these rows several times for every job, and are
//! switched off on the writer (see `schema::writer`). Any other writer of the file still has them.

use std::collections::BTreeMap;

use grid_types::{JobId, JobStatus};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::codec::key;
use crate::error::Fault;
use crate::load;

/// What a batch adds to each status.
#[derive(Default)]
pub(super) struct Totals(BTreeMap<&'static str, i64>);

impl Totals {
    /// A job, from one status to another; none: it was, or is, not there.
    pub fn moved(&mut self, from: Option<JobStatus>, to: Option<JobStatus>) {
        for (status, by) in [(from, -1), (to, 1)] {
            if let Some(status) = status {
                *self.0.entry(status.word()).or_default() += by;
            }
        }
    }

    pub fn write(&self, conn: &Connection) -> Result<(), Fault> {
        let mut add = conn.prepare_cached(
            "INSERT INTO job_totals (status, jobs) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET jobs = jobs + ?2",
        )?;
        for (word, by) in self.0.iter().filter(|(_, by)| **by != 0) {
            add.execute(params![word, by])?;
        }
        Ok(())
    }
}

pub(super) fn status_of(conn: &Connection, job: JobId) -> Result<Option<JobStatus>, Fault> {
    one_status(conn, "SELECT status FROM jobs WHERE id = ?1", job)
}

/// Removes a job's row, and returns what it said.
pub(super) fn remove(conn: &Connection, job: JobId) -> Result<Option<JobStatus>, Fault> {
    one_status(conn, "DELETE FROM jobs WHERE id = ?1 RETURNING status", job)
}

fn one_status(conn: &Connection, sql: &str, job: JobId) -> Result<Option<JobStatus>, Fault> {
    let word = |row: &Row<'_>| row.get::<_, String>(0);
    let word = conn.prepare_cached(sql)?.query_row([key(job)], word).optional()?;
    word.map(|word| load::status(&word)).transpose()
}
