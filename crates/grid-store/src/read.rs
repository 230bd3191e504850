//! Reads of the API: SQL on a small pool of read-only connections, each call on one consistent snapshot.
//!
//! All calls block; a caller on an async runtime moves them to a blocking thread. They are as fresh as the last
//! committed batch.
//! Not here: soft state of the leader (when a node was last heard), which the controller adds to these rows; documents
//! of the API (`grid-controller::documents`).

mod budget;
mod events;
mod fresh;
mod job;
mod logs;
mod nodes;
mod outputs;
mod results;
mod resumable;
mod roster;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grid_types::{JobId, JobRef, JobStatus, LeaseKey, Namespace, NodeId, NodeOrd, StepIndex};
use rusqlite::Connection;

use crate::error::{Fault, StoreError};
use crate::load::{Stored, load};
use crate::pool::Pool;
use crate::rows::{EventRow, JobRow, NodeRow, OutputGroup, Page, ResultPage, RunRow};
use budget::Budget;

pub use events::EventFilter;
pub use fresh::fresh_job;
pub use job::JobFilter;
pub use logs::{LogFilter, LogPage, LogPlace, LogRow};
pub use results::ResultFilter;
pub use resumable::{RerunOn, Resumable};

/// Shares its connections with its clones.
#[derive(Clone)]
pub struct Reader {
    pool: Arc<Pool>,
}

/// How many there are of what, and how far the log is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// By status word; every word is there.
    pub nodes: BTreeMap<String, u64>,
    pub jobs: BTreeMap<String, u64>,
    /// 0 before the first entry.
    pub applied_index: u64,
}

impl Reader {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { pool }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// With `results` if they are at most 1,000 rows; as its newest run has it.
    pub fn job(&self, job: &JobRef) -> Result<Option<JobRow>, StoreError> {
        self.job_in(job, None)
    }

    /// As one of its runs had it. None: no such job or run.
    pub fn job_in(&self, job: &JobRef, run: Option<u32>) -> Result<Option<JobRow>, StoreError> {
        self.read(|conn| job::job(conn, job, run))
    }

    /// Newest first, older than `before`; `next` is the `before` of the next page. None: no such job.
    pub fn runs(&self, job: &JobRef, before: Option<u32>, limit: u32) -> Result<Option<Page<RunRow, u32>>, StoreError> {
        self.read(|conn| job::runs(conn, job, before, limit))
    }

    /// The number of the newest run. None: no such job.
    pub fn newest_run(&self, job: &JobRef) -> Result<Option<u32>, StoreError> {
        self.read(|conn| Ok(job::StoredJob::find(conn, job)?.map(|job| job.head.run)))
    }

    /// Newest first, without `results`.
    pub fn jobs(
        &self,
        namespace: &Namespace,
        limit: u32,
        filter: &JobFilter,
    ) -> Result<Page<JobRow, JobId>, StoreError> {
        self.read(|conn| job::jobs(conn, namespace, limit, filter))
    }

    /// By (step, node name), after `after`; `next` is the `after` of the next page. None: no such job or run.
    pub fn results(
        &self,
        job: &JobRef,
        limit: u32,
        after: Option<(u32, String)>,
        filter: ResultFilter,
    ) -> Result<Option<ResultPage>, StoreError> {
        self.read(|conn| results::page(conn, job, limit, after, filter))
    }

    /// What a leader has to know of an ended job to resume it (L8), or only what failed of it. None: no such job.
    pub fn resumable(&self, job: &JobRef, on: RerunOn, generation: u32) -> Result<Option<Resumable>, StoreError> {
        self.read(|conn| resumable::of_job(conn, job, on, generation))
    }

    /// Outputs of a job by step and node, behind `after`; and where the next page begins. None: no such job.
    pub fn log_page(
        &self,
        job: &JobRef,
        filter: &LogFilter,
        after: Option<LogPlace>,
        most: usize,
    ) -> Result<Option<LogPage>, StoreError> {
        self.read(|conn| logs::page(conn, job, filter, after, most))
    }

    /// The number of the newest result of any job; 0 before the first.
    pub fn newest_result(&self) -> Result<u64, StoreError> {
        self.read(logs::newest_result)
    }

    /// None: no such job or run.
    pub fn job_status(&self, job: &JobRef, run: Option<u32>) -> Result<Option<JobStatus>, StoreError> {
        self.read(|conn| logs::status(conn, job, run))
    }

    /// Attempts of a job whose results came behind the result with this number; and how far was looked.
    pub fn logs_since(&self, id: JobId, after: u64, most: usize) -> Result<(Vec<LogRow>, u64), StoreError> {
        self.read(|conn| logs::since(conn, id, after, most))
    }

    /// What is stored of the output of one attempt. None: it has not ended.
    pub fn stored_output(&self, lease: &LeaseKey, node: NodeOrd) -> Result<Option<StoredOutput>, StoreError> {
        self.read(|conn| logs::stored(conn, lease, node))
    }

    /// Newest outputs of a step grouped by content, largest group first, at most 1,000 groups. None: no such job.
    pub fn outputs(&self, job: &JobRef, step: StepIndex) -> Result<Option<Vec<OutputGroup>>, StoreError> {
        self.outputs_in(job, step, None)
    }

    /// Of one of its runs. None: no such job or run.
    pub fn outputs_in(
        &self,
        job: &JobRef,
        step: StepIndex,
        run: Option<u32>,
    ) -> Result<Option<Vec<OutputGroup>>, StoreError> {
        self.read(|conn| outputs::groups(conn, job, step, run))
    }

    /// Oldest first, behind `after`, at most `limit`; and how far was looked, for the next page.
    pub fn events_after(
        &self,
        filter: &EventFilter,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<EventRow>, u64), StoreError> {
        self.read(|conn| events::after(conn, filter, after, limit))
    }

    /// Newest first, older than `before`; `next` is the `before` of the next page. A page may have fewer than `limit`
    /// although there are more: it looks only so far for them.
    pub fn events_before(
        &self,
        filter: &EventFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<EventRow, u64>, StoreError> {
        let (mut items, mut before, mut budget) = (Vec::new(), before, Budget::default());
        for _ in 0..events::WINDOWS_A_PAGE {
            let wanted = limit - items.len();
            let (found, next) = self.read(|conn| events::before(conn, filter, before, wanted, &mut budget))?;
            items.extend(found);
            before = next;
            if next.is_none() || items.len() >= limit || budget.is_spent() {
                break;
            }
        }
        Ok(Page { items, next: before })
    }

    /// The newest number of an event that was given, pruned or not; 0 before the first.
    pub fn newest_event(&self) -> Result<u64, StoreError> {
        self.read(events::newest)
    }

    /// By name, behind `after`; with `among` only these. `seen_wall_ms` is the last change of state.
    pub fn nodes(
        &self,
        limit: u32,
        after: Option<&NodeId>,
        among: Option<&BTreeSet<NodeOrd>>,
    ) -> Result<Page<NodeRow, NodeId>, StoreError> {
        self.read(|conn| nodes::page(conn, limit, after, among))
    }

    pub fn node(&self, id: &NodeId) -> Result<Option<NodeRow>, StoreError> {
        self.read(|conn| nodes::node(conn, id))
    }

    /// Forgotten jobs of which rows are still to be removed; every batch removes some.
    pub fn unswept_jobs(&self) -> Result<u64, StoreError> {
        self.read(|conn| {
            let jobs: i64 = conn.query_row("SELECT count(*) FROM pruned", [], |row| row.get(0))?;
            Ok(jobs.cast_unsigned())
        })
    }

    /// Whether there are events that belong to no job and are older than this, in leader time.
    pub fn has_loose_events_before(&self, now_ms: u64) -> Result<bool, StoreError> {
        self.read(|conn| {
            let any = "SELECT EXISTS (SELECT 1 FROM events WHERE job IS NULL AND now_ms < ?1)";
            Ok(conn.query_row(any, [i64::try_from(now_ms).unwrap_or(i64::MAX)], |row| row.get(0))?)
        })
    }

    /// Which of these nodes a stored job expects, live or ended. Reads every job: for chores, not for requests.
    pub fn expected_among(&self, nodes: &BTreeSet<NodeOrd>) -> Result<BTreeSet<NodeOrd>, StoreError> {
        self.read(|conn| nodes::expected_among(conn, nodes))
    }

    /// Everything of the live state, with its position in the log (L7): as large as the state itself.
    pub fn stored(&self) -> Result<Stored, StoreError> {
        self.read(load)
    }

    pub fn totals(&self) -> Result<Totals, StoreError> {
        self.read(nodes::totals)
    }

    /// In one read transaction: rows of two statements never contradict each other.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let in_one = |conn: &mut Connection| {
            let transaction = conn.transaction()?;
            let found = read(&transaction)?;
            transaction.commit()?;
            Ok(found)
        };
        self.pool.lend(in_one).map_err(|e| e.at(self.pool.path(), "read"))
    }
}

/// What is stored of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    /// Whose it is.
    pub lease: LeaseKey,
    /// Its end.
    pub tail: Vec<u8>,
    /// Length of the whole, which stays on the worker.
    pub total_bytes: u64,
    /// By the worker's clock.
    pub started_wall_ms: u64,
    /// Not so of an outcome that nobody knows: then nobody has said what it printed either.
    pub outcome_known: bool,
}

impl StoredOutput {
    /// Nothing of it is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.outcome_known && u64::try_from(self.tail.len()).is_ok_and(|kept| kept >= self.total_bytes)
    }
}
