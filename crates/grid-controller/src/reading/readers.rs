//! Bounds the readers of outputs.

use std::sync::Arc;

use grid_types::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::control::Refusal;

const READERS: usize = 32;

/// The places of readers.
pub struct Readers(Arc<Semaphore>);

impl Default for Readers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(READERS)))
    }
}

impl Readers {
    pub fn enter(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            let message = format!("this controller already serves {READERS} readers of outputs; try again");
            Refusal::new(Code::QueueFull, message)
        })
    }
}
