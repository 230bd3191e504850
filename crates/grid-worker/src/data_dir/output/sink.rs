//! Collects one output while its lease runs: all of it in memory while it is short, then a file with its beginning and its last bytes in memory.
//!
//! ```text
//!   in memory --longer than a result takes, or its lease has run for a while--> file --limit, disk short--> cut
//!       |                                                                        |                          |
//!       '------------------------- closed: with the result ----------------------'--- closed: in the file --'
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grid_types::LeaseKey;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Outputs;

/// Why the rest of an output is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Limit,
    Disk,
}

impl Cut {
    fn note(self) -> &'static str {
        match self {
            Self::Limit => "\n[grid: output beyond this point was dropped: the limit for one lease is reached]\n",
            Self::Disk => "\n[grid: output beyond this point was dropped: the disk of this worker is short of space]\n",
        }
    }

    /// Before the last bytes, if there were others between them and what is kept.
    fn note_before_tail(self) -> &'static str {
        match self {
            Self::Limit => "[grid: output before this point was dropped: the limit for one lease was reached]\n",
            Self::Disk => "[grid: output before this point was dropped: the disk of this worker is short of space]\n",
        }
    }
}

/// What a lease of this process has written, for those who read it.
#[derive(Debug)]
pub(crate) struct Live {
    /// Tells it from an output of the same lease that ran before: when it started, in ns since 1970.
    run: u64,
    state: Mutex<State>,
    /// More was written, or nothing more will be.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    is_open: bool,
    target: Target,
    total_bytes: u64,
    tail: VecDeque<u8>,
    cut: Option<Cut>,
}

#[derive(Debug)]
enum Target {
    /// The tail is all there is.
    Memory,
    File(File),
    /// Full, or the disk refused; the rest is only counted. Whether there is a file with the beginning.
    Closed {
        has_file: bool,
    },
}

impl Live {
    pub(super) fn new(run: u64) -> Arc<Self> {
        Self::with(
            run,
            State { is_open: true, target: Target::Memory, total_bytes: 0, tail: VecDeque::new(), cut: None },
        )
    }

    /// An output that an earlier process left in its journal.
    pub(super) fn closed(run: u64, bytes: Vec<u8>) -> Arc<Self> {
        let total_bytes = bytes.len() as u64;
        Self::with(run, State { is_open: false, target: Target::Memory, total_bytes, tail: bytes.into(), cut: None })
    }

    fn with(run: u64, state: State) -> Arc<Self> {
        Arc::new(Self { run, state: Mutex::new(state), changed: Notify::new() })
    }

    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// Whether more may still come.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().is_open
    }

    /// Resolves at the next change after it was enabled.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// All of it, unless it has a file or was cut.
    pub(crate) fn whole(&self) -> Option<Cursor<Vec<u8>>> {
        let state = self.lock();
        state.is_whole_in_memory().then(|| Cursor::new(state.tail.iter().copied().collect()))
    }

    /// Nothing more comes, and no file has it.
    pub(super) fn is_kept_in_memory(&self) -> bool {
        let state = self.lock();
        !state.is_open && state.is_whole_in_memory() && state.total_bytes > 0
    }

    pub(super) fn has_file(&self) -> bool {
        matches!(self.lock().target, Target::File(_) | Target::Closed { has_file: true })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_whole_in_memory(&self) -> bool {
        !matches!(self.target, Target::File(_)) && self.total_bytes == self.tail.len() as u64
    }

    /// Whether some of it is kept nowhere: neither in the file nor in the last bytes.
    fn is_truncated(&self) -> bool {
        self.cut.is_some() && self.total_bytes > self.tail.len() as u64
    }

    fn close(&mut self, cut: Cut) {
        let has_file = match &mut self.target {
            Target::File(file) => {
                // There is nobody to tell if even this does not fit.
                let _ = file.write_all(cut.note().as_bytes());
                true
            }
            Target::Memory => false,
            Target::Closed { has_file } => *has_file,
        };
        self.cut = Some(cut);
        self.target = Target::Closed { has_file };
    }
}

/// How an output ended.
#[derive(Debug, PartialEq, Eq)]
pub struct OutputEnd {
    pub total_bytes: u64,
    /// Some of it is kept nowhere.
    pub truncated: bool,
    pub tail: Vec<u8>,
}

/// Takes everything a lease says. Never fails: an output that cannot be written must not fail the lease.
#[derive(Debug)]
pub struct Sink {
    outputs: Arc<Outputs>,
    lease: LeaseKey,
    live: Arc<Live>,
    cap_bytes: u64,
    tail_bytes: usize,
}

impl Sink {
    pub(super) fn new(
        outputs: Arc<Outputs>,
        lease: LeaseKey,
        live: Arc<Live>,
        cap_bytes: u64,
        tail_bytes: usize,
    ) -> Self {
        Self { outputs, lease, live, cap_bytes, tail_bytes }
    }

    pub fn write(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.live.lock();
        let room = usize::try_from(self.cap_bytes.saturating_sub(state.total_bytes)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        let over = (kept.len() < bytes.len()).then_some(Cut::Limit);
        let fits = over.is_none() && state.tail.len() + bytes.len() <= self.tail_bytes;
        if state.cut.is_none() && !(fits && matches!(state.target, Target::Memory)) {
            self.put(&mut state, kept);
            if let (Some(cut), None) = (over, state.cut) {
                state.close(cut);
            }
        }
        state.total_bytes += bytes.len() as u64;
        let fresh = &bytes[bytes.len().saturating_sub(self.tail_bytes)..];
        let surplus = (state.tail.len() + fresh.len()).saturating_sub(self.tail_bytes);
        state.tail.drain(..surplus);
        state.tail.extend(fresh);
        drop(state);
        self.live.changed.notify_waiters();
    }

    /// From here on what was written is in the file, too: the lease runs for so long that the end of this process must not take it along.
    pub fn keep_in_file(&self) {
        let mut state = self.live.lock();
        if matches!(state.target, Target::Memory) && state.total_bytes > 0 {
            self.put(&mut state, &[]);
        }
    }

    /// What a result says of it.
    #[must_use]
    pub fn end(&self) -> OutputEnd {
        let state = self.live.lock();
        let truncated = state.is_truncated();
        // A note first if what was before is not kept; together as many bytes as were asked for: a controller takes no more.
        let note = state.cut.filter(|_| truncated).map_or("", Cut::note_before_tail);
        let surplus = (note.len() + state.tail.len()).saturating_sub(self.tail_bytes);
        let tail = note.bytes().chain(state.tail.iter().copied().skip(surplus)).collect();
        OutputEnd { total_bytes: state.total_bytes, truncated, tail }
    }

    /// Writes to the file, which is made with what was in memory first.
    fn put(&self, state: &mut State, bytes: &[u8]) {
        if let Err(error) = self.try_put(state, bytes) {
            tracing::warn!(lease = %self.lease, %error, "the rest of this output is not kept");
            state.close(Cut::Disk);
        }
    }

    fn try_put(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        let new = if matches!(state.target, Target::Memory) { state.tail.len() } else { 0 };
        if !self.outputs.has_room_for((new + bytes.len()) as u64) {
            tracing::warn!(lease = %self.lease, "the disk is short of space; the rest of this output is not kept");
            state.close(Cut::Disk);
            return Ok(());
        }
        if matches!(state.target, Target::Memory) {
            state.target = Target::File(self.outputs.create(&self.lease, self.live.run)?);
        }
        let State { target: Target::File(file), tail, .. } = state else { return Ok(()) };
        if new > 0 {
            file.write_all(tail.make_contiguous())?;
        }
        file.write_all(bytes)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.live.lock().is_open = false;
        self.outputs.closed(&self.lease, &self.live);
        self.live.changed.notify_waiters();
    }
}
