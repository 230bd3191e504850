//! Selects the outputs that a reader gets: those of ended attempts in pages, those that run, and those that begin later.
//!
//! Of each node and step the newest attempt counts when the reader comes; from then on every attempt that begins is shown.
//! Each look first asks whether the job is over and then what is new, so that the last output is never missed.

use std::collections::{HashSet, VecDeque};

use grid_core::State;
use grid_store::{LogFilter, LogPlace, LogRow, Reader};
use grid_types::{JobRef, JobStatus, LeaseKey, NodeOrd, StepIndex};

use crate::shared::Shared;

/// Rows of one look.
const PAGE: usize = 256;

pub struct Roll {
    job: JobRef,
    filter: LogFilter,
    follow: bool,
    history: History,
    /// The newest result when the reader came, or that was looked at since.
    results: u64,
    /// Running attempts that are shown already.
    begun: HashSet<(NodeOrd, LeaseKey)>,
    /// Places whose newest attempt runs: what ended there before is not shown.
    running: HashSet<(NodeOrd, StepIndex)>,
    over: bool,
    /// The last look left something.
    has_more: bool,
}

/// Which outputs a reader wants, and whether also those that begin later.
pub struct Extent {
    pub filter: LogFilter,
    pub follow: bool,
}

enum History {
    After(Option<LogPlace>),
    Read,
}

impl Roll {
    /// None: no such job.
    pub async fn begin(
        shared: &Shared,
        job: &JobRef,
        Extent { filter, follow }: Extent,
    ) -> Result<Option<(Self, VecDeque<LogRow>)>, String> {
        let mut roll = Self {
            job: job.clone(),
            filter,
            follow,
            history: History::After(None),
            results: 0,
            begun: HashSet::new(),
            running: HashSet::new(),
            over: false,
            has_more: true,
        };
        // In this order: what ends in between is running first and a new result then, never neither.
        let running = roll.running_now(shared).await;
        roll.running = running.iter().map(|row| (row.node, row.lease.step)).collect();
        roll.results = shared.reading.read(Reader::newest_result).await?;
        let Some(mut rows) = roll.page(shared).await? else { return Ok(None) };
        roll.begun.extend(running.iter().map(|row| (row.node, row.lease)));
        rows.extend(running);
        if follow {
            in_order(&mut rows);
        }
        Ok(Some((roll, rows)))
    }

    /// Everything was found.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether another look finds something, even if nothing was applied since the last one.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// The job's current status.
    pub async fn status(&self, shared: &Shared) -> Result<JobStatus, String> {
        let (job, run) = (self.job.clone(), self.filter.run);
        let doc = shared.reading.read(move |reader| reader.job_status(&job, run)).await?;
        Ok(doc.unwrap_or(JobStatus::Cancelled))
    }

    /// What is new.
    pub async fn look(&mut self, shared: &Shared) -> Result<VecDeque<LogRow>, String> {
        if matches!(self.history, History::After(_)) {
            return Ok(self.page(shared).await?.unwrap_or_default());
        }
        if !self.follow {
            self.over = true;
            return Ok(VecDeque::new());
        }
        let ended = !shared.state().jobs.contains_key(&self.job.id);
        let running = self.running_now(shared).await;
        self.begun.extend(running.iter().map(|row| (row.node, row.lease)));
        let (job, after) = (self.job.id, self.results);
        let (rows, reached) = shared.reading.read(move |reader| reader.logs_since(job, after, PAGE)).await?;
        self.has_more = rows.len() >= PAGE;
        self.over = ended && !self.has_more;
        self.results = reached;
        let ended = rows.into_iter().filter(|row| {
            let is_new = !self.begun.remove(&(row.node, row.lease));
            is_new && self.filter.takes(&row.lease, &row.name)
        });
        let mut found: VecDeque<_> = ended.collect();
        found.extend(running);
        in_order(&mut found);
        Ok(found)
    }

    async fn page(&mut self, shared: &Shared) -> Result<Option<VecDeque<LogRow>>, String> {
        let History::After(after) = &mut self.history else { return Ok(Some(VecDeque::new())) };
        let (job, filter, after) = (self.job.clone(), self.filter.clone(), after.take());
        let page = shared.reading.read(move |reader| reader.log_page(&job, &filter, after, PAGE)).await?;
        let Some((rows, next)) = page else { return Ok(None) };
        self.history = next.map_or(History::Read, |next| History::After(Some(next)));
        let shown = rows.into_iter().filter(|row| !self.running.contains(&(row.node, row.lease.step)));
        Ok(Some(shown.collect()))
    }

    /// What runs and is not known yet: a look five times a second must not write down the whole fleet.
    /// What ended before it is stored when this returns, so that it comes first.
    async fn running_now(&self, shared: &Shared) -> Vec<LogRow> {
        let (rows, mark) = {
            let state = shared.state();
            (self.new_rows(&state), shared.log.progress.mark())
        };
        shared.log.progress.wait(mark).await;
        rows
    }

    fn new_rows(&self, state: &State) -> Vec<LogRow> {
        let shown = |run: u32| self.filter.run.is_none_or(|wanted| wanted == run);
        let Some(job) = state.jobs.get(&self.job.id).filter(|job| shown(job.head.run)) else { return Vec::new() };
        let leases =
            job.expected.iter().zip(&job.cells).filter_map(|(node, cell)| Some((*node, job.lease_of(cell)?.0)));
        let leases = leases.filter(|lease| !self.begun.contains(lease));
        let rows = leases.filter_map(|(node, lease)| {
            let name = state.nodes.get(&node)?.id.as_str();
            self.filter.takes(&lease, name).then(|| LogRow { lease, node, name: name.to_owned() })
        });
        rows.collect()
    }
}

/// As each node printed it. What ran at the first of two looks may have ended at the second, and more after it.
fn in_order(rows: &mut VecDeque<LogRow>) {
    rows.make_contiguous().sort_by_key(|row| (row.lease.job_epoch, row.lease.step, row.lease.attempt));
}
