//! Writes lines to stdout or stderr from its own thread, so that no other thread waits for the reader.
//!
//! ```text
//!   any thread --push--> queue (bounded) --> writer thread --> stdout, stderr
//!                           full: dropped, counted      cannot be written: dropped, counted
//! ```
//!
//! A full disk, a closed pipe or a stopped reader must not end or delay a controller or a worker. Lost lines are counted, and
//! the first line that can be written again is preceded by one that says how many are missing.
//! Not here: `print!` and `eprintln!`, which panic or block in such a case; nothing in this program may use them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of lines that wait for the writer.
const MAX_WAITING_BYTES: usize = 1024 * 1024;
/// Pause before the next try, for a descriptor that another process made non-blocking.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where lines are pushed; clones share the queue.
#[derive(Clone)]
pub struct Outlet(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signals that a line was pushed, or written.
    changed: Condvar,
    /// It lives as long as the process.
    writer: OnceLock<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The writer is writing a line.
    is_writing: bool,
    /// Lines lost since the last note about lost lines.
    dropped: u64,
}

impl Outlet {
    pub fn stdout() -> Self {
        Self::to(io::stdout().as_fd().try_clone_to_owned())
    }

    pub fn stderr() -> Self {
        Self::to(io::stderr().as_fd().try_clone_to_owned())
    }

    /// Uses its own descriptor: the standard library's handles are locked while another thread writes.
    fn to(descriptor: io::Result<std::os::fd::OwnedFd>) -> Self {
        match descriptor {
            Ok(descriptor) => Self::start(File::from(descriptor)),
            // Without a descriptor every line is dropped.
            Err(_) => Self(Arc::default()),
        }
    }

    fn start(to: impl Write + Send + 'static) -> Self {
        let outlet = Self(Arc::default());
        let shared = Arc::clone(&outlet.0);
        let writer = std::thread::Builder::new().name("output".to_owned()).spawn(move || shared.write_all_to(to));
        // Without a thread the queue fills, and then lines are dropped.
        if let Ok(writer) = writer {
            outlet.0.writer.get_or_init(|| writer);
        }
        outlet
    }

    /// Queues one or several whole lines, or drops them. Never waits for a reader.
    pub fn push(&self, lines: &[u8]) {
        let mut queue = self.0.lock();
        if queue.bytes + lines.len() > MAX_WAITING_BYTES {
            queue.dropped += 1;
            return;
        }
        queue.bytes += lines.len();
        queue.lines.push_back(lines.to_vec());
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Waits until every line was written or dropped, for `limit` at most.
    pub fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut queue = self.0.lock();
        while queue.is_writing || !queue.lines.is_empty() {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all_to(&self, mut to: impl Write) {
        let mut is_cut = false;
        loop {
            let (line, dropped) = self.next();
            let lost = self.write(&mut to, &line, dropped, &mut is_cut);
            let mut queue = self.lock();
            queue.is_writing = false;
            queue.dropped += lost;
            drop(queue);
            self.changed.notify_all();
        }
    }

    fn next(&self) -> (Vec<u8>, u64) {
        let mut queue = self.lock();
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.len();
                queue.is_writing = true;
                return (line, std::mem::take(&mut queue.dropped));
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns how many lines were lost, `dropped` included unless a note about them was written. `is_cut`: the last write
    /// ended within a line.
    fn write(&self, to: &mut impl Write, line: &[u8], dropped: u64, is_cut: &mut bool) -> u64 {
        let mut text = Vec::new();
        if *is_cut {
            text.push(b'\n');
        }
        if dropped > 0 {
            text.extend_from_slice(format!("grid: {dropped} lines before this one could not be written\n").as_bytes());
        }
        text.extend_from_slice(line);
        match write_whole(to, &text) {
            Ok(()) => {
                *is_cut = false;
                0
            }
            Err(written) => {
                *is_cut = if written == 0 { *is_cut } else { text[written - 1] != b'\n' };
                dropped + 1
            }
        }
    }
}

/// The error is how many bytes were written.
fn write_whole(to: &mut impl Write, text: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while written < text.len() {
        match to.write(&text[written..]) {
            Ok(0) => return Err(written),
            Ok(n) => written += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(LOOK_AGAIN),
            Err(_) => return Err(written),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{self, PipeReader, Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::{MAX_WAITING_BYTES, Outlet};

    const LIMIT: Duration = Duration::from_secs(60);

    /// A disk that is full for a while, after the first bytes of a line.
    #[derive(Clone, Default)]
    struct Disk {
        is_full: Arc<AtomicBool>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_full.load(Ordering::SeqCst) {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            let taken = bytes.len().min(4);
            self.written.lock().unwrap().extend_from_slice(&bytes[..taken]);
            if bytes.starts_with(b"half") {
                self.is_full.store(true, Ordering::SeqCst);
            }
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn issue13_lines_that_cannot_be_written_are_counted_and_the_next_one_says_so() {
        let disk = Disk::default();
        let outlet = Outlet::start(disk.clone());
        for line in ["one\n", "half a line\n", "two\n", "three\n"] {
            outlet.push(line.as_bytes());
            outlet.flush(LIMIT);
        }
        disk.is_full.store(false, Ordering::SeqCst);
        outlet.push(b"four\n");
        outlet.flush(LIMIT);
        let written = String::from_utf8(disk.written.lock().unwrap().clone()).unwrap();
        assert_eq!(written, "one\nhalf\ngrid: 3 lines before this one could not be written\nfour\n");
    }

    fn read(reader: &mut PipeReader) -> String {
        let mut bytes = vec![0; 65_536];
        let n = reader.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    #[test]
    fn issue13_a_reader_that_has_stopped_costs_lines_and_no_time() {
        let (mut reader, writer) = io::pipe().unwrap();
        let outlet = Outlet::start(writer);
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        for _ in 0..2 * MAX_WAITING_BYTES / line.len() {
            outlet.push(&line);
        }
        outlet.flush(Duration::from_millis(1));
        let mut all = String::new();
        while !all.contains("could not be written") {
            all.push_str(&read(&mut reader));
            // Drained by now or not: the note comes with the first line after those that were queued.
            outlet.push(b"last\n");
        }
    }

    #[test]
    fn issue13_a_closed_pipe_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let outlet = Outlet::start(writer);
        outlet.push(b"no reader\n");
        outlet.flush(LIMIT);
    }
}
