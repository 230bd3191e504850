//! Proves that the store is, byte for byte, what it was when it was closed in order (the seal).
//!
//! ```text
//!   open (sealed) --first write--> no seal --closed in order--> sealed
//!                                     \--kill, power cut, damage--> not sealed: rebuilt from snapshot and log
//! ```
//!
//! SQLite notices damage to its structure, not to a value. The log and the snapshots have checksums, so a store without
//! a seal is not repaired or believed but made again from them (L5), which costs seconds and can lose nothing: an entry
//! is in the log before it is applied (L3).
//! The seal goes, fsynced, before the first write: it never speaks for a file that was changed since.
//! Not here: a checksum of the seal itself; one that was damaged matches nothing.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{Fault, StoreError};
use crate::files;

/// Whether the store at `path` was closed in order, by a grid that had these tables, and is unchanged since. Reads all of it.
pub fn is_sealed(path: &Path) -> Result<bool, StoreError> {
    let failed = |e: io::Error| Fault::from(e).at(path, "read");
    // One that an older grid closed in order is no use either.
    if has_wal(path) || files::is_older(path) {
        return Ok(false);
    }
    let seal = match grid_folder::read(&seal_of(path)) {
        Ok(seal) => seal,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(failed(e)),
    };
    match text(path) {
        Ok(text) => Ok(seal == text.as_bytes()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(failed(e)),
    }
}

/// After the last connection was closed.
pub(crate) fn put(path: &Path) -> Result<(), Fault> {
    if has_wal(path) {
        return Err(io::Error::other("another process has it open").into());
    }
    File::open(path)?.sync_all()?;
    let unfinished = files::beside(path, ".seal.new");
    let mut file = grid_folder::create(&unfinished)?;
    file.write_all(text(path)?.as_bytes())?;
    drop(file);
    files::publish(&unfinished, &seal_of(path))
}

/// Durably: nothing may be written to the store before this returns.
pub(crate) fn remove(path: &Path) -> Result<(), Fault> {
    match fs::remove_file(seal_of(path)) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e.into()),
        Ok(()) => files::sync_folder(path),
    }
}

/// What is in it would change the file as soon as it is opened.
fn has_wal(path: &Path) -> bool {
    fs::metadata(files::beside(path, "-wal")).is_ok_and(|wal| wal.len() > 0)
}

fn seal_of(path: &Path) -> PathBuf {
    files::beside(path, ".seal")
}

fn text(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(&mut grid_folder::open(path)?, &mut hasher)?;
    Ok(format!("grid store, {bytes} bytes, blake3 {}\n", hasher.finalize().to_hex()))
}
