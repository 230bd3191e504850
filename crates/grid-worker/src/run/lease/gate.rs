//! Decides whether a blocking call of a lease may still take effect.
//!
//! ```text
//!   open --enter--> entered --call returns--> open
//!     \--close (lease stopped, timed out or over)--> closed: enter fails
//! ```
//!
//! W9: a call that hangs cannot be ended, but it can be kept from changing anything once its lease is over. So it enters right before
//! the system call that takes effect (`renameat`, `unlinkat`). If it hangs before that point, it is known never to take effect. If it
//! hangs after it, nobody knows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The gate of one lease.
#[derive(Debug, Clone, Default)]
pub struct EffectGate(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    is_closed: bool,
    entered: usize,
}

/// Something is being changed as long as this exists.
#[derive(Debug)]
#[must_use]
pub struct Entered(EffectGate);

impl EffectGate {
    /// Call this right before the change, and keep the value until the change is complete.
    ///
    /// # Errors
    /// The lease is over: the call must change nothing.
    pub fn enter(&self) -> Result<Entered, String> {
        let mut inner = self.locked();
        if inner.is_closed {
            return Err("stopped before it changed anything".to_owned());
        }
        inner.entered += 1;
        Ok(Entered(self.clone()))
    }

    /// From now on nobody enters.
    pub(super) fn close(&self) {
        self.locked().is_closed = true;
    }

    /// Whether a call may be taking effect.
    pub(super) fn is_entered(&self) -> bool {
        self.locked().entered > 0
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate of a lease that is over.
    #[cfg(test)]
    pub(crate) fn closed() -> Self {
        let gate = Self::default();
        gate.close();
        gate
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.locked().entered -= 1;
    }
}
