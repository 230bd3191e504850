//! Defines the seam for jobs that clients submit over a fabric: the controller accepts or refuses them, the fabric carries them.

use std::future::Future;

use grid_types::Code;
use serde_json::Value;

/// A job that a client submits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRequest {
    /// The idempotency key (J12).
    pub key: String,
    /// The body of `POST /job`, as the client sent it.
    pub body: Vec<u8>,
}

/// Why a job was not accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRefusal {
    pub code: Code,
    pub message: String,
    /// The body that an HTTP client would get.
    pub document: Value,
}

/// The controller's side.
pub trait Intake: Send + Sync + 'static {
    /// The document of the job, once it is accepted and durable (L3). The role is checked before the body (E4).
    fn submit(&self, request: JobRequest) -> impl Future<Output = Result<Value, JobRefusal>> + Send;

    /// Resolves when the queue of jobs has room, or this controller leads no more.
    fn room(&self) -> impl Future<Output = ()> + Send;
}
