//! Outputs stay on the workers: asks one in its session for some bytes, and hands over what comes back by `StreamLogs`.
//!
//! One request, one bounded answer. A caller has room for the answer before it asks, so nothing piles up here, in the
//! streams or on the worker, however slowly somebody reads (and a worker's session never waits behind its outputs).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grid_proto::v1;
use grid_types::{LeaseKey, NodeOrd};
use tokio::sync::oneshot;

use crate::leader::error_of;

/// Beyond the time that the worker may wait.
const SILENCE: Duration = Duration::from_secs(5);

/// What is asked of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Pull {
    pub lease: LeaseKey,
    pub offset: u64,
    /// Bytes below this are known: worth no answer while `wait` lasts.
    pub seen: u64,
    pub limit: u32,
    pub wait: Duration,
    /// Not 0: begin with the last so many lines instead of at `offset`.
    pub tail_lines: u32,
}

/// What a worker had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    pub offset: u64,
    pub data: Vec<u8>,
    /// More may come.
    pub open: bool,
    /// Tells one execution's output from another's; 0: not known.
    pub run: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPulled {
    #[error("its worker is away")]
    Away,
    #[error("its worker is busy")]
    Busy,
    #[error("{0}")]
    Gone(String),
}

#[derive(Default)]
pub struct Pulls {
    waiting: Mutex<HashMap<String, Waiting>>,
}

struct Waiting {
    node: NodeOrd,
    answer: oneshot::Sender<v1::LogChunk>,
}

impl Pulls {
    /// `ask` sends the request to the node and says whether it could.
    pub async fn pull(
        &self,
        node: NodeOrd,
        pull: Pull,
        ask: impl FnOnce(v1::LogRequest) -> bool,
    ) -> Result<Pulled, NotPulled> {
        // Not to be guessed by another worker.
        let random = getrandom::u64().map_err(|e| NotPulled::Gone(format!("no randomness: {e}")))?;
        let id = format!("log-{random:016x}");
        let (answer, answered) = oneshot::channel();
        self.waiting().insert(id.clone(), Waiting { node, answer });
        // The caller may go away in the middle.
        let _forgets = Forgets { pulls: self, id: &id };
        let request = v1::LogRequest {
            request_id: id.clone(),
            lease: Some(pull.lease.into()),
            offset: pull.offset,
            limit: pull.limit,
            wait_ms: u32::try_from(pull.wait.as_millis()).unwrap_or(u32::MAX),
            seen: pull.seen,
            tail_lines: pull.tail_lines,
        };
        if !ask(request) {
            return Err(NotPulled::Away);
        }
        let chunk = tokio::time::timeout(pull.wait + SILENCE, answered).await;
        checked(pull, chunk.map_err(|_| NotPulled::Away)?.map_err(|_| NotPulled::Away)?)
    }

    /// A chunk of a node has arrived. `false`: nobody waits for it from there.
    pub fn deliver(&self, node: NodeOrd, chunk: v1::LogChunk) -> bool {
        let mut all = self.waiting();
        if all.get(&chunk.request_id).is_none_or(|waiting| waiting.node != node) {
            return false;
        }
        let waiting = all.remove(&chunk.request_id);
        drop(all);
        waiting.is_some_and(|waiting| waiting.answer.send(chunk).is_ok())
    }

    /// The node's stream is gone, and with it whatever was asked in it.
    pub fn gone(&self, node: NodeOrd) {
        self.waiting().retain(|_, waiting| waiting.node != node);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn checked(pull: Pull, chunk: v1::LogChunk) -> Result<Pulled, NotPulled> {
    if chunk.busy {
        return Err(NotPulled::Busy);
    }
    if let Some(error) = error_of(chunk.error) {
        return Err(NotPulled::Gone(error));
    }
    let too_long = u32::try_from(chunk.data.len()).map_or(true, |len| len > pull.limit);
    if too_long || (pull.tail_lines == 0 && chunk.offset != pull.offset) {
        return Err(NotPulled::Gone("its worker sent something else than was asked for".to_owned()));
    }
    Ok(Pulled { offset: chunk.offset, data: chunk.data, open: chunk.open, run: chunk.run })
}

/// Forgets a request, however the wait for its answer ends.
struct Forgets<'a> {
    pulls: &'a Pulls,
    id: &'a str,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.pulls.waiting().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{NotPulled, Pull, Pulls};
    use grid_proto::v1;
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

    const NODE: NodeOrd = NodeOrd(1);
    const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
    const PULL: Pull = Pull { lease: LEASE, offset: 5, seen: 5, limit: 3, wait: Duration::ZERO, tail_lines: 0 };

    async fn answered(chunk: v1::LogChunk) -> Result<Vec<u8>, NotPulled> {
        let pulls = Pulls::default();
        let ask =
            |request: v1::LogRequest| pulls.deliver(NODE, v1::LogChunk { request_id: request.request_id, ..chunk });
        pulls.pull(NODE, PULL, ask).await.map(|pulled| pulled.data)
    }

    fn chunk(offset: u64, data: &[u8]) -> v1::LogChunk {
        v1::LogChunk { offset, data: data.to_vec(), end: true, ..Default::default() }
    }

    #[tokio::test]
    async fn an_answer_is_what_was_asked_for_or_none() {
        assert_eq!(answered(chunk(5, b"abc")).await, Ok(b"abc".to_vec()));
        assert!(matches!(answered(chunk(5, b"abcd")).await, Err(NotPulled::Gone(_))), "more than there is room for");
        assert!(matches!(answered(chunk(4, b"abc")).await, Err(NotPulled::Gone(_))), "another place");
        let busy = v1::LogChunk { busy: true, error: "later".to_owned(), ..chunk(5, b"") };
        assert_eq!(answered(busy).await, Err(NotPulled::Busy));
    }

    #[tokio::test]
    async fn an_absent_worker_is_away_and_a_stranger_is_not_heard() {
        let pulls = Pulls::default();
        assert_eq!(pulls.pull(NODE, PULL, |_| false).await, Err(NotPulled::Away));
        assert!(!pulls.deliver(NODE, v1::LogChunk { request_id: "log-0".to_owned(), ..chunk(0, b"x") }));
        let other = |request: v1::LogRequest| {
            let chunk = v1::LogChunk { request_id: request.request_id, ..chunk(5, b"abc") };
            assert!(!pulls.deliver(NodeOrd(2), chunk.clone()), "another node answers");
            pulls.deliver(NODE, chunk)
        };
        assert!(pulls.pull(NODE, PULL, other).await.is_ok(), "it is answered by the node that was asked");
        assert!(pulls.waiting().is_empty());
        let left = |request: v1::LogRequest| {
            pulls.gone(NodeOrd(2));
            assert_eq!(pulls.waiting().len(), 1, "{}", request.request_id);
            pulls.gone(NODE);
            true
        };
        assert_eq!(pulls.pull(NODE, PULL, left).await, Err(NotPulled::Away), "at once, not after its silence");
    }
}
