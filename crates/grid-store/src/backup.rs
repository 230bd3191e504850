//! Writes and reads a backup: one file that says what it is, holds the applied state, and shows whether it is whole.
//!
//! ```text
//!   "GRIDBKUP"  version u32  length u32  header (CBOR)  BLAKE3 of everything before    the SQLite file
//! ```
//!
//! Integers are big-endian. This frame up to the first hash is the same in every version, so that a newer file can be
//! distinguished from a damaged one. The header names length and hash of the SQLite file, and what an operator wants to know of it.
//! A backup is either confirmed, and then has everything that was acknowledged before its time, or stale, and then its
//! time is that of its last entry: never that of the copy, which says nothing about the state.
//! Not here: what a restore may be made from besides (`restorable`), the confirmation (`grid-controller::requests::cluster`).
//! It is copied beside the writer (`pinned`), so a standby can make one just as well.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use grid_core::Meta;
use grid_types::LeaderEpoch;
use minicbor::{Decode, Encode};
use rusqlite::Connection;

use crate::error::{Fault, StoreError};
use crate::files;
use crate::pinned::PinnedStore;
use crate::position::Position;
use crate::read::Reader;
use crate::schema;

pub(crate) const MAGIC: &[u8; 8] = b"GRIDBKUP";
pub const BACKUP_VERSION: u32 = 1;
const LONGEST_HEADER: u32 = 64 * 1024;

/// What a backup, or anything else a restore can be made from, holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupInfo {
    pub cluster_id: String,
    /// Everything up to and with this entry is in it.
    pub applied: Position,
    pub epoch: LeaderEpoch,
    /// The highest generation that the state knows of, also of another cluster that superseded it (E2).
    pub newest_generation: u32,
    /// The time of the state: everything that was acknowledged before it is in it. If it is stale, the time of its last
    /// entry, by the clock of the leader that wrote it.
    pub taken_wall_ms: u64,
    /// Nobody has confirmed that nothing is missing; so it is with every bare store.
    pub stale: bool,
    pub jobs: u64,
    pub nodes: u64,
}

/// A backup that was just written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub info: BackupInfo,
    pub file_bytes: u64,
    /// Of the whole file, in hex: what a receiver compares after a transfer.
    pub file_blake3: String,
}

#[derive(Encode, Decode)]
struct Header {
    #[n(0)]
    cluster_id: String,
    #[n(1)]
    term: u64,
    #[n(2)]
    index: u64,
    #[n(3)]
    epoch: LeaderEpoch,
    #[n(4)]
    taken_wall_ms: u64,
    #[n(5)]
    jobs: u64,
    #[n(6)]
    nodes: u64,
    #[n(7)]
    state_bytes: u64,
    #[n(8)]
    #[cbor(with = "minicbor::bytes")]
    state_blake3: [u8; 32],
    #[n(9)]
    #[cbor(default)]
    stale: bool,
}

impl Reader {
    /// Writes a backup of what is applied now to `path`, where nothing may be, and fsyncs it. `current_wall_ms`: the time
    /// up to which everything acknowledged is known to be applied; without it the backup is stale, and says so.
    pub fn write_backup(&self, path: &Path, current_wall_ms: Option<u64>) -> Result<Written, StoreError> {
        let failed = |e: Fault| e.at(path, "write a backup to");
        if path.exists() {
            return Err(failed(io::Error::from(io::ErrorKind::AlreadyExists).into()));
        }
        let copy = files::beside(path, ".state");
        let written = self.copy_then_frame(&copy, path, current_wall_ms);
        let removed = files::remove_with_companions(&copy);
        if written.is_err() {
            let _ = fs::remove_file(path);
        }
        removed.map_err(failed)?;
        written.map_err(failed)
    }

    fn copy_then_frame(&self, copy: &Path, path: &Path, current_wall_ms: Option<u64>) -> Result<Written, Fault> {
        files::remove_with_companions(copy)?;
        PinnedStore::take(self.pool())?.copy_to(copy)?;
        let conn = schema::reader(copy)?;
        let found = describe(&conn)?;
        let taken_wall_ms = current_wall_ms.unwrap_or(found.taken_wall_ms);
        let info = BackupInfo { taken_wall_ms, stale: current_wall_ms.is_none(), ..found };
        conn.close().map_err(|(_, e)| e)?;
        frame(copy, path, info)
    }
}

/// What the store behind `conn` holds.
pub(crate) fn describe(conn: &Connection) -> Result<BackupInfo, Fault> {
    let (meta, term, index) = conn.query_row("SELECT state, term, log_index FROM meta", [], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?))
    })?;
    let meta: Meta = minicbor::decode(&meta)?;
    let applied = term.zip(index).ok_or_else(|| Fault::Value("nothing was ever applied to it".to_owned()))?;
    let count = |table: &str| -> Result<u64, Fault> {
        let rows: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        Ok(rows.cast_unsigned())
    };
    Ok(BackupInfo {
        newest_generation: meta.newest_generation(),
        cluster_id: meta.cluster_id,
        applied: Position { term: applied.0.cast_unsigned(), index: applied.1.cast_unsigned() },
        epoch: meta.leadership.epoch,
        taken_wall_ms: meta.wall_ms,
        stale: true,
        jobs: count("jobs")?,
        nodes: count("nodes")?,
    })
}

fn frame(state: &Path, path: &Path, info: BackupInfo) -> Result<Written, Fault> {
    let mut state = File::open(state)?;
    let mut of_state = blake3::Hasher::new();
    let state_bytes = io::copy(&mut state, &mut of_state)?;
    let header = Header {
        cluster_id: info.cluster_id.clone(),
        term: info.applied.term,
        index: info.applied.index,
        epoch: info.epoch,
        taken_wall_ms: info.taken_wall_ms,
        jobs: info.jobs,
        nodes: info.nodes,
        state_bytes,
        state_blake3: of_state.finalize().into(),
        stale: info.stale,
    };
    let header =
        minicbor::to_vec(&header).map_err(|e| Fault::Contradiction(format!("a header cannot be encoded: {e}")))?;
    let length = u32::try_from(header.len()).map_err(|e| Fault::Contradiction(e.to_string()))?;
    let mut front = MAGIC.to_vec();
    front.extend_from_slice(&BACKUP_VERSION.to_be_bytes());
    front.extend_from_slice(&length.to_be_bytes());
    front.extend_from_slice(&header);
    front.extend_from_slice(blake3::hash(&front).as_bytes());

    state.seek(SeekFrom::Start(0))?;
    let mut out = Hashing { file: grid_folder::create_new(path)?, hasher: blake3::Hasher::new() };
    out.write_all(&front)?;
    let copied = io::copy(&mut state, &mut out)?;
    out.file.sync_all()?;
    files::sync_folder(path)?;
    let file_bytes = front.len() as u64 + copied;
    Ok(Written { info, file_bytes, file_blake3: out.hasher.finalize().to_hex().to_string() })
}

struct Hashing {
    file: File,
    hasher: blake3::Hasher,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads the front of a backup; `file` is positioned at the SQLite file afterwards.
pub(crate) fn read_front(path: &Path, file: &mut File) -> Result<(BackupInfo, StatePart), StoreError> {
    let damaged = |problem: &str| StoreError::damaged_backup(path, problem);
    let cut = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends within its header"),
        _ => Fault::from(e).at(path, "read"),
    };
    let mut front = vec![0; MAGIC.len() + 8];
    file.read_exact(&mut front).map_err(cut)?;
    let number = |at: usize| u32::from_be_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
    let (version, length) = (number(8), number(12));
    if length > LONGEST_HEADER {
        return Err(damaged("its header is damaged"));
    }
    let begin = front.len();
    front.resize(begin + length as usize, 0);
    file.read_exact(&mut front[begin..]).map_err(cut)?;
    let mut hash = [0; 32];
    file.read_exact(&mut hash).map_err(cut)?;
    if blake3::hash(&front) != hash {
        return Err(damaged("its header is damaged"));
    }
    if version != BACKUP_VERSION {
        let problem = format!(
            "it was written by a newer grid (backup version {version}, this one knows {BACKUP_VERSION}), restore with that one"
        );
        return Err(StoreError::BadBackup { path: path.to_owned(), problem });
    }
    let header: Header = minicbor::decode(&front[begin..]).map_err(|e| damaged(&format!("its header: {e}")))?;
    let info = BackupInfo {
        cluster_id: header.cluster_id,
        applied: Position { term: header.term, index: header.index },
        epoch: header.epoch,
        newest_generation: header.epoch.generation,
        taken_wall_ms: header.taken_wall_ms,
        stale: header.stale,
        jobs: header.jobs,
        nodes: header.nodes,
    };
    Ok((info, StatePart { bytes: header.state_bytes, blake3: header.state_blake3 }))
}

/// The SQLite file within a backup.
pub(crate) struct StatePart {
    bytes: u64,
    blake3: [u8; 32],
}

impl StatePart {
    /// Copies the rest of `file` and compares it with what the header says.
    pub fn copy(&self, path: &Path, file: &mut File, to: &mut impl Write) -> Result<(), StoreError> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut length = 0u64;
        loop {
            let n = file.read(&mut buffer).map_err(|e| Fault::from(e).at(path, "read"))?;
            if n == 0 {
                break;
            }
            length += n as u64;
            hasher.update(&buffer[..n]);
            to.write_all(&buffer[..n]).map_err(|e| Fault::from(e).at(path, "unpack"))?;
        }
        let problem = match length.cmp(&self.bytes) {
            std::cmp::Ordering::Less => format!("{} bytes are missing at its end", self.bytes - length),
            std::cmp::Ordering::Greater => format!("it has {} bytes too many", length - self.bytes),
            std::cmp::Ordering::Equal if hasher.finalize() == self.blake3 => return Ok(()),
            std::cmp::Ordering::Equal => "its content is damaged".to_owned(),
        };
        Err(StoreError::damaged_backup(path, problem))
    }
}
