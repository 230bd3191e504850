//! Records how far the log was flushed: what tells a log that lost entries from one that was merely cut short by a crash.
//!
//! ```text
//!   raft-log.mark = offset u64, first 8 bytes of its BLAKE3; big-endian, rewritten in place after every flush
//! ```
//!
//! L3: what was acknowledged lies below the mark of a process that was killed: the mark is written after the fdatasync
//! and before anyone hears of it. It is not fsynced itself, so a power cut may leave an older one, never a newer: the log
//! must reach at least as far as the mark says, always. Offsets are `raft-log`'s: they count bytes ever written, and
//! never fall, whatever is truncated or purged.
//! Not here: what is done about a log that falls short (`check`).
//! A mark that cannot be read proves nothing and is not an error: the log may be whole. One that cannot be written is
//! only logged: everything it would say is in the log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BYTES: usize = 16;

#[derive(Debug)]
pub struct Mark(File);

impl Mark {
    /// Opens the mark at `path`, or makes one that says nothing yet.
    pub fn open(path: &Path) -> io::Result<Self> {
        grid_folder::update(path).map(Self)
    }

    pub fn set(&self, flushed_to: u64) {
        if let Err(e) = self.0.write_all_at(&encode(flushed_to), 0) {
            tracing::warn!("cannot note how far the log was flushed: {e}");
        }
    }
}

/// `None` if there is none, or none that can be believed.
pub fn read(path: &Path) -> Option<u64> {
    let bytes = grid_folder::read(path).ok()?;
    let offset = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    (bytes == encode(offset)).then_some(offset)
}

fn encode(offset: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes[8..].copy_from_slice(&blake3::hash(&offset.to_be_bytes()).as_bytes()[..8]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Mark, read};

    #[test]
    fn a_mark_comes_back_or_says_nothing() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("mark");
        assert_eq!(read(&path), None);
        let mark = Mark::open(&path).expect("opens");
        assert_eq!(read(&path), None);
        for offset in [0, 7, u64::MAX] {
            mark.set(offset);
            assert_eq!(read(&path), Some(offset));
        }
        let sound = std::fs::read(&path).expect("read");
        for at in 0..sound.len() {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            std::fs::write(&path, &flipped).expect("write");
            assert_eq!(read(&path), None, "a flip at {at}");
            std::fs::write(&path, &sound[..at]).expect("write");
            assert_eq!(read(&path), None, "a cut at {at}");
        }
    }
}
