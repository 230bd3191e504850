//! Bounds what reads may take from commits, snapshots and heartbeats.
//!
//! Reads are SQL on threads for blocking work, which snapshots and file I/O need, too. A read therefore waits for a place
//! before it takes a thread: a flood of them queues here, where it holds up nobody else.
//! The hash of the whole state is the most expensive read. It is computed once at a time and kept for the applied index
//! it is of: everyone who asks meanwhile gets the same one.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// As many as there are connections for readers: more would only wait for those.
const PLACES: usize = 4;

pub struct Reads {
    places: Arc<Semaphore>,
    /// Applied index and hash.
    hash: Mutex<Option<(u64, String)>>,
}

impl Default for Reads {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(PLACES)), hash: Mutex::default() }
    }
}

impl Reads {
    /// To be kept until the read is done. `None` never happens: the semaphore is not closed.
    pub async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// The hash at `applied_index` or later: the one that is known, or a new one.
    pub async fn hash<E>(
        &self,
        applied_index: u64,
        compute: impl Future<Output = Result<(u64, String), E>>,
    ) -> Result<(u64, String), E> {
        let mut known = self.hash.lock().await;
        if let Some(known) = known.as_ref().filter(|(index, _)| *index >= applied_index) {
            return Ok(known.clone());
        }
        let computed = compute.await?;
        *known = Some(computed.clone());
        Ok(computed)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use grid_types::JobId;
    use tempfile::TempDir;

    use super::Reads;
    use crate::control::{Caller, JobQuery, Jobs};
    use crate::life::{job_ref, opening, propose, register, started, submit};

    #[tokio::test]
    async fn issue13_20_a_state_is_hashed_once_however_many_ask() {
        let (reads, computed) = (Reads::default(), AtomicUsize::new(0));
        let compute = |index: u64| {
            let computed = &computed;
            async move {
                computed.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok::<_, Infallible>((index, format!("hash at {index}")))
            }
        };
        let asked = (0..100).map(|_| reads.hash(7, compute(7)));
        for hash in futures_join(asked).await {
            assert_eq!(hash, Ok((7, "hash at 7".to_owned())));
        }
        assert_eq!(computed.load(Ordering::Relaxed), 1);
        assert_eq!(reads.hash(8, compute(9)).await, Ok((9, "hash at 9".to_owned())));
        assert_eq!(reads.hash(8, compute(8)).await, Ok((9, "hash at 9".to_owned())), "a later one is as good");
        assert_eq!(computed.load(Ordering::Relaxed), 2);
    }

    async fn futures_join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
        let mut pending: Vec<_> = futures.map(Box::pin).collect();
        let mut done = Vec::new();
        std::future::poll_fn(|cx| {
            pending.retain_mut(|future| match future.as_mut().poll(cx) {
                std::task::Poll::Ready(value) => {
                    done.push(value);
                    false
                }
                std::task::Poll::Pending => true,
            });
            if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        done
    }

    /// With a few threads for blocking work, as on a busy machine: before, a snapshot waited for the whole flood.
    #[test]
    fn issue13_20_a_flood_of_reads_does_not_hold_up_a_snapshot() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(6)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let home = TempDir::new().unwrap();
            let controller = started(opening(home.path(), "c1", true)).await.unwrap();
            propose(&controller, register("n1")).await;
            for id in 1..=40 {
                propose(&controller, submit(JobId(id))).await;
            }
            let answered = Arc::new(AtomicUsize::new(0));
            let flood: Vec<_> = (0..3_000)
                .map(|_| {
                    let (controller, answered) = (controller.clone(), Arc::clone(&answered));
                    tokio::spawn(async move {
                        let query = JobQuery { limit: 1_000, ..JobQuery::default() };
                        assert_eq!(
                            controller.jobs(&Caller::local(), &job_ref(1).namespace, query).await.unwrap().items.len(),
                            40
                        );
                        answered.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            controller.shared.log.raft.trigger_snapshot().await.unwrap();
            propose(&controller, submit(JobId(41))).await;
            let left = flood.len() - answered.load(Ordering::Relaxed);
            assert!(left > flood.len() / 4, "the snapshot and the commit waited for the flood: {left} reads are left");
            flood.iter().for_each(tokio::task::JoinHandle::abort);
            controller.shutdown().await;
        });
    }
}
