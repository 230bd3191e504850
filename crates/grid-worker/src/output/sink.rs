//! The writing end of one output.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use grid_types::LeaseKey;

use super::Outputs;

const NOTE: &str = "\n[grid: output beyond this point was dropped: the limit for one lease is reached]\n";

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
        Self { outputs, lease, path, file, cap_bytes, tail_bytes, total_bytes: 0, tail }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let room = usize::try_from(self.cap_bytes.saturating_sub(self.total_bytes)).unwrap_or(usize::MAX);
        let kept = &bytes[..bytes.len().min(room)];
        self.total_bytes += bytes.len() as u64;
        let written = self.keep(kept, kept.len() < bytes.len());
        if let Err(error) = written {
            tracing::warn!(lease = %self.lease, %error, "the rest of this output is not kept");
            self.file = Target::Closed;
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

    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        self.tail.iter().copied().collect()
    }

    fn keep(&mut self, kept: &[u8], full: bool) -> io::Result<()> {
        if matches!(self.file, Target::Unopened) {
            self.file = Target::Open(self.outputs.create(&self.path)?);
        }
        if let Target::Open(file) = &mut self.file {
            file.write_all(kept)?;
            if full {
                file.write_all(NOTE.as_bytes())?;
                self.file = Target::Closed;
            }
        }
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.outputs.close(&self.lease);
    }
}
