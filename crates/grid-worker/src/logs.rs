//! Answers to a controller that asks for the output of a lease: at most so many bytes of it, as soon as there are new ones.
//!
//! Each request is answered by one chunk and forgotten. Nothing here remembers a reader: one that goes away just does not
//! ask again, and one that is slow asks later.
//! Bounds: [`MAX_ANSWERS`] at a time, [`MAX_BYTES`] each, [`MAX_WAIT`] long.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use grid_fabric::{Credential, Link};
use grid_proto::v1;
use grid_types::LeaseKey;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::output::Outputs;

const MAX_ANSWERS: usize = 64;
const MAX_BYTES: usize = 256 * 1024;
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How often a followed file is looked at.
const PAUSE: Duration = Duration::from_millis(50);
/// Read at once while looking for the beginning of a line.
const BLOCK_BYTES: usize = 64 * 1024;

/// Answers requests, a bounded number at a time.
#[derive(Clone)]
pub(crate) struct LogDesk {
    outputs: Arc<Outputs>,
    places: Arc<Semaphore>,
    /// How often a file was looked at.
    #[cfg(test)]
    looks: Arc<std::sync::atomic::AtomicUsize>,
}

/// What a file had when it was looked at.
struct Look {
    run: u64,
    offset: u64,
    /// None: nothing new, and it is worth waiting.
    data: Option<Vec<u8>>,
}

impl LogDesk {
    pub(crate) fn new(outputs: Arc<Outputs>) -> Self {
        Self {
            outputs,
            places: Arc::new(Semaphore::new(MAX_ANSWERS)),
            #[cfg(test)]
            looks: Arc::default(),
        }
    }

    pub(crate) fn answer(&self, link: impl Link, credential: Credential, request: v1::LogRequest) {
        let desk = self.clone();
        tokio::spawn(async move {
            let chunk = desk.chunk(&request).await;
            let (session, secret) = (credential.session.0, Some(credential.secret));
            let chunk = v1::LogChunk { session, secret, ..chunk };
            let (chunks, queue) = mpsc::channel(1);
            // The queue has room for one.
            let _ = chunks.try_send(chunk);
            drop(chunks);
            if let Err(error) = link.send_logs(queue).await {
                tracing::debug!(%error, "an output could not be sent");
            }
        });
    }

    pub(crate) async fn chunk(&self, request: &v1::LogRequest) -> v1::LogChunk {
        let (read, busy) = match self.places.try_acquire() {
            Ok(_place) => (self.read(request).await, false),
            Err(_) => (Err(format!("this worker already answers {MAX_ANSWERS} readers; try again")), true),
        };
        let base = v1::LogChunk { request_id: request.request_id.clone(), end: true, busy, ..Default::default() };
        match read {
            Ok(chunk) => v1::LogChunk { request_id: base.request_id, end: true, ..chunk },
            Err(error) => v1::LogChunk { offset: request.offset, error, ..base },
        }
    }

    async fn read(&self, request: &v1::LogRequest) -> Result<v1::LogChunk, String> {
        let lease: LeaseKey = request.lease.ok_or("the request names no lease")?.into();
        let _reading = self.outputs.reading(lease);
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms.into()).min(MAX_WAIT);
        loop {
            // Before the file is looked at: what is written before the lease closes is then never missed.
            let open = self.outputs.is_open(&lease);
            let waits = open && Instant::now() < deadline;
            let (path, asked) = (self.outputs.path(&lease), request.clone());
            let looked = tokio::task::spawn_blocking(move || look(&path, &asked, waits)).await;
            #[cfg(test)]
            self.looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match looked.map_err(|e| e.to_string())? {
                Ok(Look { data: Some(data), offset, run, .. }) => {
                    return Ok(v1::LogChunk { offset, data, open, run, ..Default::default() });
                }
                Ok(Look { .. }) => {}
                // It has not said anything yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound && waits => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && open => {
                    return Ok(v1::LogChunk { offset: request.offset, open, ..Default::default() });
                }
                Err(error) => return Err(gone(&lease, &error)),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn look(path: &Path, request: &v1::LogRequest, waits: bool) -> io::Result<Look> {
    let mut file = grid_folder::open(path)?;
    let metadata = file.metadata()?;
    let len = metadata.len();
    // Not every file system knows; then only a file that became shorter is seen to be another.
    let born = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let run = born.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
    let offset = match request.tail_lines {
        0 => request.offset,
        lines => tail_start(&mut file, len, lines)?,
    };
    let is_new = len > offset.max(request.seen) || len < offset;
    if !is_new && waits {
        return Ok(Look { run, offset, data: None });
    }
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX).clamp(1, MAX_BYTES);
    let mut data = Vec::new();
    if len > offset {
        file.seek(SeekFrom::Start(offset))?;
        file.take(limit as u64).read_to_end(&mut data)?;
    }
    Ok(Look { run, offset, data: Some(data) })
}

/// Where the last so many lines begin; a last one without its end counts.
fn tail_start(file: &mut File, len: u64, lines: u32) -> io::Result<u64> {
    let mut at = len;
    let mut found = 0;
    let mut block = vec![0; BLOCK_BYTES];
    while at > 0 {
        let from = at.saturating_sub(BLOCK_BYTES as u64);
        let count = usize::try_from(at - from).unwrap_or(BLOCK_BYTES);
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block[..count])?;
        for (i, byte) in block[..count].iter().enumerate().rev() {
            let end = from + i as u64 + 1;
            // The end of the last line begins none.
            if *byte == b'\n' && end < len {
                found += 1;
                if found == lines {
                    return Ok(end);
                }
            }
        }
        at = from;
    }
    Ok(0)
}

fn gone(lease: &LeaseKey, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return format!("this node has no output of {lease}: it said nothing, or it is older than what is kept");
    }
    format!("cannot read the output of {lease}: {error}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::{LogDesk, MAX_ANSWERS};
    use crate::output::Outputs;
    use grid_proto::v1;
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };

    fn desk() -> (LogDesk, Arc<Outputs>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let outputs = Arc::new(Outputs::new(dir.path()));
        (LogDesk::new(Arc::clone(&outputs)), outputs, dir)
    }

    fn request(offset: u64, limit: u32) -> v1::LogRequest {
        v1::LogRequest { lease: Some(LEASE.into()), offset, limit, seen: offset, ..Default::default() }
    }

    #[tokio::test]
    async fn an_answer_has_at_most_what_was_asked_for_and_says_whether_more_may_come() {
        let (desk, outputs, _dir) = desk();
        let mut sink = outputs.open(LEASE);
        assert_eq!(desk.chunk(&request(0, 4)).await.data, b"");
        sink.write(b"abcdef");
        let first = desk.chunk(&request(0, 4)).await;
        assert_eq!((first.data.as_slice(), first.open, first.end), (b"abcd".as_slice(), true, true));
        drop(sink);
        let rest = desk.chunk(&request(4, 4)).await;
        assert_eq!((rest.data.as_slice(), rest.open, rest.run), (b"ef".as_slice(), false, first.run));
        assert_ne!(desk.chunk(&v1::LogRequest { lease: None, ..request(0, 4) }).await.error, "");
    }

    #[tokio::test]
    async fn a_reader_that_has_seen_everything_waits_for_more_and_no_longer_than_it_said() {
        let (desk, outputs, _dir) = desk();
        let mut sink = outputs.open(LEASE);
        sink.write(b"abc");
        let waiting = v1::LogRequest { seen: 3, wait_ms: 20_000, ..request(1, 100) };
        let (other, asked) = (desk.clone(), waiting.clone());
        let answer = tokio::spawn(async move { other.chunk(&asked).await });
        // It has looked and gone on to wait.
        while desk.looks.load(Ordering::Relaxed) < 2 && !answer.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sink.write(b"d");
        assert_eq!(answer.await.unwrap().data, b"bcd", "from its offset, although it has seen some of it");
        let impatient = v1::LogRequest { seen: 4, wait_ms: 10, ..waiting };
        assert_eq!(desk.chunk(&impatient).await.data, b"bcd");
    }

    #[tokio::test]
    async fn the_last_lines_are_found_from_the_end() {
        let (desk, outputs, _dir) = desk();
        let mut sink = outputs.open(LEASE);
        for i in 0..30_000 {
            sink.write(format!("line {i}\n").as_bytes());
        }
        let last = |lines| v1::LogRequest { tail_lines: lines, ..request(0, 1_000) };
        assert_eq!(desk.chunk(&last(2)).await.data, b"line 29998\nline 29999\n");
        sink.write(b"unfinished");
        assert_eq!(desk.chunk(&last(2)).await.data, b"line 29999\nunfinished");
        assert_eq!(desk.chunk(&last(20_000)).await.data[..12], *b"line 10001\nl");
        assert_eq!(desk.chunk(&last(u32::MAX)).await.offset, 0);
    }

    #[tokio::test]
    async fn another_run_of_the_lease_is_told_apart() {
        let (desk, outputs, _dir) = desk();
        outputs.open(LEASE).write(b"interrupted");
        let first = desk.chunk(&request(0, 100)).await;
        // A file system's clock is coarse, and some do not know when a file was made.
        let begun = std::time::Instant::now();
        loop {
            outputs.open(LEASE).write(b"again");
            let second = desk.chunk(&request(11, 100)).await;
            assert_eq!(second.data, b"");
            if first.run == 0 || first.run != second.run {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{} is still the same run", first.run);
        }
    }

    #[tokio::test]
    async fn readers_are_bounded() {
        let (desk, outputs, _dir) = desk();
        let _sink = outputs.open(LEASE);
        let waiting = v1::LogRequest { wait_ms: 20_000, ..request(0, 4) };
        for _ in 0..MAX_ANSWERS {
            let (desk, waiting) = (desk.clone(), waiting.clone());
            tokio::spawn(async move { desk.chunk(&waiting).await });
        }
        while desk.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = desk.chunk(&waiting).await;
        assert!(refused.busy && refused.error.contains("try again"), "{refused:?}");
    }
}
