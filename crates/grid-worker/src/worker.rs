//! The worker's one loop: it owns the book, the journal and the executor, and turns every event into their next state.
//!
//! ```text
//!   connecting <----------------.
//!        | registered           | stream broken, session closed
//!        v                      |
//!     session (`session`) ------'--- told to end and nothing held ---> left
//! ```
//!
//! Leases go on running, ending and being journalled whether or not there is a session. After each batch of events
//! [`Worker::commit`] writes the records first and acts second (W3).
//! One task instead of locks: the order in which records, starts and answers happen is the order of this loop.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use grid_fabric::Dialer;
use grid_proto::v1;
use grid_types::Span;
use grid_types::clock::Clock;
use grid_types::node::NodeFacts;
use tokio::time::Instant;

use crate::book::{Book, Effects, Now};
use crate::config::{Ready, WorkerError};
use crate::connect::{Connected, Connector, Registration};
use crate::directory::Directory;
use crate::exec::{Event, Executor};
use crate::folder::Folder;
use crate::inbox::{Inbox, Inner};
use crate::journal::{FileDisk, Journal};
use crate::logs::LogDesk;
use crate::output::Outputs;
use crate::session::SessionEnd;
use crate::shutdown::Stop;

/// Events taken together, so that they share a write and an fsync.
const BATCH: usize = 256;
/// A session shorter than this counts as a failed attempt.
const STEADY: Duration = Duration::from_secs(5);
/// How long a worker that was told to end waits for answers to what it has reported, and if it was told twice.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
const SHORT_PATIENCE: Duration = Duration::from_secs(5);
/// Processes get their SIGTERM, their grace and their SIGKILL in this time.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const CHORES_EVERY_MS: u64 = 600 * 1000;

pub(crate) struct Worker<D: Dialer, R: Directory> {
    pub(crate) folder: Folder,
    pub(crate) facts: NodeFacts,
    pub(crate) nonce: [u8; 16],
    /// Its own wish; the leader's is heeded if it is shorter.
    pub(crate) heartbeat: Option<Span>,
    pub(crate) connector: Arc<Connector<D, R>>,
    pub(crate) book: Book,
    pub(crate) journal: Journal<FileDisk>,
    pub(crate) executor: Executor,
    pub(crate) inbox: Inbox,
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) logs: LogDesk,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ready: Option<Box<dyn FnOnce(Ready) + Send>>,
    pub(crate) stop: Stop,
    /// Told to end, and nothing runs any more, since then.
    pub(crate) idle_since: Option<Instant>,
    pub(crate) chores_at_ms: u64,
}

impl<D: Dialer, R: Directory> Worker<D, R> {
    pub(crate) async fn run(mut self) -> Result<(), WorkerError> {
        let ended = self.drive().await;
        if ended.is_err() {
            self.abandon().await;
        }
        ended
    }

    async fn drive(&mut self) -> Result<(), WorkerError> {
        let (mut failures, mut hint, mut known) = (0, None, false);
        self.commit()?;
        while let Some(connected) = self.until_connected(failures, hint.take(), known).await? {
            known = true;
            let began = Instant::now();
            match self.session(connected).await? {
                SessionEnd::Left => return Ok(()),
                SessionEnd::Removed => return Err(WorkerError::Removed),
                SessionEnd::Broken { reason, leader_url } => {
                    tracing::warn!("session ended: {reason}");
                    hint = leader_url;
                }
            }
            failures = if began.elapsed() < STEADY { failures + 1 } else { 0 };
        }
        Ok(())
    }

    /// `None`: told to end, and there is nothing (more) to tell a leader.
    async fn until_connected(
        &mut self,
        failures: u32,
        hint: Option<String>,
        known: bool,
    ) -> Result<Option<Connected<D::Link>>, WorkerError> {
        let registration = Registration { request: self.registration(), hint, failures, known };
        let mut connecting = Box::pin(Arc::clone(&self.connector).connect(registration));
        loop {
            self.commit()?;
            if self.is_finished() {
                return Ok(None);
            }
            let patience = self.patience();
            tokio::select! {
                connected = &mut connecting => {
                    let connected = connected?;
                    self.folder.set_cluster_id(&connected.reply.cluster_id)?;
                    return Ok(Some(connected));
                }
                inner = self.inbox.next() => self.handle(inner)?,
                () = tokio::time::sleep_until(patience) => {}
            }
        }
    }

    fn registration(&self) -> v1::RegisterNodeRequest {
        v1::RegisterNodeRequest {
            node_id: self.folder.node_id().to_string(),
            facts: Some(v1::NodeFacts::from(&self.facts)),
            journal_id: self.folder.journal_id_bytes(),
            boot: self.folder.boot(),
            nonce: self.nonce.to_vec(),
            cluster_id: self.folder.cluster_id().to_owned(),
            held: self.book.held().map(v1::Lease::from).collect(),
            unstarted: self.book.unstarted().map(v1::Lease::from).collect(),
            leader_epoch: self.book.epoch().wire(),
        }
    }

    /// Without a session: told to end, with nothing left that only this process can do.
    fn is_finished(&mut self) -> bool {
        self.stop > Stop::No && (self.book.held_count() == 0 || self.is_out_of_patience())
    }

    /// Nothing runs, and the answers do not come. They will after the next start: everything is in the journal.
    pub(crate) fn is_out_of_patience(&mut self) -> bool {
        if self.stop == Stop::No || self.book.running_count() > 0 {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        let out = since.elapsed() >= self.answer_patience();
        if out && self.book.active_count() > 0 {
            // No leader allows them to start (W3). That they did not is journalled before this process ends.
            self.book.stop_all(self.now());
            return false;
        }
        if out {
            tracing::warn!(
                held = self.book.held_count(),
                "ends without answers; they are reported after the next start"
            );
        }
        out
    }

    /// When [`Self::is_out_of_patience`] is worth asking again.
    pub(crate) fn patience(&self) -> Instant {
        self.idle_since.unwrap_or_else(Instant::now) + self.answer_patience()
    }

    fn answer_patience(&self) -> Duration {
        if self.stop == Stop::Now { SHORT_PATIENCE } else { ANSWER_PATIENCE }
    }

    pub(crate) fn now(&self) -> Now {
        Now { mono_ms: self.clock.mono_ms(), wall_ms: self.clock.wall_ms() }
    }

    /// Takes an event, and whatever else is there already.
    pub(crate) fn handle(&mut self, inner: Inner) -> Result<(), WorkerError> {
        let mut next = Some(inner);
        for _ in 0..BATCH {
            let Some(inner) = next else { break };
            self.take(inner)?;
            next = self.inbox.try_next();
        }
        if let Some(inner) = next { self.take(inner) } else { Ok(()) }
    }

    fn take(&mut self, inner: Inner) -> Result<(), WorkerError> {
        let now = self.now();
        match inner {
            Inner::Lease(Event::Forked { lease, group }) => self.book.forked(lease, group),
            Inner::Lease(Event::Ended { lease, ended, tail }) => {
                self.executor.ended(&lease);
                self.book.ended(lease, ended, tail, now);
            }
            Inner::Lease(Event::Late { work }) => {
                self.executor.ended(&work.lease);
                self.book.started_late(work, now);
            }
            Inner::Synced(Ok(number)) => self.book.synced(number),
            Inner::Synced(Err(error)) => return Err(WorkerError::Sync(error)),
            Inner::Stop(stop) => {
                tracing::info!(?stop, held = self.book.held_count(), "told to end");
                self.stop = stop;
                if stop == Stop::Now {
                    self.book.stop_all(now);
                }
            }
        }
        Ok(())
    }

    /// Writes, then acts.
    pub(crate) fn commit(&mut self) -> Result<(), WorkerError> {
        loop {
            let effects = self.book.take_effects();
            if effects == Effects::default() {
                break;
            }
            if !effects.records.is_empty() {
                self.journal.append(&effects.records)?;
            }
            if effects.sync {
                self.journal.sync(self.book.written())?;
            }
            for work in effects.start {
                self.executor.start(work);
            }
            for lease in &effects.stop {
                self.executor.stop(lease);
            }
            let (files, keep) = (self.outputs.discard(&effects.discard), effects.keep);
            if !files.is_empty() || !keep.is_empty() {
                let outputs = Arc::clone(&self.outputs);
                tokio::task::spawn_blocking(move || {
                    outputs.remove_files(&files);
                    keep.iter().for_each(|lease| outputs.keep(lease));
                });
            }
            if self.journal.wants_compaction() && self.journal.compact(self.book.snapshot())? {
                self.book.synced(self.book.written());
            }
        }
        self.chores();
        Ok(())
    }

    fn chores(&mut self) {
        let now = self.now();
        if now.mono_ms < self.chores_at_ms {
            return;
        }
        self.chores_at_ms = now.mono_ms + CHORES_EVERY_MS;
        self.book.expire(now.mono_ms);
        let outputs = Arc::clone(&self.outputs);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = outputs.prune(SystemTime::now()) {
                tracing::warn!(%error, "old outputs could not be removed");
            }
            if let Err(error) = outputs.space().reserve() {
                tracing::warn!(%error, "no space could be reserved for the journal");
            }
        });
    }

    /// Nothing can be journalled any more: nothing may go on running.
    async fn abandon(&mut self) {
        self.executor.stop_all();
        let stopped = async {
            while !self.executor.is_idle() {
                match self.inbox.next().await {
                    Inner::Lease(Event::Ended { lease, .. }) => self.executor.ended(&lease),
                    Inner::Lease(Event::Late { work }) => self.executor.ended(&work.lease),
                    _ => {}
                }
            }
        };
        if tokio::time::timeout(STOP_LIMIT, stopped).await.is_err() {
            tracing::error!("processes of leases are still running");
        }
    }
}
