//! Watches the room on the disk of a data folder: a reserve for the journal, and a floor below which no output is kept.
//!
//! ```text
//!   | outputs, and whatever else uses the disk | floor: no output grows into it | reserve: a file, given up for the journal |
//! ```
//!
//! A worker that cannot write its journal has to end, and cannot start again: so outputs stop before the disk is full, and what
//! others write to the disk is met by the reserve. The reserve is made again when there is room for it.
//! Both are small beside the disk: an eighth of it at most.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// Thousands of journal records, or a compaction of most journals.
const RESERVE_BYTES: u64 = 2 * 1024 * 1024;
const FLOOR_BYTES: u64 = 64 * 1024 * 1024;
const LARGEST_SHARE: u64 = 8;

/// The disk of one data folder.
#[derive(Debug, Clone)]
pub struct Space {
    folder: PathBuf,
    #[cfg(test)]
    pretended: Option<Room>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

impl Space {
    pub fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            #[cfg(test)]
            pretended: None,
        }
    }

    #[cfg(test)]
    pub fn pretended(folder: &Path, room: Room) -> Self {
        Self { folder: folder.to_owned(), pretended: Some(room) }
    }

    /// Whether `bytes` more of outputs leave the floor free. A disk that does not say counts as large.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.room().is_none_or(|room| room.free_bytes >= floor(room).saturating_add(bytes))
    }

    /// Makes the reserve if it is not there and fits. Blocks.
    pub fn reserve(&self) -> io::Result<()> {
        let path = reserve_of(&self.folder);
        let Some(room) = self.room() else { return Ok(()) };
        let bytes = RESERVE_BYTES.min(room.total_bytes / LARGEST_SHARE);
        if path.exists() || room.free_bytes < floor(room).saturating_add(bytes) {
            return Ok(());
        }
        let made = grid_folder::create(&path).and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, bytes)?));
        if made.is_err() {
            // A part of it protects nothing, and would keep a whole one from being made.
            let _ = fs::remove_file(&path);
        }
        made
    }

    fn room(&self) -> Option<Room> {
        #[cfg(test)]
        if self.pretended.is_some() {
            return self.pretended;
        }
        let found = statvfs(&self.folder).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Room { total_bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) })
    }
}

fn floor(room: Room) -> u64 {
    FLOOR_BYTES.min(room.total_bytes / LARGEST_SHARE)
}

fn reserve_of(folder: &Path) -> PathBuf {
    folder.join("reserve")
}

/// Whether an error says that the disk, or this user's share of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Does `write` once more with the reserve of `folder` given up, if the disk is full.
pub fn with_reserve<T>(folder: &Path, mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match write() {
        Err(error) if is_full(&error) && give_up_reserve(folder) => write(),
        done => done,
    }
}

/// False: there is none left.
pub fn give_up_reserve(folder: &Path) -> bool {
    let was_there = fs::remove_file(reserve_of(folder)).is_ok();
    if was_there {
        tracing::error!(
            folder = %folder.display(),
            "the disk is full; the journal goes on in its reserve, and when that is used up the worker ends: free some space"
        );
    }
    was_there
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{FLOOR_BYTES, RESERVE_BYTES, Room, Space, reserve_of, with_reserve};

    #[test]
    fn issue13_outputs_leave_a_floor_free() {
        let dir = tempfile::tempdir().unwrap();
        let large = |free_bytes| Space::pretended(dir.path(), Room { total_bytes: 1 << 40, free_bytes });
        assert!(large(FLOOR_BYTES + 10).has_room_for(10) && !large(FLOOR_BYTES + 10).has_room_for(11));
        let small = |free_bytes| Space::pretended(dir.path(), Room { total_bytes: 80, free_bytes });
        assert!(small(20).has_room_for(10) && !small(20).has_room_for(11));
    }

    #[test]
    fn issue13_the_reserve_is_made_where_it_fits_and_given_up_once() {
        let dir = tempfile::tempdir().unwrap();
        let space = |free_bytes| Space::pretended(dir.path(), Room { total_bytes: 1 << 40, free_bytes });
        let reserve = reserve_of(dir.path());
        space(FLOOR_BYTES).reserve().unwrap();
        assert!(!reserve.exists(), "it would not fit");
        space(FLOOR_BYTES + RESERVE_BYTES).reserve().unwrap();
        assert_eq!(reserve.metadata().unwrap().len(), RESERVE_BYTES);
        let mut calls = 0;
        let mut write = || {
            calls += 1;
            if calls == 1 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(calls) }
        };
        assert_eq!(with_reserve(dir.path(), &mut write).unwrap(), 2);
        assert!(!reserve.exists());
        let full = with_reserve(dir.path(), || Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull)));
        assert!(full.is_err(), "nothing is left");
    }
}
