//! Whole outputs, which stay on the workers: asks for one in a session, and gathers what comes back by `StreamLogs`.
//!
//! Bounded in every direction: so many at once, so many bytes each, and a worker that stops sending is given up. What
//! cannot be had whole is answered by its stored end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grid_proto::v1;
use grid_types::LeaseKey;
use grid_types::limits::OUTPUT_CAP_BYTES;
use tokio::sync::{Semaphore, mpsc};

const AT_ONCE: usize = 4;
const CHUNKS_AHEAD: usize = 4;
const SILENCE: Duration = Duration::from_secs(5);

pub struct OutputDesk {
    places: Semaphore,
    next: AtomicU64,
    waiting: Mutex<HashMap<String, mpsc::Sender<v1::LogChunk>>>,
}

impl Default for OutputDesk {
    fn default() -> Self {
        Self { places: Semaphore::new(AT_ONCE), next: AtomicU64::new(1), waiting: Mutex::default() }
    }
}

impl OutputDesk {
    /// Fetches a whole output; `ask` sends the request to the worker and says whether it could.
    pub async fn fetch(&self, lease: LeaseKey, ask: impl FnOnce(v1::LogRequest) -> bool) -> Result<Vec<u8>, String> {
        let _place = self.places.acquire().await.map_err(|e| e.to_string())?;
        let id = format!("log-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (chunks, mut arriving) = mpsc::channel(CHUNKS_AHEAD);
        self.waiting().insert(id.clone(), chunks);
        // Whoever asked may go away in the middle.
        let _seat = Seat { desk: self, id: &id };
        let request = v1::LogRequest { request_id: id.clone(), lease: Some(lease.into()), offset: 0, follow: false };
        if ask(request) { gather(&mut arriving).await } else { Err("its worker is away".to_owned()) }
    }

    /// A chunk has arrived. `false`: nobody waits for it.
    pub async fn deliver(&self, chunk: v1::LogChunk) -> bool {
        let Some(chunks) = self.waiting().get(&chunk.request_id).cloned() else { return false };
        chunks.send(chunk).await.is_ok()
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<v1::LogChunk>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place at the desk, given back however the wait ends.
struct Seat<'a> {
    desk: &'a OutputDesk,
    id: &'a str,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.desk.waiting().remove(self.id);
    }
}

async fn gather(arriving: &mut mpsc::Receiver<v1::LogChunk>) -> Result<Vec<u8>, String> {
    // The worker adds a line where it cut an output off.
    let limit = usize::try_from(OUTPUT_CAP_BYTES).unwrap_or(usize::MAX).saturating_add(4 * 1024);
    let mut whole = Vec::new();
    loop {
        let chunk = tokio::time::timeout(SILENCE, arriving.recv()).await.map_err(|_| "its worker does not answer")?;
        let chunk = chunk.ok_or("its worker stopped sending")?;
        if !chunk.error.is_empty() {
            return Err(chunk.error);
        }
        if chunk.offset != u64::try_from(whole.len()).unwrap_or(u64::MAX) || whole.len() + chunk.data.len() > limit {
            return Err("its worker sent something else than the output".to_owned());
        }
        whole.extend_from_slice(&chunk.data);
        if chunk.end {
            return Ok(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::OutputDesk;
    use grid_proto::v1;
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };

    fn chunk(id: &str, offset: u64, data: &[u8], end: bool) -> v1::LogChunk {
        v1::LogChunk { request_id: id.to_owned(), offset, data: data.to_vec(), end, error: String::new() }
    }

    async fn fetch_with(chunks: Vec<(u64, &'static [u8], bool)>) -> Result<Vec<u8>, String> {
        let desk = Arc::new(OutputDesk::default());
        let other = Arc::clone(&desk);
        let ask = move |request: v1::LogRequest| {
            tokio::spawn(async move {
                for (offset, data, end) in chunks {
                    other.deliver(chunk(&request.request_id, offset, data, end)).await;
                }
            });
            true
        };
        desk.fetch(LEASE, ask).await
    }

    #[tokio::test]
    async fn chunks_are_put_together_in_order() {
        assert_eq!(fetch_with(vec![(0, b"ab", false), (2, b"c", false), (3, b"", true)]).await, Ok(b"abc".to_vec()));
    }

    #[tokio::test]
    async fn a_gap_an_absent_worker_or_a_stranger_is_noticed() {
        assert!(fetch_with(vec![(0, b"ab", false), (5, b"c", true)]).await.is_err());
        let desk = OutputDesk::default();
        assert!(desk.fetch(LEASE, |_| false).await.is_err());
        assert!(!desk.deliver(chunk("log-99", 0, b"x", true)).await);
    }
}
