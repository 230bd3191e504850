//! Answers to a controller that asks for the output of a lease: the file's bytes, and with `follow` what is still added.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use grid_fabric::Link;
use grid_proto::v1;
use grid_types::LeaseKey;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
use tokio::sync::{Semaphore, mpsc};

use crate::output::Outputs;

const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS_AHEAD: usize = 2;
/// How often a followed file is looked at.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);
const MAX_STREAMS: usize = 16;

/// Answers requests, a bounded number at a time.
#[derive(Clone)]
pub(crate) struct LogDesk {
    outputs: Arc<Outputs>,
    places: Arc<Semaphore>,
}

impl LogDesk {
    pub(crate) fn new(outputs: Arc<Outputs>) -> Self {
        Self { outputs, places: Arc::new(Semaphore::new(MAX_STREAMS)) }
    }

    pub(crate) fn answer(&self, link: impl Link, request: v1::LogRequest) {
        let desk = self.clone();
        tokio::spawn(async move {
            let (chunks, queue) = mpsc::channel(CHUNKS_AHEAD);
            let reading = tokio::spawn(async move { desk.read(request, chunks).await });
            if let Err(error) = link.send_logs(queue).await {
                tracing::debug!(%error, "an output could not be sent");
            }
            reading.abort();
        });
    }

    async fn read(&self, request: v1::LogRequest, chunks: mpsc::Sender<v1::LogChunk>) {
        let id = request.request_id.clone();
        let last = match self.places.try_acquire() {
            Ok(_place) => self.send_file(&request, &chunks).await,
            Err(_) => Err(format!("this worker already sends {MAX_STREAMS} outputs; try again")),
        };
        let (offset, error) = last.map_or_else(|error| (request.offset, error), |offset| (offset, String::new()));
        // Nobody listens any more: nothing to say.
        let _ = chunks.send(v1::LogChunk { request_id: id, offset, data: Vec::new(), end: true, error }).await;
    }

    /// Returns the offset of the end.
    async fn send_file(&self, request: &v1::LogRequest, chunks: &mpsc::Sender<v1::LogChunk>) -> Result<u64, String> {
        let lease: LeaseKey = request.lease.ok_or("the request names no lease")?.into();
        let _reading = self.outputs.reading(lease);
        let mut offset = request.offset;
        let mut file: Option<File> = None;
        let mut seen_open = false;
        loop {
            // Before the file is read: what is written before the lease closes is then never missed.
            let open = self.outputs.is_open(&lease);
            let more = request.follow && open;
            seen_open |= open;
            if file.is_none() {
                file = self.open_at(&lease, offset, seen_open).await?;
            }
            if let Some(file) = &mut file {
                let mut data = vec![0; CHUNK_BYTES];
                let count = file.read(&mut data).await.map_err(|e| gone(&lease, &e))?;
                if count > 0 {
                    data.truncate(count);
                    let request_id = request.request_id.clone();
                    let chunk = v1::LogChunk { request_id, offset, data, ..Default::default() };
                    offset += count as u64;
                    if chunks.send(chunk).await.is_err() {
                        return Ok(offset);
                    }
                    continue;
                }
            }
            if !more {
                return Ok(offset);
            }
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }

    /// `None`: the lease has not said anything (yet).
    async fn open_at(&self, lease: &LeaseKey, offset: u64, seen_open: bool) -> Result<Option<File>, String> {
        let mut file = match File::open(self.outputs.path(lease)).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && seen_open => return Ok(None),
            Err(error) => return Err(gone(lease, &error)),
        };
        file.seek(SeekFrom::Start(offset)).await.map_err(|e| gone(lease, &e))?;
        Ok(Some(file))
    }
}

fn gone(lease: &LeaseKey, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return format!("this node has no output of {lease}: it said nothing, or it is older than what is kept");
    }
    format!("cannot read the output of {lease}: {error}")
}
