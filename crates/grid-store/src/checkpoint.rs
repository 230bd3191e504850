//! Moves the WAL into the database on a thread of its own, so that no transaction waits for it.
//!
//! ```text
//!   writer --commit--> frames in the WAL --4 MiB or 1 s--> passive checkpoint here
//!                               \--64 MiB: the writer itself checkpoints and restarts the WAL
//! ```
//!
//! A passive checkpoint waits for nobody, so under steady writes it may never catch up and the WAL would grow for
//! ever: hence the cap. What fails here is logged and left: the WAL still holds the pages, and the writer meets the
//! same disk at the cap. A panic is reported to [`Alarm`], and the process ends: nobody else would move the WAL.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use crate::error::Fault;
use crate::schema;

const PAGE_BYTES: u64 = 4096;
const DUE_FRAMES: u64 = 4 * 1024 * 1024 / PAGE_BYTES;
const CAP_FRAMES: u64 = 64 * 1024 * 1024 / PAGE_BYTES;
const EVERY: Duration = Duration::from_secs(1);
/// How long the writer waits for readers when the WAL has reached its cap.
const CAP_WAIT: Duration = Duration::from_millis(250);

#[derive(Default)]
struct Shared {
    /// In the WAL after the last commit; 0 once they are all in the database.
    frames: AtomicU64,
    asked: Mutex<Asked>,
    wake: Condvar,
}

#[derive(Default)]
struct Asked {
    now: bool,
    stop: bool,
}

/// Hears why the checkpoint thread cannot go on; the store keeps it while files are replaced.
#[derive(Clone, Default)]
pub(crate) struct Alarm(Arc<Mutex<Option<Report>>>);

type Report = Box<dyn FnOnce(String) + Send>;

impl Alarm {
    pub fn set(&self, report: impl FnOnce(String) + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(report));
    }

    fn ring(&self, why: String) {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(report) => report(why),
            None => tracing::error!("the checkpoint thread of the store has ended: {why}"),
        }
    }
}

/// Ends its thread when dropped.
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The writer tries again when the WAL is this long.
    next_cap: u64,
}

impl Checkpointer {
    /// Watches the commits of `writer`.
    pub fn start(path: &Path, writer: &mut Connection, alarm: &Alarm) -> Result<Self, Fault> {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, frames: i32| {
            let frames = u64::try_from(frames).unwrap_or(0);
            watched.frames.store(frames, Ordering::Relaxed);
            if frames >= DUE_FRAMES {
                watched.asked.lock().unwrap_or_else(PoisonError::into_inner).now = true;
                watched.wake.notify_one();
            }
            Ok(())
        }))?;
        let own = schema::writer(path)?;
        let (served, alarm) = (Arc::clone(&shared), alarm.clone());
        let named = std::thread::Builder::new().name("store-checkpoint".to_owned());
        let thread = named.spawn(move || reporting_panics(&alarm, || run(&served, &own)))?;
        Ok(Self { shared, thread: Some(thread), next_cap: CAP_FRAMES })
    }

    /// After each commit: keeps the WAL within its cap. Readers that hold it back get it a quarter longer.
    pub fn keep_cap(&mut self, writer: &Connection) -> Result<(), Fault> {
        let frames = self.shared.frames.load(Ordering::Relaxed);
        if frames < self.next_cap {
            return Ok(());
        }
        writer.busy_timeout(CAP_WAIT)?;
        let busy: i64 = writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))?;
        writer.busy_timeout(schema::BUSY)?;
        self.next_cap = if busy == 0 { CAP_FRAMES } else { frames + CAP_FRAMES / 4 };
        if busy != 0 {
            tracing::warn!(frames, "readers hold back the checkpoint of the store; its WAL grows past its cap");
        }
        Ok(())
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panic was caught and reported.
            let _ = thread.join();
        }
    }
}

fn reporting_panics(alarm: &Alarm, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        alarm.ring(format!("panicked: {}", text.unwrap_or("no message")));
    }
}

fn run(shared: &Shared, own: &Connection) {
    loop {
        let asked = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |asked: &mut Asked| !asked.now && !asked.stop;
        let (mut asked, _) = shared.wake.wait_timeout_while(asked, EVERY, idle).unwrap_or_else(PoisonError::into_inner);
        if asked.stop {
            return;
        }
        asked.now = false;
        drop(asked);
        let frames = shared.frames.load(Ordering::Relaxed);
        if frames > 0 {
            match passive(own) {
                // Only if nothing was committed meanwhile.
                Ok(true) => drop(shared.frames.compare_exchange(frames, 0, Ordering::Relaxed, Ordering::Relaxed)),
                Ok(false) => {}
                Err(e) => tracing::warn!("cannot checkpoint the store, will try again: {e}"),
            }
        }
    }
}

/// Whether everything is in the database now.
fn passive(own: &Connection) -> rusqlite::Result<bool> {
    own.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (busy, frames, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && frames == moved)
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::{Alarm, CAP_FRAMES, Checkpointer, DUE_FRAMES, reporting_panics};
    use crate::schema;

    fn opened() -> (TempDir, PathBuf, Connection, Checkpointer) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("db");
        schema::create(&path, b"").unwrap();
        let mut writer = schema::writer(&path).unwrap();
        let checkpointer = Checkpointer::start(&path, &mut writer, &Alarm::default()).unwrap();
        (folder, path, writer, checkpointer)
    }

    #[test]
    fn a_panic_of_the_thread_is_reported_and_its_end_is_not() {
        let (alarm, (reports, heard)) = (Alarm::default(), std::sync::mpsc::channel());
        alarm.set(move |why| reports.send(why).unwrap());
        reporting_panics(&alarm, || ());
        assert!(heard.try_recv().is_err(), "it was asked to end");
        reporting_panics(&alarm, || panic!("no {}", "disk"));
        assert_eq!(heard.try_recv().unwrap(), "panicked: no disk");
    }

    fn write(writer: &Connection, pages: u64) {
        writer
            .execute("INSERT INTO outputs (hash, tail) VALUES (x'', zeroblob(?1))", [(pages * 4_096).cast_signed()])
            .unwrap();
    }

    #[test]
    fn what_is_committed_reaches_the_database_without_the_writer() {
        let (_folder, path, writer, checkpointer) = opened();
        let before = std::fs::metadata(&path).unwrap().len();
        write(&writer, DUE_FRAMES + 10);
        for _ in 0..6_000 {
            if checkpointer.shared.frames.load(Ordering::Relaxed) == 0 {
                assert!(std::fs::metadata(&path).unwrap().len() > before + 4 * 1024 * 1024);
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it was never checkpointed");
    }

    #[test]
    fn the_wal_begins_anew_at_its_cap_and_a_reader_only_delays_that() {
        let (_folder, path, writer, mut checkpointer) = opened();
        let reader = schema::reader(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM meta;").unwrap();
        write(&writer, 50);
        checkpointer.next_cap = 10;
        checkpointer.keep_cap(&writer).unwrap();
        assert!(checkpointer.next_cap > 10 + CAP_FRAMES / 8, "held back by the reader: later again");
        reader.execute_batch("COMMIT").unwrap();
        write(&writer, 5);
        assert!(checkpointer.shared.frames.load(Ordering::Relaxed) > 50);
        checkpointer.next_cap = 10;
        // The thread itself may be at it; then this one has to wait for its turn.
        for _ in 0..6_000 {
            checkpointer.keep_cap(&writer).unwrap();
            if checkpointer.next_cap == CAP_FRAMES {
                break;
            }
            checkpointer.next_cap = 10;
        }
        write(&writer, 5);
        assert!(checkpointer.shared.frames.load(Ordering::Relaxed) < 30, "the WAL was restarted");
    }
}
