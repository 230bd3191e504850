//! Answers to a controller that asks for the output of a lease: at most so many bytes of it, as soon as there are new ones.
//!
//! Each request is answered by one chunk and forgotten. Nothing here remembers a reader: one that goes away just does not
//! ask again, and one that is slow asks later.
//! Bounds: [`MAX_ANSWERS`] at a time, [`MAX_BYTES`] each, [`MAX_WAIT`] long; as many requests again are answered that this worker is
//! busy, and what is beyond that is not answered.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use grid_fabric::{Credential, Link};
use grid_proto::v1;
use grid_tasks::Tasks;
use grid_types::LeaseKey;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::data_dir::output::{Live, Look, Outputs, Wanted};

const MAX_ANSWERS: usize = 64;
const MAX_BYTES: usize = 256 * 1024;
const MAX_WAIT: Duration = Duration::from_secs(30);
/// After something was written, more may follow at once: what comes within this time is one answer.
const GATHER: Duration = Duration::from_millis(50);

/// Answers requests, a bounded number at a time.
#[derive(Clone)]
pub(crate) struct LogAnswers {
    outputs: Arc<Outputs>,
    places: Arc<Semaphore>,
    /// One for each request that is not answered yet.
    requests: Arc<Semaphore>,
    tasks: Tasks,
    /// How often an output was looked at.
    #[cfg(test)]
    looks: Arc<std::sync::atomic::AtomicUsize>,
}

impl LogAnswers {
    pub(crate) fn new(outputs: Arc<Outputs>, tasks: Tasks) -> Self {
        Self {
            outputs,
            places: Arc::new(Semaphore::new(MAX_ANSWERS)),
            requests: Arc::new(Semaphore::new(2 * MAX_ANSWERS)),
            tasks,
            #[cfg(test)]
            looks: Arc::default(),
        }
    }

    pub(crate) fn answer(&self, link: impl Link, credential: Credential, request: v1::LogRequest) {
        let Ok(request_place) = Arc::clone(&self.requests).try_acquire_owned() else {
            tracing::debug!("too many requests for outputs: one is not answered");
            return;
        };
        let answers = self.clone();
        self.tasks.start_request("log-answer", async move {
            let _request_place = request_place;
            let chunk = answers.chunk(&request).await;
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
        let wanted = wanted(request);
        let gone = |error| gone(&lease, &error);
        let Some(live) = self.outputs.live(&lease) else {
            let (look, run) = self.look_into_file(lease, wanted).await.map_err(gone)?;
            return Ok(v1::LogChunk { offset: look.offset, data: look.data, run, ..Default::default() });
        };
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms.into()).min(MAX_WAIT);
        loop {
            // Both before it is looked at: what is written after that, or before the lease closes, is then never missed.
            let mut changed = pin!(live.changed());
            changed.as_mut().enable();
            let open = live.is_open();
            let waits = open && Instant::now() < deadline;
            match self.look(lease, &live, wanted).await {
                Ok((look, run)) if look.is_new || !waits => {
                    return Ok(v1::LogChunk { offset: look.offset, data: look.data, open, run, ..Default::default() });
                }
                Ok(_) => {}
                // It has not said anything yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound && waits => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && open => {
                    return Ok(v1::LogChunk { offset: request.offset, open, ..Default::default() });
                }
                Err(error) => return Err(gone(error)),
            }
            tokio::select! {
                () = changed => if live.is_open() {
                    tokio::time::sleep_until(deadline.min(Instant::now() + GATHER)).await;
                },
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    async fn look(&self, lease: LeaseKey, live: &Live, wanted: Wanted) -> io::Result<(Look, u64)> {
        #[cfg(test)]
        self.looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match live.whole() {
            Some(bytes) if bytes.get_ref().is_empty() => Err(io::ErrorKind::NotFound.into()),
            Some(mut bytes) => Ok((wanted.read(&mut bytes)?, live.run())),
            None => self.look_into_file(lease, wanted).await,
        }
    }

    async fn look_into_file(&self, lease: LeaseKey, wanted: Wanted) -> io::Result<(Look, u64)> {
        let outputs = Arc::clone(&self.outputs);
        let look = move || {
            let (mut file, run) = outputs.open_file(&lease)?;
            Ok((wanted.read(&mut file)?, run))
        };
        tokio::task::spawn_blocking(look).await.map_err(io::Error::other)?
    }
}

fn wanted(request: &v1::LogRequest) -> Wanted {
    let v1::LogRequest { offset, seen, tail_lines, .. } = *request;
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX).clamp(1, MAX_BYTES);
    Wanted { offset, seen, tail_lines, limit }
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

    use super::{LogAnswers, MAX_ANSWERS};
    use crate::data_dir::output::Outputs;
    use grid_proto::v1;
    use grid_tasks::Tasks;
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };

    const STARTED_AT_MS: u64 = 1_790_000_000_000;

    fn log_answers() -> (LogAnswers, Arc<Outputs>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let outputs = Arc::new(Outputs::new(dir.path()));
        (LogAnswers::new(Arc::clone(&outputs), Tasks::default()), outputs, dir)
    }

    fn request(offset: u64, limit: u32) -> v1::LogRequest {
        v1::LogRequest { lease: Some(LEASE.into()), offset, limit, seen: offset, ..Default::default() }
    }

    #[tokio::test]
    async fn an_answer_has_at_most_what_was_asked_for_and_says_whether_more_may_come() {
        let (answers, outputs, _dir) = log_answers();
        let sink = outputs.open(LEASE, STARTED_AT_MS);
        assert_eq!(answers.chunk(&request(0, 4)).await.data, b"");
        sink.write(b"abcdef");
        let first = answers.chunk(&request(0, 4)).await;
        assert_eq!((first.data.as_slice(), first.open, first.end), (b"abcd".as_slice(), true, true));
        drop(sink);
        let rest = answers.chunk(&request(4, 4)).await;
        assert_eq!((rest.data.as_slice(), rest.open, rest.run), (b"ef".as_slice(), false, first.run));
        assert_ne!(answers.chunk(&v1::LogRequest { lease: None, ..request(0, 4) }).await.error, "");
    }

    #[tokio::test]
    async fn a_reader_that_has_seen_everything_waits_for_more_and_no_longer_than_it_said() {
        let (answers, outputs, _dir) = log_answers();
        let sink = outputs.open(LEASE, STARTED_AT_MS);
        sink.write(b"abc");
        let waiting = v1::LogRequest { seen: 3, wait_ms: 20_000, ..request(1, 100) };
        let (other, asked) = (answers.clone(), waiting.clone());
        let answer = tokio::spawn(async move { other.chunk(&asked).await });
        // It has looked and gone on to wait.
        while answers.looks.load(Ordering::Relaxed) < 1 && !answer.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sink.write(b"d");
        assert_eq!(answer.await.unwrap().data, b"bcd", "from its offset, although it has seen some of it");
        let impatient = v1::LogRequest { seen: 4, wait_ms: 10, ..waiting };
        assert_eq!(answers.chunk(&impatient).await.data, b"bcd");
    }

    #[tokio::test]
    async fn the_last_lines_are_found_from_the_end() {
        let (answers, outputs, _dir) = log_answers();
        let sink = outputs.open(LEASE, STARTED_AT_MS);
        for i in 0..30_000 {
            sink.write(format!("line {i}\n").as_bytes());
        }
        let last = |lines| v1::LogRequest { tail_lines: lines, ..request(0, 1_000) };
        assert_eq!(answers.chunk(&last(2)).await.data, b"line 29998\nline 29999\n");
        sink.write(b"unfinished");
        assert_eq!(answers.chunk(&last(2)).await.data, b"line 29999\nunfinished");
        assert_eq!(answers.chunk(&last(20_000)).await.data[..12], *b"line 10001\nl");
        assert_eq!(answers.chunk(&last(u32::MAX)).await.offset, 0);
    }

    #[tokio::test]
    async fn another_run_of_the_lease_is_told_apart() {
        let (answers, outputs, _dir) = log_answers();
        outputs.open(LEASE, STARTED_AT_MS).write(b"interrupted");
        let first = answers.chunk(&request(0, 100)).await;
        outputs.open(LEASE, STARTED_AT_MS + 1).write(b"again");
        let second = answers.chunk(&request(11, 100)).await;
        assert_eq!((second.data.as_slice(), second.run), (b"".as_slice(), first.run + 1_000_000));
    }

    #[tokio::test]
    async fn an_output_keeps_its_run_when_it_moves_from_memory_to_its_file_and_after_a_restart() {
        let (answers, outputs, dir) = log_answers();
        let sink = outputs.open(LEASE, STARTED_AT_MS);
        sink.write(b"first");
        let first = answers.chunk(&request(0, 100)).await;
        sink.write(&[b'x'; 100_000]);
        let second = answers.chunk(&request(5, 100)).await;
        drop(sink);
        let ended = answers.chunk(&request(5, 100)).await;
        let restarted =
            LogAnswers::new(Arc::new(Outputs::new(dir.path())), Tasks::default()).chunk(&request(5, 100)).await;
        assert_eq!([second.run, ended.run, restarted.run], [first.run; 3]);
        assert_eq!((second.open, ended.open, restarted.data.len()), (true, false, 100));
    }

    #[tokio::test]
    async fn a_short_output_is_answered_from_memory_after_its_lease_has_ended() {
        let (answers, outputs, dir) = log_answers();
        outputs.open(LEASE, STARTED_AT_MS).write(b"short");
        let ended = answers.chunk(&request(0, 100)).await;
        assert_eq!((ended.data.as_slice(), ended.open, ended.error.as_str()), (b"short".as_slice(), false, ""));
        assert!(!dir.path().join("output").exists(), "it never was on the disk");
        assert_eq!(outputs.discard(&[LEASE]), []);
        assert!(answers.chunk(&request(0, 100)).await.error.contains("no output"));
    }

    #[tokio::test]
    async fn readers_are_bounded() {
        let (answers, outputs, _dir) = log_answers();
        let _sink = outputs.open(LEASE, STARTED_AT_MS);
        let waiting = v1::LogRequest { wait_ms: 20_000, ..request(0, 4) };
        for _ in 0..MAX_ANSWERS {
            let (answers, waiting) = (answers.clone(), waiting.clone());
            tokio::spawn(async move { answers.chunk(&waiting).await });
        }
        while answers.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = answers.chunk(&waiting).await;
        assert!(refused.busy && refused.error.contains("try again"), "{refused:?}");
    }
}
