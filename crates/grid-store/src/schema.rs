//! Defines the tables, and sets up connections.
//!
//! ```text
//!   live:     meta  nodes  jobs(live=1)+specs+expected+cells  keys
//!   history:  jobs(live=0)  runs  results  skips  outputs  events   pruned: what of it is still to be removed
//! ```
//!
//! Written per batch are a job's head and its changed cells; `specs` and `expected` are tables of their own, so that
//! this never rewrites what is large and does not change. History is keyed by arrival, and its indices are narrow:
//! dirty pages are what a batch costs. Keys of the `keys` table are jobs for the same reason: client keys are random.
//! Numbers of outcomes are those of `Outcome::ALL`. `leader_epoch` is the wire integer of who wrote the row.
//! Pages that pruning frees stay in the file and are used again: a cluster that keeps 30 days of history needs the room of
//! 30 days, and a vacuum would move pages about within the transactions that everybody waits for.
//! Values that only `grid-core` understands are CBOR blobs in its own encoding, beside the columns that queries need.
//! So are reasons and events (L2): readers make their words. `events.kind` is the number of the variant of `Event`.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::Fault;

/// "Grid", in the header of every file of ours.
pub(crate) const APPLICATION_ID: u32 = 0x4772_6964;
/// Of the tables below. A store of an older version is rebuilt from the log.
pub(crate) const VERSION: u32 = 3;

/// `outputs` refers to nothing: a result names its output, and equal ones of one job share it.
const TABLES: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    state BLOB NOT NULL,
    term INTEGER,
    log_index INTEGER,
    membership BLOB
) STRICT;

CREATE TABLE nodes (
    ord INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    leader_epoch INTEGER NOT NULL,
    node BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX nodes_by_id ON nodes (id);
CREATE INDEX nodes_by_status ON nodes (status);

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    live INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    status TEXT NOT NULL,
    job_epoch INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    owner TEXT,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    -- Leader time; 0 while it is live.
    ended_ms INTEGER NOT NULL DEFAULT 0,
    head BLOB NOT NULL
) STRICT;
CREATE INDEX jobs_by_namespace ON jobs (namespace);
CREATE INDEX jobs_by_status ON jobs (namespace, status);
CREATE INDEX jobs_live ON jobs (live) WHERE live = 1;

CREATE TABLE job_totals (status TEXT PRIMARY KEY, jobs INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER jobs_counted AFTER INSERT ON jobs BEGIN
    INSERT INTO job_totals VALUES (NEW.status, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER jobs_moved AFTER UPDATE OF status ON jobs WHEN OLD.status <> NEW.status BEGIN
    UPDATE job_totals SET jobs = jobs - 1 WHERE status = OLD.status;
    INSERT INTO job_totals VALUES (NEW.status, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER jobs_gone AFTER DELETE ON jobs BEGIN
    UPDATE job_totals SET jobs = jobs - 1 WHERE status = OLD.status;
END;

-- Runs that another one followed (see runs.rs); the newest is the job's own row.
CREATE TABLE runs (
    job INTEGER NOT NULL,
    run INTEGER NOT NULL,
    run_epoch INTEGER NOT NULL,
    summary BLOB NOT NULL,
    head BLOB NOT NULL,
    scope BLOB NOT NULL,
    PRIMARY KEY (job, run)
) STRICT, WITHOUT ROWID;

-- labels: NULL, or a line KEY=VALUE for each, with a line feed before the first and after the last.
CREATE TABLE specs (job INTEGER PRIMARY KEY, name TEXT, labels TEXT, spec BLOB NOT NULL) STRICT;
CREATE INDEX specs_by_name ON specs (name) WHERE name IS NOT NULL;
-- scope: what a resumed run leaves out, as large as steps × nodes.
CREATE TABLE expected (job INTEGER PRIMARY KEY, nodes BLOB NOT NULL, scope BLOB NOT NULL) STRICT;
-- after: the newest result when this was written (see cells.rs).
CREATE TABLE cells (
    job INTEGER NOT NULL,
    position INTEGER NOT NULL,
    after INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    cell BLOB NOT NULL,
    PRIMARY KEY (job, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    job INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    -- The hash of the request that it came with.
    request BLOB NOT NULL
) STRICT;

CREATE TABLE results (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    step INTEGER NOT NULL,
    node INTEGER NOT NULL,
    job_epoch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    output INTEGER,
    output_bytes INTEGER NOT NULL,
    reason BLOB,
    error TEXT
) STRICT;
CREATE INDEX results_by_place ON results (job, step, node);

-- node 0: every expected node that has no other outcome there.
CREATE TABLE skips (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    node INTEGER NOT NULL,
    job_epoch INTEGER NOT NULL,
    from_step INTEGER NOT NULL,
    to_step INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    reason BLOB NOT NULL
) STRICT;
CREATE INDEX skips_by_place ON skips (job, node);

-- Jobs that are gone, and whose rows of history are being removed (see write/prune.rs).
CREATE TABLE pruned (job INTEGER PRIMARY KEY) STRICT;

CREATE TABLE outputs (id INTEGER PRIMARY KEY, hash BLOB NOT NULL, tail BLOB NOT NULL) STRICT;

-- A number is never given twice, also when the newest rows were pruned: readers resume by it.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    wall_ms INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    event BLOB NOT NULL,
    job INTEGER,
    node TEXT,
    namespace TEXT,
    -- Leader time.
    now_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL;
CREATE INDEX events_of_no_job ON events (now_ms) WHERE job IS NULL;
";

/// Fills an empty file. Called under a temporary name, so that a crash leaves no half of it behind.
pub(crate) fn create(path: &Path, meta: &[u8]) -> Result<(), Fault> {
    // Its companions get the mode of the file.
    drop(grid_folder::create_new(path)?);
    let conn = Connection::open(path)?;
    conn.execute_batch(&format!("PRAGMA page_size = 4096; BEGIN; {TABLES}"))?;
    conn.execute("INSERT INTO meta (one, state) VALUES (1, ?1)", [meta])?;
    conn.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"))?;
    conn.execute_batch("PRAGMA journal_mode = WAL;")?;
    conn.close().map_err(|(_, e)| e)?;
    Ok(())
}

/// How long a connection waits for another process that looks into the file with a tool of its own.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// One that writes or checkpoints. Checkpoints are a thread's own work: inline they cause the worst pauses.
pub(crate) fn writer(path: &Path) -> Result<Connection, Fault> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(64);
    // `write::totals` does their work.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    // 8 MiB hold the hot pages: history is appended. 64 MiB: a WAL file that shrinks again after a burst.
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;",
    )?;
    Ok(conn)
}

pub(crate) fn reader(path: &Path) -> Result<Connection, Fault> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(64);
    // 2 MiB: pages of documents and lists are read once, and the system has them in its cache anyway.
    conn.execute_batch("PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;")?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::{TABLES, VERSION};

    /// A change of the tables raises the version, and puts their new hash here.
    #[test]
    fn the_version_is_that_of_these_tables() {
        let hash = blake3::hash(TABLES.as_bytes()).to_hex();
        assert_eq!((VERSION, &hash[..16]), (3, "34e72a8308b57617"));
    }
}
