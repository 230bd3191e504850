//! Runs the worker's one loop: moves inputs into the engine and carries out its outputs.
//!
//! One task instead of locks: the order in which records, starts and answers happen is the order of this loop. What was asked for is
//! done before the next input is taken.
//! Not here: any decision (`engine`), the way to the leader (`session::wires`).

pub(crate) mod inbox;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use grid_tasks::Tasks;
use grid_types::clock::Clock;

use crate::config::Ready;
use crate::data_dir::folder::Folder;
use crate::data_dir::journal::Journal;
use crate::data_dir::output::Outputs;
use crate::engine::book::Now;
use crate::engine::record::Record;
use crate::engine::{Ending, Engine, Input, Output};
use crate::error::WorkerError;
use crate::run::executor::Executor;
use crate::session::connect::Way;
use crate::session::logs::LogAnswers;
use crate::session::wires::Wires;
use inbox::{Inbox, Inner};

/// Events taken together, so that they share a write and an fsync.
const BATCH: usize = 256;
/// Processes get their SIGTERM, their grace and their SIGKILL in this time.
const STOP_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Worker<W: Way> {
    pub(crate) engine: Engine,
    pub(crate) wires: Wires<W>,
    pub(crate) folder: Folder,
    pub(crate) journal: Journal,
    pub(crate) executor: Executor,
    pub(crate) inbox: Inbox,
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) logs: LogAnswers,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ready: Option<Box<dyn FnOnce(Ready) + Send>>,
    /// Everything that runs beside this loop.
    pub(crate) tasks: Tasks,
}

impl<W: Way> Worker<W> {
    pub(crate) async fn run(mut self) -> Result<(), WorkerError> {
        let ended = self.drive().await;
        if ended.is_err() {
            self.abandon().await;
        }
        ended
    }

    async fn drive(&mut self) -> Result<(), WorkerError> {
        self.engine.handle(Input::Woken, self.now());
        loop {
            if let Some(ending) = self.perform()? {
                return match ending {
                    Ending::Done => Ok(()),
                    Ending::Removed => Err(WorkerError::Removed),
                    Ending::Refused(reason) => Err(WorkerError::Refused(reason)),
                };
            }
            let now = self.now();
            let wants_to_speak = self.engine.wants_to_speak(now);
            let wake = self.engine.wake_at_mono_ms(now).map(|at_ms| Duration::from_millis(at_ms - now.mono_ms));
            let input = tokio::select! {
                inner = self.inbox.next() => {
                    self.take_batch(inner)?;
                    continue;
                }
                input = self.wires.next(wants_to_speak) => input,
                () = sleep_or_never(wake) => Input::Woken,
                failed = self.tasks.failed() => return Err(WorkerError::Task(failed)),
            };
            self.engine.handle(input, self.now());
        }
    }

    fn now(&self) -> Now {
        Now { mono_ms: self.clock.mono_ms(), wall_ms: self.clock.wall_ms() }
    }

    /// Takes an event, and what else is there already.
    fn take_batch(&mut self, first: Inner) -> Result<(), WorkerError> {
        let mut next = Some(first);
        for _ in 0..BATCH {
            let Some(inner) = next.take() else { break };
            self.take(inner)?;
            next = self.inbox.try_next();
        }
        next.map_or(Ok(()), |inner| self.take(inner))
    }

    fn take(&mut self, inner: Inner) -> Result<(), WorkerError> {
        let input = match inner {
            Inner::Lease(event) => {
                self.executor.happened(&event);
                Input::Lease(event)
            }
            Inner::Synced(up_to) => Input::Synced { up_to },
            Inner::SyncFailed(error) => return Err(WorkerError::Sync(error)),
            Inner::Stop(stop) => Input::Stop(stop),
        };
        self.engine.handle(input, self.now());
        Ok(())
    }

    /// Does everything that the engine asks for. Returns how the worker is over, if it is.
    fn perform(&mut self) -> Result<Option<Ending>, WorkerError> {
        loop {
            let outputs = self.engine.take_outputs();
            if outputs.is_empty() {
                return Ok(None);
            }
            for output in outputs {
                if let Output::End(ending) = output {
                    return Ok(Some(ending));
                }
                self.act(output)?;
            }
            if self.journal.wants_compaction() && self.journal.compact(self.engine.snapshot())? {
                let up_to = self.engine.written();
                self.engine.handle(Input::Synced { up_to }, self.now());
            }
        }
    }

    fn act(&mut self, output: Output) -> Result<(), WorkerError> {
        match output {
            Output::Append(mut records) => {
                self.leave_out_outputs(&mut records);
                self.journal.append(&records)?;
            }
            Output::Sync { up_to } => self.journal.sync(up_to)?,
            Output::Start(work) => self.executor.start(work),
            Output::Stop(lease) => self.executor.stop(&lease),
            Output::DiscardOutputs(leases) => {
                let files = self.outputs.discard(&leases);
                if !files.is_empty() {
                    self.in_background(move |outputs| outputs.remove_files(&files));
                }
            }
            Output::KeepOutputs(leases) => {
                self.in_background(move |outputs| leases.iter().for_each(|lease| outputs.keep(lease)));
            }
            Output::Register(registration) => self.wires.register(*registration),
            Output::SaveClusterId(cluster_id) => self.folder.set_cluster_id(&cluster_id)?,
            Output::SetTailBytes(bytes) => self.outputs.set_tail_bytes(bytes),
            Output::Open { credential, first } => self.wires.open(credential, *first),
            Output::Send(message) => self.wires.send(*message),
            Output::CloseSession => self.wires.close(),
            Output::Drain => self.wires.drain(),
            Output::Leave(leave) => self.wires.leave(leave),
            Output::Ready { session } => {
                if let Some(ready) = self.ready.take() {
                    ready(Ready { node_id: self.folder.node_id().clone(), session });
                }
            }
            Output::LearnControllers(controllers) => self.wires.learn(&controllers),
            Output::AnswerLog(request) => {
                if let Some((link, credential)) = self.wires.session() {
                    self.logs.answer(link, credential, *request);
                }
            }
            Output::Chores => self.in_background(chores),
            // Handled by the caller.
            Output::End(_) => {}
        }
        Ok(())
    }

    /// The room that is left on a short disk is the journal's, for what must never run twice: outputs stay in memory.
    fn leave_out_outputs(&self, records: &mut [Record]) {
        for record in records {
            if let Record::Ended { output, .. } = record
                && !output.is_empty()
                && !self.outputs.space().has_room_for(output.len() as u64)
            {
                output.clear();
            }
        }
    }

    /// What may block for a while, and what nobody waits for.
    fn in_background(&self, work: impl FnOnce(&Outputs) + Send + 'static) {
        let outputs = Arc::clone(&self.outputs);
        self.tasks.start_finite("outputs", async move {
            if let Err(error) = tokio::task::spawn_blocking(move || work(&outputs)).await
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// Nothing can be journalled any more: nothing may go on running.
    async fn abandon(&mut self) {
        self.executor.stop_all();
        let stopped = async {
            while !self.executor.is_idle() {
                // Only leases: the disk has nothing more to say, and would say it again and again.
                let Some(event) = self.inbox.events.recv().await else { return };
                self.executor.happened(&event);
            }
        };
        if tokio::time::timeout(STOP_LIMIT, stopped).await.is_err() {
            tracing::error!("processes of leases are still running");
        }
    }
}

fn chores(outputs: &Outputs) {
    if let Err(error) = outputs.prune(SystemTime::now()) {
        tracing::warn!(%error, "old outputs could not be removed");
    }
    if let Err(error) = outputs.space().reserve() {
        tracing::warn!(%error, "no space could be reserved for the journal");
    }
}

async fn sleep_or_never(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}
