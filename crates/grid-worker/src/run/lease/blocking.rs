//! Calls that may block in the kernel: a file on a hung mount, a device, a full disk.
//!
//! Nothing interrupts such a call. It runs on a thread of its own and not on the runtime's pool: the end of the runtime
//! waits for its pool, and a worker that was asked to stop must be able to. A call that does not return in time is abandoned;
//! its thread stays until the kernel lets it go, and counts against [`MAX_CALLS`] until then.

use std::sync::Arc;

use grid_types::limits::MAX_SLOTS;
use tokio::sync::{OwnedSemaphorePermit, RwLock, Semaphore, TryAcquireError, oneshot};
use tokio::time::Instant;

use super::gate::EffectGate;

/// One per slot, and as many that hang.
const MAX_CALLS: usize = 2 * MAX_SLOTS as usize;
const STACK_BYTES: usize = 256 * 1024;

/// The places for the calls of all leases of a worker.
#[must_use]
pub fn blocking_places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_CALLS))
}

/// The calls of one lease.
pub(super) struct BlockingCalls {
    places: Arc<Semaphore>,
    /// Held for reading by each call.
    running: Arc<RwLock<()>>,
    gate: EffectGate,
}

impl BlockingCalls {
    pub(super) fn new(places: Arc<Semaphore>) -> Self {
        Self { places, running: Arc::default(), gate: EffectGate::default() }
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&EffectGate) -> T + Send + 'static,
    ) -> Result<T, String> {
        let guard = Arc::clone(&self.running).read_owned().await;
        let place: OwnedSemaphorePermit =
            Arc::clone(&self.places).try_acquire_owned().map_err(|error| match error {
                TryAcquireError::NoPermits => {
                    format!("{MAX_CALLS} calls of this worker hang in the kernel; see to its disks")
                }
                TryAcquireError::Closed => "the worker ends".to_owned(),
            })?;
        let (sender, result) = oneshot::channel();
        let gate = self.gate.clone();
        let thread = std::thread::Builder::new().name("grid-blocking".to_owned()).stack_size(STACK_BYTES);
        let call = move || {
            let result = work(&gate);
            drop((guard, place));
            // Nobody listens if the lease was stopped meanwhile.
            let _ = sender.send(result);
        };
        let thread = thread.spawn(call).map_err(|error| format!("cannot start a thread: {error}"))?;
        match result.await {
            Ok(result) => Ok(result),
            // Its thread has ended without a result.
            Err(_) => match thread.join() {
                Ok(()) => Err("a blocking call ended without a result".to_owned()),
                Err(_) => Err("a blocking call panicked; see the worker's log".to_owned()),
            },
        }
    }

    /// From now on no call starts to take effect.
    pub(super) fn close_gate(&self) {
        self.gate.close();
    }

    /// Whether a call that has not returned may take effect.
    pub(super) fn may_take_effect(&self) -> bool {
        self.gate.is_entered()
    }

    /// `false`: something still hangs.
    pub(super) async fn have_returned_by(&self, deadline: Instant) -> bool {
        tokio::time::timeout_at(deadline, self.running.write()).await.is_ok()
    }
}
