//! Opens what a restore can be made from: a backup, a snapshot, the store of a folder whose log is damaged, or that folder.
//!
//! A backup proves itself by its hashes. A bare SQLite file cannot: it must pass SQLite's own check and rebuild into a
//! `State`, and its WAL, if there is one, counts. The source is only read, never changed: it may be the last copy.
//! Not here: the folder that comes out of it (`grid-controller`).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use grid_core::{FEATURE_LEVEL, State};
use rusqlite::Connection;

use crate::backup::{self, BackupInfo};
use crate::error::{Fault, StoreError};
use crate::files;
use crate::load;
use crate::schema;
use crate::store::check_level;

/// Brings the state that is in `source` (a backup, or a SQLite file of grid) to `to`, where nothing may be, with
/// `membership` as the one of the log that goes on behind it. Everything is checked first; after an error nothing is
/// left at `to`.
pub fn unpack(
    source: &Path,
    to: &Path,
    membership: impl FnOnce(&BackupInfo) -> Vec<u8>,
) -> Result<BackupInfo, StoreError> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(Fault::from(io::Error::from(ErrorKind::AlreadyExists)).at(to, "unpack to"));
    }
    let unpacked = bring(source, to).and_then(|told| settle(source, to, told, membership));
    if unpacked.is_err() {
        // The first error is the one to report.
        let _ = files::remove_with_companions(to);
    }
    unpacked
}

/// What the store at `path` holds, if it is sound by SQLite's own check. Nothing is written to it.
pub fn peek(path: &Path) -> Result<BackupInfo, StoreError> {
    let failed = |e: Fault| e.at(path, "read");
    if !files::recognise(path)? {
        return Err(failed(io::Error::from(ErrorKind::NotFound).into()));
    }
    let conn = schema::reader(path).map_err(failed)?;
    check(&conn).and_then(|()| backup::describe(&conn)).map_err(failed)
}

/// Returns what a backup says of itself; a bare store says nothing.
fn bring(source: &Path, to: &Path) -> Result<Option<BackupInfo>, StoreError> {
    let unreadable = |e: io::Error| Fault::from(e).at(source, "read");
    let mut file = File::open(source).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(bad(source, "it is a folder; name a backup, or a snapshot or state.sqlite within it"));
    }
    let mut magic = Vec::new();
    (&mut file).take(backup::MAGIC.len() as u64).read_to_end(&mut magic).map_err(unreadable)?;
    if magic == backup::MAGIC {
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let (info, state) = backup::read_front(source, &mut file)?;
        let mut out = grid_folder::create_new(to).map_err(|e| Fault::from(e).at(to, "create"))?;
        state.copy(source, &mut file, &mut out)?;
        return Ok(Some(info));
    }
    // The operator may name a link; what it leads to is looked at.
    recognise(&source.canonicalize().map_err(unreadable)?, source)?;
    grid_folder::copy(source, to).map_err(|e| Fault::from(e).at(source, "copy"))?;
    let wal: PathBuf = files::beside(source, "-wal");
    match grid_folder::copy(&wal, &files::beside(to, "-wal")) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Fault::from(e).at(&wal, "copy")),
        _ => Ok(None),
    }
}

fn settle(
    source: &Path,
    to: &Path,
    told: Option<BackupInfo>,
    membership: impl FnOnce(&BackupInfo) -> Vec<u8>,
) -> Result<BackupInfo, StoreError> {
    // From here on it is the copy that is looked at, and the source that is spoken of.
    let failed = |e: Fault| match e.at(source, "restore from") {
        StoreError::Damaged { path, problem } => StoreError::damaged_backup(&path, problem),
        other => other,
    };
    recognise(to, source)?;
    let conn = schema::writer(to).map_err(failed)?;
    let found = backup::describe(&conn).map_err(failed)?;
    let info = match told {
        Some(told) if (told.applied, &told.cluster_id) != (found.applied, &found.cluster_id) => {
            return Err(StoreError::damaged_backup(source, "its header and its content are not of one backup"));
        }
        // The header does not know it.
        Some(told) => BackupInfo { newest_generation: found.newest_generation, ..told },
        None => found,
    };
    check(&conn).map_err(failed)?;
    let stored = load::load(&conn).map_err(failed)?;
    check_level(source, &stored.parts.meta, FEATURE_LEVEL)?;
    State::from_parts(stored.parts).map_err(|e| failed(Fault::Value(e)))?;
    conn.execute("UPDATE meta SET membership = ?1", [membership(&info)]).map_err(|e| failed(e.into()))?;
    // As every file of ours is, closed in order: one file, no WAL.
    conn.close().map_err(|(_, e)| failed(e.into()))?;
    let synced = File::open(to).and_then(|file| file.sync_all()).map_err(Fault::from);
    synced.and_then(|()| files::sync_folder(to)).map_err(failed)?;
    Ok(info)
}

/// The advice for a store in a data folder is not the one for a file that somebody names.
fn recognise(path: &Path, source: &Path) -> Result<(), StoreError> {
    match files::recognise(path) {
        Ok(_) => Ok(()),
        Err(StoreError::Foreign { .. }) => Err(bad(source, "it is not a backup of grid; name another file")),
        Err(StoreError::Newer { found, known, .. }) => {
            let problem = format!(
                "it was written by a newer grid (store version {found}, this one knows {known}), restore with that one"
            );
            Err(bad(source, &problem))
        }
        Err(StoreError::Older { found, known, .. }) => {
            let problem = format!(
                "it was written by an older grid (store version {found}, this one reads {known}), restore with that one"
            );
            Err(bad(source, &problem))
        }
        Err(StoreError::Damaged { problem, .. }) => Err(StoreError::damaged_backup(source, problem)),
        Err(other) => Err(other),
    }
}

fn bad(source: &Path, problem: &str) -> StoreError {
    StoreError::BadBackup { path: source.to_owned(), problem: problem.to_owned() }
}

/// SQLite's own check of every page, row and index.
fn check(conn: &Connection) -> Result<(), Fault> {
    let verdict: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Fault::Value(verdict)) }
}
