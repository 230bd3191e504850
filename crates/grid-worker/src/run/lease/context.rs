//! What a backend may do for its lease: write output, wait, run a program, block. Whatever it started through this is
//! known, and gone when [`LeaseContext::clear`] returns, except for a blocking call that hangs: that one is reported. The working folder
//! goes after the outcome was reported.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grid_types::clock::Clock;
use grid_types::{Detail, LeaseKey, NodeId};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::blocking::BlockingCalls;
use super::call::{Call, Finished, Said};
use super::gate::EffectGate;
use super::{GRACE, Surroundings};
use crate::data_dir::output::{OutputEnd, Sink};
use crate::engine::book::{LeaseEvent, Work};
use crate::engine::record::Group;
use crate::seams::{Exit, Program, Signal, Spawned};

/// How long the last bytes of an output may take once no process of the lease is left.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 16 * 1024;
/// How often a SIGKILL that has no effect (yet) is repeated.
const KILL_LIMIT: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What is left of a lease that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cleared {
    /// Nothing.
    Gone,
    /// A blocking call that hangs and will not take effect.
    Harmless,
    /// A blocking call that hangs and may take effect.
    MayTakeEffect,
}

pub struct LeaseContext {
    lease: LeaseKey,
    /// The run of its job; 0: not known.
    run: u32,
    surroundings: Arc<Surroundings>,
    events: mpsc::Sender<LeaseEvent>,
    sink: Arc<Sink>,
    started: Mutex<Started>,
    blocking: BlockingCalls,
}

#[derive(Default)]
struct Started {
    groups: Vec<Group>,
    pumps: Vec<JoinHandle<()>>,
    has_folder: bool,
    detail: Detail,
}

impl LeaseContext {
    pub(crate) fn new(surroundings: Arc<Surroundings>, work: &Work, events: mpsc::Sender<LeaseEvent>) -> Self {
        let sink = Arc::new(surroundings.outputs.open(work.lease, work.started_at_ms));
        let blocking = BlockingCalls::new(Arc::clone(&surroundings.blocking_calls));
        Self { lease: work.lease, run: work.offer.run, surroundings, events, sink, started: Mutex::default(), blocking }
    }

    #[must_use]
    pub fn lease(&self) -> LeaseKey {
        self.lease
    }

    #[must_use]
    pub fn node_id(&self) -> &NodeId {
        &self.surroundings.node_id
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.surroundings.clock.as_ref()
    }

    /// Appends to the lease's output.
    pub fn write(&self, bytes: &[u8]) {
        self.sink.write(bytes);
    }

    /// Says in the result whether the step changed anything on the node.
    pub fn set_changed(&self, changed: bool) {
        locked(&self.started).detail.changed = Some(changed);
    }

    pub(crate) fn detail(&self) -> Detail {
        locked(&self.started).detail
    }

    /// The lease's own folder, readable by this worker alone; it goes with the lease.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn folder(&self) -> Result<PathBuf, String> {
        let folder = self.surroundings.work.make(&self.lease);
        let folder = folder.map_err(|error| format!("cannot make a working folder: {error}"))?;
        locked(&self.started).has_folder = true;
        Ok(folder)
    }

    /// Runs `work` where it may block. It runs to its end even if the lease is stopped meanwhile, and if it never ends it
    /// is abandoned: it must not hold anything that others wait for. It enters the gate before it changes anything outside the
    /// lease's own folder; the gate is closed as soon as the lease is over.
    pub async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce(&EffectGate) -> T + Send + 'static,
    ) -> Result<T, String> {
        self.blocking.run(work).await
    }

    /// `program` where programs of this worker are looked for, then in `further` folders.
    #[must_use]
    pub fn locate(&self, program: &str, further: &[&str]) -> Option<PathBuf> {
        self.surroundings.environment.locate(program, further)
    }

    /// Runs a program to its end; anything but exit code 0 is a failure.
    pub async fn run(&self, program: &str, args: Vec<String>) -> Result<(), String> {
        self.call(&Call::new(program, args)).await?.success("")
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// It could not be started; whatever it exits with is no error here.
    pub async fn call(&self, call: &Call) -> Result<Finished, String> {
        let program = &call.program;
        let (said, (at_end, ended)) = (Said::default(), oneshot::channel());
        let spawned = self.spawn(call, said.clone(), at_end)?;
        // Best effort: the mark finds the process as well.
        let _ = self.events.send(LeaseEvent::Forked { lease: self.lease, group: spawned.group }).await;
        let exit = spawned.exit.await.map_err(|error| format!("{program}: cannot wait for it: {error}"))?;
        {
            let detail = &mut locked(&self.started).detail;
            (detail.exit_code, detail.signal) = match exit {
                Exit::Code(code) => (Some(code), None),
                Exit::Signal(signal) => (None, Some(signal)),
            };
        }
        if exit == Exit::Code(0) {
            return Ok(Finished::new(program, exit, String::new()));
        }
        // Its last words may still be in the pipe; a descendant may hold the pipe for longer than they are worth.
        let _ = tokio::time::timeout(DRAIN_LIMIT, ended).await;
        Ok(Finished::new(program, exit, said.text()))
    }

    /// Not async: between the fork and the entry in `started` nothing can interrupt.
    fn spawn(&self, call: &Call, said: Said, at_end: oneshot::Sender<()>) -> Result<Spawned, String> {
        let LeaseKey { job, step, attempt, .. } = self.lease;
        let program = &call.program;
        let folder = self.folder()?;
        let mut env = self.surroundings.environment.variables(&folder);
        env.extend(call.env.iter().map(|(name, value)| (name.into(), value.into())));
        let own = [
            ("GRID_JOB", job.to_string()),
            ("GRID_STEP", step.to_string()),
            ("GRID_ATTEMPT", attempt.to_string()),
            ("GRID_NODE", self.node_id().to_string()),
        ];
        env.extend(own.map(|(name, value)| (name.into(), value.into())));
        // Attempts restart with each run.
        env.extend(Some(self.run).filter(|run| *run > 0).map(|run| ("GRID_RUN".into(), run.to_string().into())));
        let mark = self.surroundings.mark(&self.lease);
        let folder = call.folder.clone().unwrap_or(folder);
        let stdin = call.stdin.clone();
        let wanted = Program { program: program.clone(), args: call.args.clone(), env, folder, stdin, mark };
        let spawned = self.surroundings.processes.spawn(&wanted);
        let mut spawned = spawned.map_err(|error| format!("cannot start {program}: {error}"))?;
        let output = std::mem::replace(&mut spawned.output, Box::pin(tokio::io::empty()));
        let pump = tokio::spawn(pump(output, Arc::clone(&self.sink), said, at_end));
        let mut started = locked(&self.started);
        started.groups.push(spawned.group);
        started.pumps.push(pump);
        drop(started);
        Ok(spawned)
    }

    /// Returns when nothing of the lease runs any more: SIGTERM first if there is a `grace`, SIGKILL after it. A blocking call that
    /// does not return is abandoned.
    pub(crate) async fn clear(&self, grace: Duration) -> Cleared {
        self.blocking.close_gate();
        let deadline = tokio::time::Instant::now() + GRACE;
        let (groups, pumps) = {
            let mut started = locked(&self.started);
            (std::mem::take(&mut started.groups), std::mem::take(&mut started.pumps))
        };
        for group in groups {
            if grace.is_zero() {
                // What a successful lease moved out of its group, a daemon, is left alone.
                self.kill(group, None).await;
            } else {
                let mark = self.surroundings.mark(&self.lease);
                self.signal(group, Some(mark.clone()), Signal::Term).await;
                if !self.is_gone_within(group, Some(mark.clone()), grace).await {
                    self.kill(group, Some(mark)).await;
                }
            }
        }
        for mut pump in pumps {
            if tokio::time::timeout(DRAIN_LIMIT, &mut pump).await.is_err() {
                // A daemon that a successful lease left behind on purpose still holds the pipe.
                pump.abort();
            }
        }
        if self.blocking.have_returned_by(deadline).await {
            Cleared::Gone
        } else if self.blocking.may_take_effect() {
            Cleared::MayTakeEffect
        } else {
            Cleared::Harmless
        }
    }

    /// In the background. Everything that used it is gone, but for what a successful lease left behind on purpose.
    pub(crate) fn remove_folder(&self) {
        if locked(&self.started).has_folder {
            self.surroundings.work.remove(&self.lease);
        }
    }

    /// From here on the output survives this process.
    pub(crate) fn keep_output(&self) {
        self.sink.keep_in_file();
    }

    pub(crate) fn output_end(&self) -> OutputEnd {
        self.sink.end()
    }

    async fn kill(&self, group: Group, mark: Option<String>) {
        let mut is_told = false;
        while !self.is_gone_within(group, mark.clone(), Duration::ZERO).await {
            // Nothing was to be stopped, and the outcome is known: it is left like a daemon.
            if mark.is_none() && self.is_foreign(group).await {
                tracing::warn!(lease = %self.lease, pgid = group.pgid, "what a lease left running belongs to another user and is left alone");
                return;
            }
            self.signal(group, mark.clone(), Signal::Kill).await;
            if self.is_gone_within(group, mark.clone(), KILL_LIMIT).await {
                return;
            }
            if !std::mem::replace(&mut is_told, true) {
                let foreign = self.is_foreign(group).await;
                tracing::warn!(lease = %self.lease, pgid = group.pgid, foreign, "processes of a lease do not die of SIGKILL; it waits for them");
            }
        }
    }

    async fn is_gone_within(&self, group: Group, mark: Option<String>, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        let mut pause = FIRST_PAUSE;
        loop {
            let mark = mark.clone();
            let processes = Arc::clone(&self.surroundings.processes);
            let alive = off_runtime(move || processes.is_alive(group, mark.as_deref())).await;
            if alive == Some(false) || tokio::time::Instant::now() >= deadline {
                return alive == Some(false);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn is_foreign(&self, group: Group) -> bool {
        let processes = Arc::clone(&self.surroundings.processes);
        off_runtime(move || processes.is_foreign(group)).await == Some(true)
    }

    async fn signal(&self, group: Group, mark: Option<String>, signal: Signal) {
        let processes = Arc::clone(&self.surroundings.processes);
        off_runtime(move || processes.signal(group, mark.as_deref(), signal)).await;
    }
}

/// A look through `/proc` may take milliseconds. `None`: the runtime is shutting down.
async fn off_runtime<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(look).await.ok()
}

/// Dropping `at_end` tells that everything was read.
async fn pump(mut output: Pin<Box<dyn AsyncRead + Send>>, sink: Arc<Sink>, said: Said, at_end: oneshot::Sender<()>) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count) = output.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        sink.write(&buffer[..count]);
        said.write(&buffer[..count]);
    }
    drop(at_end);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
