//! Runs leases: one task each, from start to the certainty that nothing of it runs any more.
//!
//! ```text
//!   backend runs --ended--> left-over processes killed ----------------------.
//!        |                                                                   v
//!        +--stop, timeout--> backend dropped --> SIGTERM --5 s--> SIGKILL --> all gone --> ended --> folder removed
//! ```
//!
//! W6: the timeout counts from the start on the monotonic clock. W9: `Ended` comes only when no process of the lease is
//! alive, so that a confirmed revoke means what it says. The exception is a call that hangs in the kernel, which nothing
//! can end: after the same 5 s it is abandoned. If it may still take effect (`lease::EffectGate`), the lease is `unknown`, unless it is
//! `pure`.
//! Not here: whether a lease may run (`engine::book`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use grid_tasks::Tasks;
use grid_types::decl::EffectClass;
use grid_types::limits::{DEFAULT_TASK_TIMEOUT_MS, MAX_ERROR_BYTES};
use grid_types::{LeaseKey, Span};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

use crate::data_dir::output::{FILE_AFTER, OutputEnd};
use crate::engine::book::{LeaseEvent, Work};
use crate::engine::record::{Ended, Status};
use crate::run::backends::Backends;
use crate::run::lease::{Cleared, GRACE, LeaseContext, Surroundings};

pub struct Executor {
    surroundings: Arc<Surroundings>,
    backends: Arc<Backends>,
    events: mpsc::Sender<LeaseEvent>,
    tasks: Tasks,
    /// Dropping or firing one stops its lease.
    running: BTreeMap<LeaseKey, oneshot::Sender<()>>,
}

impl Executor {
    #[must_use]
    pub fn new(
        surroundings: Arc<Surroundings>,
        backends: Backends,
        events: mpsc::Sender<LeaseEvent>,
        tasks: Tasks,
    ) -> Self {
        Self { surroundings, backends: Arc::new(backends), events, tasks, running: BTreeMap::new() }
    }

    pub fn start(&mut self, work: Work) {
        let lease = work.lease;
        let (stop, stopped) = oneshot::channel();
        self.running.insert(lease, stop);
        let (surroundings, events) = (Arc::clone(&self.surroundings), self.events.clone());
        let backends = Arc::clone(&self.backends);
        let LeaseKey { job, job_epoch, step, attempt } = lease;
        let node = &self.surroundings.node_id;
        let span = tracing::info_span!("lease", %job, epoch = %job_epoch, %step, %attempt, %node);
        let run = async move {
            // As close to the fork as can be: this process may have been stopped since it was allowed to start.
            if work.start_by_mono_ms.is_some_and(|by| surroundings.clock.mono_ms() > by) {
                let _ = events.send(LeaseEvent::Late { work }).await;
                return;
            }
            let context = Arc::new(LeaseContext::new(Arc::clone(&surroundings), &work, events.clone()));
            let (ended, tail) = execute(&backends, &context, work, stopped).await;
            // Nobody listens only when the whole worker is gone.
            let _ = events.send(LeaseEvent::Ended { lease, ended, tail }).await;
            context.remove_folder();
        };
        self.tasks.start_finite("lease", run.instrument(span));
    }

    /// The lease still reports its end.
    pub fn stop(&mut self, lease: &LeaseKey) {
        if let Some(stop) = self.running.get_mut(lease) {
            // Replaced instead of removed: the lease runs until it says so.
            *stop = oneshot::channel().0;
        }
    }

    /// A lease reported something.
    pub fn happened(&mut self, event: &LeaseEvent) {
        match event {
            LeaseEvent::Ended { lease, .. } | LeaseEvent::Late { work: Work { lease, .. } } => {
                self.running.remove(lease);
            }
            LeaseEvent::Forked { .. } => {}
        }
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

impl Verdict {
    fn outcome(self, timeout_ms: u64) -> (Status, String) {
        match self {
            Self::Succeeded => (Status::Success, String::new()),
            Self::Failed(error) => (Status::Failed, cut(error)),
            Self::TimedOut => (Status::TimedOut, format!("timed out after {}", Span::from_ms(timeout_ms))),
            Self::Stopped => (Status::Cancelled, String::new()),
        }
    }
}

async fn execute(
    backends: &Backends,
    context: &Arc<LeaseContext>,
    work: Work,
    stopped: oneshot::Receiver<()>,
) -> (Ended, Vec<u8>) {
    let began_ms = context.clock().mono_ms();
    let started_at_ms = work.started_at_ms;
    let timeout_ms = if work.offer.timeout_ms == 0 { DEFAULT_TASK_TIMEOUT_MS } else { work.offer.timeout_ms };
    let effect = work.offer.effect().class();
    let verdict = match backends.find(&work.offer.backend, &work.offer.action) {
        Err(problem) => Verdict::Failed(problem),
        Ok(found) => match found.admitted(&work.offer) {
            Err(problem) => Verdict::Failed(problem),
            Ok(params) => {
                let running = tokio::spawn(found.backend.run(Arc::clone(context), work.offer.action, params));
                let mut over = pin!(until_over(running, stopped, Duration::from_millis(timeout_ms)));
                tokio::select! {
                    verdict = &mut over => verdict,
                    () = tokio::time::sleep(FILE_AFTER) => {
                        context.keep_output();
                        over.await
                    }
                }
            }
        },
    };
    let grace = match verdict {
        Verdict::TimedOut | Verdict::Stopped => GRACE,
        Verdict::Succeeded | Verdict::Failed(_) => Duration::ZERO,
    };
    let cleared = context.clear(grace).await;
    let (status, error) = verdict.outcome(timeout_ms);
    if cleared != Cleared::Gone {
        tracing::warn!(lease = %context.lease(), ?cleared, "a call of this lease hangs in the kernel and is abandoned");
    }
    let is_unknown = cleared == Cleared::MayTakeEffect && effect != EffectClass::Pure;
    let (status, error) = if is_unknown { unknown(error) } else { (status, error) };
    let duration_ms = context.clock().mono_ms().saturating_sub(began_ms);
    let OutputEnd { total_bytes: output_bytes, truncated: output_truncated, tail } = context.output_end();
    let detail = context.detail().known();
    (Ended { status, error, duration_ms, started_at_ms, output_bytes, output_truncated, detail }, tail)
}

/// A blocking call hangs and may take effect.
fn unknown(error: String) -> (Status, String) {
    let what = if error.is_empty() { "it was stopped".to_owned() } else { error };
    let why = "a call hangs in the kernel: it may still take effect, see to the file or disk it waits for";
    (Status::Unknown, cut(format!("{what}, but {why}")))
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
