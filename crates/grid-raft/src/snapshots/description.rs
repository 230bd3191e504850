//! Describes one snapshot, and checks whether it is still that.
//!
//! A snapshot is used only if its length and BLAKE3 hash are right; the hash is part of the id, so that a receiver
//! checks what the sender wrote, and of the name, which shows a description that was changed.
//! Not here: which snapshots there are, and for how long (`snapshots`).

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::data_dir::folder::write_file;
use crate::group::{SnapshotMeta, StoredMembership, log_id_of};
use crate::log::record::{decode_membership, encode_stored};
use crate::machine::{LogPosition, MachinePosition};

const FORMAT: u32 = 1;

/// A snapshot that was published.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// `None` for the copy of a machine that had applied nothing.
    pub last: Option<LogPosition>,
    pub membership: StoredMembership,
    pub path: PathBuf,
    id: String,
    len: u64,
    hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: u32,
    last: Option<LogPosition>,
    len: u64,
    blake3: String,
    /// As a machine keeps it.
    membership: Option<Vec<u8>>,
    /// Of all of the above.
    check: String,
}

impl Description {
    fn sum(&self) -> io::Result<String> {
        let content = serde_json::to_vec(&(self.format, self.last, self.len, &self.blake3, &self.membership))?;
        Ok(blake3::hash(&content).to_hex().to_string())
    }
}

impl Snapshot {
    pub fn new(
        dir: &Path,
        last: Option<LogPosition>,
        membership: StoredMembership,
        (len, hash): (u64, String),
    ) -> Self {
        let id = id_of(last, &hash);
        Self { last, membership, path: dir.join(format!("{id}.snap")), id, len, hash }
    }

    pub fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.last.map(log_id_of),
            last_membership: self.membership.clone(),
            snapshot_id: self.id.clone(),
        }
    }

    pub fn position(&self) -> io::Result<MachinePosition> {
        Ok(MachinePosition { applied: self.last, membership: encode_stored(&self.membership)? })
    }

    /// Reads the whole file and compares.
    pub fn verify(&self) -> io::Result<()> {
        let (len, hash) = digest(&mut grid_folder::open(&self.path)?, &mut io::sink())?;
        if len != self.len || hash != self.hash {
            return Err(damaged(&self.path, "content does not match its description"));
        }
        Ok(())
    }

    /// Writes the description, durably: from then on it is a snapshot.
    pub fn describe(&self) -> io::Result<()> {
        let mut description = Description {
            format: FORMAT,
            last: self.last,
            len: self.len,
            blake3: self.hash.clone(),
            membership: encode_stored(&self.membership)?,
            check: String::new(),
        };
        description.check = description.sum()?;
        write_file(&self.path.with_extension("json"), &serde_json::to_vec(&description)?)
    }

    /// By its description; its content is not looked at but for its length.
    pub fn read(path: &Path) -> io::Result<Self> {
        let description: Description = serde_json::from_slice(&grid_folder::read(path)?)
            .map_err(|e| damaged(path, &format!("unreadable description: {e}")))?;
        if description.format != FORMAT {
            return Err(damaged(path, &format!("unknown format {}", description.format)));
        }
        if path.file_stem().is_none_or(|stem| stem != id_of(description.last, &description.blake3).as_str()) {
            return Err(damaged(path, "it is not the description of the snapshot it is named after"));
        }
        let membership = match &description.membership {
            Some(bytes) => decode_membership(bytes)?,
            None => StoredMembership::default(),
        };
        if description.check != description.sum()? {
            return Err(damaged(path, "its checksum is wrong"));
        }
        let LogPosition { term, index } = description.last.unwrap_or(LogPosition { term: 0, index: 0 });
        bounds::stored(term, index).map_err(|why| damaged(path, &why))?;
        let copy = path.with_extension("snap");
        let len = fs::metadata(&copy).map_err(|e| damaged(&copy, &e.to_string()))?.len();
        if len != description.len {
            return Err(damaged(&copy, &format!("{len} bytes instead of {}", description.len)));
        }
        Ok(Self {
            last: description.last,
            membership,
            path: copy,
            id: id_of(description.last, &description.blake3),
            len: description.len,
            hash: description.blake3,
        })
    }
}

fn id_of(last: Option<LogPosition>, hash: &str) -> String {
    let LogPosition { term, index } = last.unwrap_or(LogPosition { term: 0, index: 0 });
    format!("{term}-{index}-{hash}")
}

/// Length and hash of what `from` holds, copied to `to` on the way.
pub fn digest(from: &mut impl Read, to: &mut impl Write) -> io::Result<(u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut len = 0;
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return Ok((len, hasher.finalize().to_hex().to_string()));
        }
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n])?;
        len += n as u64;
    }
}

pub fn damaged(path: &Path, reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {reason}", path.display()))
}
