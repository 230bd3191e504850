//! The writing end of one output.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use grid_types::LeaseKey;

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

/// Takes everything a lease says. Never fails: an output that cannot be written must not fail the lease.
#[derive(Debug)]
pub struct Sink {
    outputs: Arc<Outputs>,
    lease: LeaseKey,
    path: PathBuf,
    file: Target,
    cap_bytes: u64,
    tail_bytes: usize,
    total_bytes: u64,
    tail: VecDeque<u8>,
    cut: Option<Cut>,
}

#[derive(Debug)]
enum Target {
    Unopened,
    Open(File),
    /// Full, or the disk refused; the rest is only counted.
    Closed,
}

impl Sink {
    pub(super) fn new(
        outputs: Arc<Outputs>,
        lease: LeaseKey,
        path: PathBuf,
        cap_bytes: u64,
        tail_bytes: usize,
    ) -> Self {
        let (file, tail) = (Target::Unopened, VecDeque::new());
        Self { outputs, lease, path, file, cap_bytes, tail_bytes, total_bytes: 0, tail, cut: None }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let room = usize::try_from(self.cap_bytes.saturating_sub(self.total_bytes)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        self.total_bytes += bytes.len() as u64;
        if self.cut.is_none() {
            let over = (kept.len() < bytes.len()).then_some(Cut::Limit);
            if let Err(error) = self.keep(kept, over) {
                tracing::warn!(lease = %self.lease, %error, "the rest of this output is not kept");
                self.close(Cut::Disk);
            }
        }
        let fresh = &bytes[bytes.len().saturating_sub(self.tail_bytes)..];
        let surplus = (self.tail.len() + fresh.len()).saturating_sub(self.tail_bytes);
        self.tail.drain(..surplus);
        self.tail.extend(fresh);
    }

    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Whether some of it is kept nowhere: neither in the file nor in the last bytes.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.cut.is_some() && self.total_bytes > self.tail.len() as u64
    }

    /// The last bytes; a note first if what was before them is not kept. Together as many as were asked for: a controller
    /// takes no more.
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        let note = self.cut.filter(|_| self.is_truncated()).map_or("", Cut::note_before_tail);
        let surplus = (note.len() + self.tail.len()).saturating_sub(self.tail_bytes);
        note.bytes().chain(self.tail.iter().copied().skip(surplus)).collect()
    }

    fn keep(&mut self, kept: &[u8], over: Option<Cut>) -> io::Result<()> {
        if !self.outputs.has_room_for(kept.len() as u64) {
            tracing::warn!(lease = %self.lease, "the disk is short of space; the rest of this output is not kept");
            self.close(Cut::Disk);
            return Ok(());
        }
        if matches!(self.file, Target::Unopened) {
            self.file = Target::Open(self.outputs.create(&self.path)?);
        }
        if let Target::Open(file) = &mut self.file {
            file.write_all(kept)?;
        }
        if let Some(cut) = over {
            self.close(cut);
        }
        Ok(())
    }

    fn close(&mut self, cut: Cut) {
        if let Target::Open(file) = &mut self.file {
            // There is nobody to tell if even this does not fit.
            let _ = file.write_all(cut.note().as_bytes());
        }
        self.cut = Some(cut);
        self.file = Target::Closed;
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.outputs.close(&self.lease);
    }
}
