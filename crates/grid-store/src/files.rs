//! Creates and checks the SQLite file, and makes a copy of it durable.
//!
//! A file is judged by its header's bytes before SQLite opens it: opening a foreign database could already change it
//! (recover its WAL, checkpoint it). That works because a new file gets its header before it gets its name: it is
//! made under another one, fsynced and renamed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::{Fault, StoreError};
use crate::schema::{self, APPLICATION_ID, VERSION};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: u64 = 100;
/// Offsets of SQLite's file format, big endian.
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// Whether there is a store at `path`. A file that is not one, or is one of another version, is an error, and stays untouched.
pub(crate) fn recognise(path: &Path) -> Result<bool, StoreError> {
    let failed = |e: std::io::Error| Fault::from(e).at(path, "read");
    let file = match grid_folder::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(failed(e)),
    };
    let mut header = Vec::new();
    file.take(HEADER_BYTES).read_to_end(&mut header).map_err(failed)?;
    let number = |at: usize| header.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    if !header.starts_with(MAGIC) || number(APPLICATION_ID_AT) != Some(APPLICATION_ID) {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    match number(USER_VERSION_AT) {
        Some(VERSION) => Ok(true),
        Some(found) if found > VERSION => Err(StoreError::Newer { path: path.to_owned(), found, known: VERSION }),
        Some(found @ 1..VERSION) => Err(StoreError::Older { path: path.to_owned(), found, known: VERSION }),
        other => {
            let problem = format!("its version is {other:?}");
            Err(StoreError::Damaged { path: path.to_owned(), problem })
        }
    }
}

/// Whether it is a store that an older grid wrote.
pub(crate) fn is_older(path: &Path) -> bool {
    matches!(recognise(path), Err(StoreError::Older { .. }))
}

/// Makes an empty store at `path`, where none is.
pub(crate) fn make(path: &Path, meta: &[u8]) -> Result<(), Fault> {
    let unfinished = beside(path, ".new");
    remove_with_companions(&unfinished)?;
    schema::create(&unfinished, meta)?;
    // A WAL that outlived its database would be replayed into the new one.
    remove_companions(path)?;
    publish(&unfinished, path)
}

/// Gives a finished file its name, durably.
pub(crate) fn publish(from: &Path, to: &Path) -> Result<(), Fault> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_folder(to)
}

pub(crate) fn sync_folder(of: &Path) -> Result<(), Fault> {
    let folder = match of.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()?;
    Ok(())
}

pub(crate) fn remove_with_companions(path: &Path) -> Result<(), Fault> {
    remove(path)?;
    remove_companions(path)
}

pub(crate) fn remove_companions(path: &Path) -> Result<(), Fault> {
    ["-wal", "-shm", "-journal"].iter().try_for_each(|end| remove(&beside(path, end)))
}

fn remove(path: &Path) -> Result<(), Fault> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}

pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}
