//! Opens and locks the data folder of a member, and checks to which member it belongs.
//!
//! ```text
//!   raft.lock    held while a process uses the folder; the kernel frees it with the process
//!   raft.json    format, member id, a random id of the folder, what it was restored from, a checksum; written once
//!                the folder belongs to a group
//!   raft-log/    votes and entries
//!   raft-log.mark  how far the log was flushed
//!   snapshots/   the newest two snapshots and their descriptions
//! ```
//!
//! A folder that is refused is left as it was, but for the lock file.
//! Not here: the ids that the member shows to others (`local_member`).
//! `raft.json` comes *after* the first entry is on disk, not before: a bootstrap
//! that was cut short leaves a folder that can be bootstrapped again, and one
//! whose log is already there is adopted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use grid_folder::LockError;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::error::OpenError;

const FORMAT: u32 = 1;
const IDENTITY: &str = "raft.json";
const LOCK: &str = "raft.lock";

/// Whether `data_dir` already belongs to a group. A bootstrap cut short by a
/// crash does not count: repeat it.
pub fn is_initialised(data_dir: &Path) -> bool {
    data_dir.join(IDENTITY).exists()
}

/// Whose folder `data_dir` is; `None` if it belongs to no group yet.
pub fn identity(data_dir: &Path) -> Result<Option<Identity>, OpenError> {
    Folder::new(data_dir).identity()
}

/// The parts of a data folder.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn log(&self) -> PathBuf {
        self.root.join("raft-log")
    }

    pub fn mark(&self) -> PathBuf {
        self.root.join("raft-log.mark")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// Whether nothing of a member is here.
    pub fn is_blank(&self) -> bool {
        !is_initialised(&self.root) && !self.log().exists() && !self.snapshots().exists()
    }

    /// Checks that what is here was made by this program for this member.
    pub fn check(&self, raft_id: u64) -> Result<(), OpenError> {
        if let Some(identity) = self.identity()?
            && identity.raft_id != raft_id
        {
            return Err(OpenError::OtherMember { folder: self.root.clone(), found: identity.raft_id, wanted: raft_id });
        }
        let log = self.log();
        if !log.exists() {
            if is_initialised(&self.root) || self.snapshots().exists() {
                return Err(OpenError::damaged(&self.root, "raft-log is missing"));
            }
            return Ok(());
        }
        for entry in fs::read_dir(&log).map_err(OpenError::io(&log, "cannot list"))? {
            let name = entry.map_err(OpenError::io(&log, "cannot list"))?.file_name();
            let name = name.to_string_lossy();
            let known = name == "LOCK" || (name.starts_with("r-") && name.ends_with(".wal"));
            if !known {
                let reason = format!("raft-log holds the unknown file {name:?}");
                return Err(OpenError::damaged(&self.root, reason));
            }
        }
        Ok(())
    }

    pub fn create(&self) -> Result<(), OpenError> {
        for dir in [self.log(), self.snapshots()] {
            grid_folder::make_dir(&dir).map_err(OpenError::io(&dir, "cannot create"))?;
        }
        sync_dir(&self.root).map_err(OpenError::io(&self.root, "cannot fsync"))
    }

    /// Takes the folder for this process.
    pub fn lock(&self) -> Result<FolderLock, OpenError> {
        grid_folder::make_dir(&self.root).map_err(OpenError::io(&self.root, "cannot create"))?;
        let path = self.root.join(LOCK);
        match grid_folder::lock(&path) {
            Ok(file) => Ok(FolderLock { _file: file, released: watch::Sender::new(()) }),
            Err(LockError::Held { .. }) => Err(OpenError::Locked { folder: self.root.clone() }),
            Err(LockError::Io(source)) => Err(OpenError::io(&path, "cannot lock")(source)),
        }
    }

    /// Records that the folder belongs to a group from now on.
    pub fn mark_initialised(&self, raft_id: u64, folder_id: &str, restored: Option<Restored>) -> Result<(), OpenError> {
        let path = self.root.join(IDENTITY);
        let identity = Identity { raft_id, folder_id: folder_id.to_owned(), restored };
        let check = identity.check().map_err(OpenError::io(&path, "cannot encode"))?;
        let text = serde_json::to_vec(&Marked { format: FORMAT, check, identity });
        let text = text.map_err(io::Error::from).map_err(OpenError::io(&path, "cannot encode"))?;
        write_file(&path, &text).map_err(OpenError::io(&path, "cannot write"))
    }

    fn identity(&self) -> Result<Option<Identity>, OpenError> {
        let path = self.root.join(IDENTITY);
        let read = grid_folder::read_if_there(&path).map_err(OpenError::io(&path, "cannot read"))?;
        let Some(text) = read else { return Ok(None) };
        let damaged = |reason: String| OpenError::damaged(&self.root, format!("raft.json: {reason}"));
        let format: Format = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        let marked = match serde_json::from_slice::<Marked>(&text) {
            // The checksum covers the format of this program: if it is right, another number there is damage.
            Ok(marked) if marked.identity.check().is_ok_and(|check| check == marked.check) => marked,
            _ if format.format > FORMAT => {
                return Err(OpenError::Newer { folder: self.root.clone(), found: format.format, known: FORMAT });
            }
            Ok(_) => return Err(damaged("its checksum is wrong".to_owned())),
            Err(e) => return Err(damaged(e.to_string())),
        };
        Ok(Some(marked.identity))
    }
}

/// Whose folder it is, and how it came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub raft_id: u64,
    /// Random, in hex: two folders are never taken for one (E3).
    pub folder_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
}

/// What a folder was restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restored {
    /// The generation of leader epochs must be at least this (E2).
    pub generation: u32,
    /// When the backup was taken.
    pub taken_wall_ms: u64,
    pub index: u64,
}

impl Identity {
    fn check(&self) -> io::Result<String> {
        Ok(blake3::hash(&serde_json::to_vec(&(FORMAT, self))?).to_hex().to_string())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marked {
    format: u32,
    identity: Identity,
    check: String,
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Keeps other processes out. Shared by everything that touches the folder, so
/// that it is freed after the last of them.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
    released: watch::Sender<()>,
}

impl FolderLock {
    /// Closes when the folder is free again.
    pub fn released(&self) -> watch::Receiver<()> {
        self.released.subscribe()
    }
}

/// Writes `path` so that after a crash it is whole or as before.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let tmp = path.with_extension("tmp");
    let mut file = grid_folder::create(&tmp)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&tmp, path)?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Makes names created or removed in `dir` survive a power cut.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
