//! Runs leases: one task each, from start to the certainty that nothing of it runs any more.
//!
//! ```text
//!   backend runs --ended--> left-over processes killed ----------------------.
//!        |                                                                   v
//!        +--stop, timeout--> backend dropped --> SIGTERM --5 s--> SIGKILL --> all gone --> Event::Ended
//! ```
//!
//! W6: the timeout counts from the start on the monotonic clock. W9: `Ended` comes only when no process of the lease is
//! alive, so that a confirmed revoke means what it says.
//! Not here: whether a lease may run (`book`).

mod context;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use grid_types::clock::Clock;
use grid_types::limits::{DEFAULT_TASK_TIMEOUT_MS, MAX_ERROR_BYTES};
use grid_types::{LeaseKey, NodeId, Span};
use tokio::sync::{mpsc, oneshot};

use crate::backends::Backends;
use crate::book::Work;
use crate::journal::{Ended, Group, Status};
use crate::output::Outputs;
use crate::process::Processes;
pub use context::LeaseContext;

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// What happened to a lease.
#[derive(Debug)]
pub enum Event {
    Forked { lease: LeaseKey, group: Group },
    Ended { lease: LeaseKey, ended: Ended, tail: Vec<u8> },
}

/// What every lease of this worker shares.
pub struct Surroundings {
    pub node_id: NodeId,
    /// Tells this data folder's processes from those of any other.
    pub folder_mark: String,
    pub backends: Backends,
    pub processes: Arc<dyn Processes>,
    pub outputs: Arc<Outputs>,
    pub clock: Arc<dyn Clock>,
}

impl Surroundings {
    /// The mark in the environment of a lease's processes.
    #[must_use]
    pub fn mark(&self, lease: &LeaseKey) -> String {
        mark(&self.folder_mark, lease)
    }
}

pub(crate) fn mark(folder_mark: &str, lease: &LeaseKey) -> String {
    format!("{folder_mark}/{lease}")
}

pub struct Executor {
    surroundings: Arc<Surroundings>,
    events: mpsc::Sender<Event>,
    /// Dropping or firing one stops its lease.
    running: BTreeMap<LeaseKey, oneshot::Sender<()>>,
}

impl Executor {
    #[must_use]
    pub fn new(surroundings: Arc<Surroundings>, events: mpsc::Sender<Event>) -> Self {
        Self { surroundings, events, running: BTreeMap::new() }
    }

    pub fn start(&mut self, work: Work) {
        let lease = work.lease;
        let (stop, stopped) = oneshot::channel();
        self.running.insert(lease, stop);
        let (surroundings, events) = (Arc::clone(&self.surroundings), self.events.clone());
        tokio::spawn(async move {
            let (ended, tail) = execute(surroundings, work, stopped, events.clone()).await;
            // Nobody listens only when the whole worker is gone.
            let _ = events.send(Event::Ended { lease, ended, tail }).await;
        });
    }

    /// The lease still reports its end.
    pub fn stop(&mut self, lease: &LeaseKey) {
        if let Some(stop) = self.running.get_mut(lease) {
            // Replaced instead of removed: the lease runs until it says so.
            *stop = oneshot::channel().0;
        }
    }

    /// The lease reported its end.
    pub fn ended(&mut self, lease: &LeaseKey) {
        self.running.remove(lease);
    }

    pub fn stop_all(&mut self) {
        for stop in self.running.values_mut() {
            *stop = oneshot::channel().0;
        }
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }
}

/// Why a lease is over.
enum Verdict {
    Succeeded,
    Failed(String),
    TimedOut,
    Stopped,
}

async fn execute(
    surroundings: Arc<Surroundings>,
    work: Work,
    stopped: oneshot::Receiver<()>,
    events: mpsc::Sender<Event>,
) -> (Ended, Vec<u8>) {
    let began_ms = surroundings.clock.mono_ms();
    let started_at_ms = work.started_at_ms;
    let timeout_ms = if work.offer.timeout_ms == 0 { DEFAULT_TASK_TIMEOUT_MS } else { work.offer.timeout_ms };
    let context = Arc::new(LeaseContext::new(Arc::clone(&surroundings), &work, events));
    let verdict = match surroundings.backends.find(&work.offer.backend, &work.offer.action) {
        Err(problem) => Verdict::Failed(problem),
        Ok(backend) => match work.offer.checked_params() {
            Err(bad) => Verdict::Failed(bad.to_string()),
            Ok(params) => {
                let running = tokio::spawn(backend.run(Arc::clone(&context), work.offer.action, params));
                until_over(running, stopped, Duration::from_millis(timeout_ms)).await
            }
        },
    };
    let grace = match verdict {
        Verdict::TimedOut | Verdict::Stopped => GRACE,
        Verdict::Succeeded | Verdict::Failed(_) => Duration::ZERO,
    };
    context.clear(grace).await;
    let (status, error) = match verdict {
        Verdict::Succeeded => (Status::Success, String::new()),
        Verdict::Failed(error) => (Status::Failed, cut(error)),
        Verdict::TimedOut => (Status::TimedOut, format!("timed out after {}", Span::from_ms(timeout_ms))),
        Verdict::Stopped => (Status::Cancelled, String::new()),
    };
    let duration_ms = surroundings.clock.mono_ms().saturating_sub(began_ms);
    let (output_bytes, tail) = context.output_end();
    (Ended { status, error, duration_ms, started_at_ms, output_bytes }, tail)
}

/// Runs the backend in a task of its own: a panic there fails its lease and nothing else.
async fn until_over(
    mut running: tokio::task::JoinHandle<Result<(), String>>,
    stopped: oneshot::Receiver<()>,
    timeout: Duration,
) -> Verdict {
    let interrupted = tokio::select! {
        biased;
        joined = &mut running => return verdict_of(joined, Verdict::Stopped),
        _ = stopped => Verdict::Stopped,
        () = tokio::time::sleep(timeout) => Verdict::TimedOut,
    };
    running.abort();
    // It may have ended by itself at the last moment; then that is what happened.
    verdict_of(running.await, interrupted)
}

fn verdict_of(joined: Result<Result<(), String>, tokio::task::JoinError>, interrupted: Verdict) -> Verdict {
    match joined {
        Ok(Ok(())) => Verdict::Succeeded,
        Ok(Err(error)) => Verdict::Failed(error),
        Err(error) if error.is_panic() => Verdict::Failed("the backend panicked; see the worker's log".to_owned()),
        Err(_) => interrupted,
    }
}

fn cut(mut error: String) -> String {
    if error.len() > MAX_ERROR_BYTES {
        error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
    }
    error
}
