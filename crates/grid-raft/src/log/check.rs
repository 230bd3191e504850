//! Looks at the log's files before anything opens them: opening repairs, and a repair must not lose what was acknowledged.
//!
//! ```text
//!   chunk | chunk | tail chunk ......records......|....rest
//!                              flushed to (mark) ^ ^ first record that cannot be read
//! ```
//!
//! A record that cannot be read is a *tear* if it lies behind the mark: it was never acknowledged, and it is cut off. Before
//! the mark it is damage, and so is a log that ends there: refused (L3). `raft-log` alone cannot tell: a changed length
//! field and a file that was cut short look like a tear to it, and it would remove them.
//! Not here: the order of entries, checksums of chunks before the last (`raft-log` checks both when it opens; this module
//! only finds the place then).
//! With no mark to go by, the tail proves nothing: the caller must ask the machine how far it was
//! ([`Survey::is_proven`]).

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use raft_log::chunked_wal::Config as WalConfig;
use raft_log::codeq::Decode;
use raft_log::{RaftLogAction, RaftLogRecord, WALRecord};

use crate::bounds;
use crate::log::record::{LogTypes, StoredVote};

/// What the files say.
#[derive(Debug, Default)]
pub struct Survey {
    chunks: Vec<Chunk>,
    /// Where the rest of the tail chunk cannot be read, in bytes of that file.
    tear: Option<u64>,
    /// Index of the last entry before the tear.
    pub last_index: Option<u64>,
    /// Whether everything that was flushed is known to be here.
    pub is_proven: bool,
}

#[derive(Debug)]
struct Chunk {
    start: u64,
    bytes: u64,
    path: PathBuf,
}

/// Reads the files in `dir` and changes nothing. The error names the file and what is wrong with it.
pub fn survey(dir: &Path, flushed_to: Option<u64>) -> Result<Survey, String> {
    let chunks = chunks(dir)?;
    for pair in chunks.windows(2) {
        let wanted = pair[1].start - pair[0].start;
        if pair[0].bytes != wanted {
            return Err(format!("{} has {} bytes instead of {wanted}", shown(&pair[0].path), pair[0].bytes));
        }
    }
    let Some(tail) = chunks.last() else {
        return match flushed_to {
            Some(flushed) if flushed > 0 => {
                Err(format!("{} has no files, and {flushed} bytes were flushed", shown(dir)))
            }
            _ => Ok(Survey { is_proven: flushed_to.is_some(), ..Survey::default() }),
        };
    };
    let scan = scan(tail)?;
    let readable_to = tail.start.saturating_add(scan.readable_bytes);
    if let Some(flushed) = flushed_to.filter(|flushed| *flushed > readable_to) {
        let (path, at) = (shown(&tail.path), scan.readable_bytes);
        let missing = flushed - readable_to;
        let what = if scan.readable_bytes == tail.bytes { "ends" } else { "cannot be read" };
        return Err(format!("{path} {what} at byte {at}, and {missing} bytes that were flushed should follow"));
    }
    let is_torn = scan.readable_bytes < tail.bytes;
    // Without a mark it may just as well be damage: then `raft-log` cuts off only what can be nothing else.
    let tear = (is_torn && flushed_to.is_some()).then_some(scan.readable_bytes);
    let is_proven = flushed_to.is_some() && !is_torn;
    Ok(Survey { tear, last_index: scan.last_index, is_proven, chunks })
}

impl Survey {
    /// Cuts off what was never flushed, so that nothing is left for the log to guess about.
    pub fn cut_tear(&self) -> io::Result<()> {
        let (Some(at), Some(tail)) = (self.tear, self.chunks.last()) else { return Ok(()) };
        tracing::warn!("{}: cutting off a record that a crash left incomplete, at byte {at}", tail.path.display());
        if at == 0 {
            // The successor of a full chunk that never got its first record.
            fs::remove_file(&tail.path)?;
            return File::open(tail.path.parent().unwrap_or(Path::new(".")))?.sync_all();
        }
        let file = grid_folder::append(&tail.path)?;
        file.set_len(at)?;
        file.sync_all()
    }

    /// Where the first record that cannot be read is, in whichever chunk.
    pub fn damage(&self) -> Option<String> {
        self.chunks.iter().find_map(|chunk| match scan(chunk) {
            Ok(scan) if scan.readable_bytes == chunk.bytes => None,
            Ok(scan) => Some(format!("{} cannot be read at byte {}", shown(&chunk.path), scan.readable_bytes)),
            Err(reason) => Some(reason),
        })
    }
}

/// In order of their place in the log.
fn chunks(dir: &Path) -> Result<Vec<Chunk>, String> {
    let failed = |e: io::Error| format!("{}: {e}", shown(dir));
    let mut chunks = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Ok(start) = WalConfig::parse_chunk_file_name(&entry.file_name().to_string_lossy()) {
            let bytes = entry.metadata().map_err(failed)?.len();
            chunks.push(Chunk { start, bytes, path: entry.path() });
        }
    }
    chunks.sort_by_key(|chunk| chunk.start);
    Ok(chunks)
}

struct Scan {
    readable_bytes: u64,
    last_index: Option<u64>,
}

fn scan(chunk: &Chunk) -> Result<Scan, String> {
    let file = grid_folder::open(&chunk.path).map_err(|e| format!("{}: {e}", shown(&chunk.path)))?;
    let mut from = Counting { from: BufReader::with_capacity(1 << 20, file), bytes: 0 };
    let mut scan = Scan { readable_bytes: 0, last_index: None };
    while scan.readable_bytes < chunk.bytes {
        let Ok(record) = RaftLogRecord::<LogTypes>::decode(&mut from) else { break };
        scan.readable_bytes = from.bytes;
        check_bounds(&record).map_err(|why| format!("{}: {why}", shown(&chunk.path)))?;
        match record {
            WALRecord::Checkpoint(state) => scan.last_index = state.last().map(|id| id.1),
            WALRecord::Action(RaftLogAction::Append(id, _)) => scan.last_index = Some(id.1),
            WALRecord::Action(RaftLogAction::TruncateAfter(id)) => scan.last_index = id.map(|id| id.1),
            WALRecord::Action(RaftLogAction::PurgeUpto(id)) => scan.last_index = scan.last_index.max(Some(id.1)),
            WALRecord::Action(RaftLogAction::SaveVote(_) | RaftLogAction::Commit(_)) => {}
        }
    }
    Ok(scan)
}

/// Refuses what would overflow as soon as something is added to it.
fn check_bounds(record: &RaftLogRecord<LogTypes>) -> Result<(), String> {
    let vote = |vote: &StoredVote| bounds::stored(vote.0.leader_id.term, 0).map_err(|why| format!("a vote: {why}"));
    let id = |id: Option<&(u64, u64)>| id.map_or(Ok(()), |id| bounds::stored(id.0, id.1));
    match record {
        WALRecord::Checkpoint(state) => {
            state.vote().map_or(Ok(()), vote)?;
            [state.last(), state.committed(), state.purged()].into_iter().try_for_each(id)
        }
        WALRecord::Action(RaftLogAction::SaveVote(saved)) => vote(saved),
        WALRecord::Action(RaftLogAction::Append(at, _)) => id(Some(at)),
        WALRecord::Action(RaftLogAction::Commit(at) | RaftLogAction::PurgeUpto(at)) => id(Some(at)),
        WALRecord::Action(RaftLogAction::TruncateAfter(at)) => id(at.as_ref()),
    }
}

struct Counting<R> {
    from: R,
    bytes: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.bytes += n as u64;
        Ok(n)
    }
}

/// Its last two names: the folder is named once, by the caller.
fn shown(path: &Path) -> String {
    let names: Vec<_> = path.components().rev().take(2).collect();
    let path: PathBuf = names.into_iter().rev().collect();
    path.display().to_string()
}
