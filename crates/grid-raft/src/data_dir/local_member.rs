//! Reads and writes `member.json`: the ids of the member whose data folder this is.
//!
//! E3: a folder gets a random member id and a random folder id once, before it
//! holds anything else, and keeps them; an id is never used again, so an empty
//! folder can never vote as the member whose data was lost. The cluster id is
//! minted by the bootstrap and learned by everybody who joins.
//! Not here: whether the folder belongs to a group already, and what it was
//! restored from (`folder`).
//! Member ids have 53 bits, not 64: they appear in JSON, and many readers of
//! JSON know only floats.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{Config, Start};
use crate::data_dir::folder::{self, Folder, write_file};
use crate::error::OpenError;

const FORMAT: u32 = 1;
const FILE: &str = "member.json";

/// This member as its data folder names it: ids of member, folder and cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalMember {
    format: u32,
    pub raft_id: u64,
    pub folder_id: String,
    /// Empty until the folder belongs to a cluster.
    #[serde(default)]
    pub cluster_id: String,
    /// The name that operators use.
    #[serde(default)]
    pub node_id: String,
    /// Accepted as a learner; asks for its vote until it has one.
    #[serde(default)]
    pub joining: bool,
}

/// As it lies on the disk. One without a checksum was written by an older program.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    member: LocalMember,
    check: Option<String>,
}

impl LocalMember {
    /// Reads the folder's `member.json`, or creates it: a joining member
    /// sends these ids before it can start.
    pub fn prepare(data_dir: &Path, node_id: &str) -> Result<Self, OpenError> {
        if let Some(member) = Self::read(data_dir)? {
            return Ok(member);
        }
        grid_folder::make_dir(data_dir).map_err(OpenError::io(data_dir, "cannot create"))?;
        let member = Self { node_id: node_id.to_owned(), ..Self::fresh(None, None)? };
        member.save(data_dir)?;
        Ok(member)
    }

    /// Records that the cluster has accepted this member.
    pub fn accepted_by(mut self, cluster_id: &str, data_dir: &Path) -> Result<Self, OpenError> {
        if !self.cluster_id.is_empty() && self.cluster_id != cluster_id {
            let reason = format!("it belongs to cluster {}, not to {cluster_id}", self.cluster_id);
            return Err(OpenError::damaged(data_dir, reason));
        }
        self.cluster_id = cluster_id.to_owned();
        self.joining = true;
        self.save(data_dir)?;
        Ok(self)
    }

    /// Reads the folder's `member.json`, or makes up new ids; writes nothing yet (E3).
    pub(crate) fn of_folder(folder: &Folder, config: &Config, start: Start) -> Result<Self, OpenError> {
        let mut member = match Self::read(folder.root())? {
            Some(member) => member,
            None => {
                let known = folder::identity(folder.root())?;
                let folder_id = known.as_ref().map(|known| known.folder_id.clone());
                Self::fresh(known.map(|known| known.raft_id).or(config.raft_id), folder_id)?
            }
        };
        if let Some(wanted) = config.raft_id.filter(|wanted| *wanted != member.raft_id) {
            return Err(OpenError::OtherMember { folder: folder.root().to_path_buf(), found: member.raft_id, wanted });
        }
        member.node_id.clone_from(&config.member.node_id);
        if member.cluster_id.is_empty() {
            if start == Start::Join {
                return Err(OpenError::Settings("a member joins only after a cluster has accepted it".into()));
            }
            member.cluster_id = match config.cluster_id.clone().filter(|id| !id.is_empty()) {
                Some(known) => known,
                None => hex(&random::<16>()?),
            };
        }
        Ok(member)
    }

    /// Records that it has its vote.
    pub(crate) fn joined(mut self, data_dir: &Path) -> Result<(), OpenError> {
        self.joining = false;
        self.save(data_dir)
    }

    /// What is in the folder, if anything is.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = data_dir.join(FILE);
        let read = grid_folder::read_if_there(&path).map_err(OpenError::io(&path, "cannot read"))?;
        let Some(text) = read else { return Ok(None) };
        let damaged = |e: &dyn std::fmt::Display| OpenError::damaged(data_dir, format!("{FILE}: {e}"));
        let Stored { member, check } = serde_json::from_slice(&text).map_err(|e| damaged(&e))?;
        // A number for the format that only damage can have put there is caught by the checksum.
        if member.format > FORMAT && check.as_ref().is_none_or(|check| member.sum().is_ok_and(|sum| sum == *check)) {
            return Err(OpenError::Newer { folder: data_dir.to_path_buf(), found: member.format, known: FORMAT });
        }
        if check.is_some_and(|check| member.sum().map_or(true, |sum| sum != check)) || member.format != FORMAT {
            return Err(damaged(&"its checksum is wrong"));
        }
        Ok(Some(member))
    }

    fn sum(&self) -> io::Result<String> {
        Ok(blake3::hash(&serde_json::to_vec(self)?).to_hex().to_string())
    }

    /// With new random ids, or those given: a folder may belong to a group and
    /// have no `member.json` yet.
    pub(crate) fn fresh(raft_id: Option<u64>, folder_id: Option<String>) -> Result<Self, OpenError> {
        let raft_id = match raft_id {
            Some(raft_id) => raft_id,
            None => new_member_id()?,
        };
        let folder_id = match folder_id {
            Some(folder_id) => folder_id,
            None => hex(&random::<16>()?),
        };
        Ok(Self {
            format: FORMAT,
            raft_id,
            folder_id,
            cluster_id: String::new(),
            node_id: String::new(),
            joining: false,
        })
    }

    pub(crate) fn save(&self, data_dir: &Path) -> Result<(), OpenError> {
        let path = data_dir.join(FILE);
        let stored = self.sum().map(|sum| Stored { member: self.clone(), check: Some(sum) });
        let text = stored.and_then(|stored| Ok(serde_json::to_vec(&stored)?));
        let text = text.map_err(OpenError::io(&path, "cannot encode"))?;
        write_file(&path, &text).map_err(OpenError::io(&path, "cannot write"))
    }
}

/// One that no folder has had before.
pub fn new_member_id() -> Result<u64, OpenError> {
    Ok(u64::from_be_bytes(random()?) >> 11 | 1)
}

fn random<const N: usize>() -> Result<[u8; N], OpenError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| OpenError::Stopped(format!("no randomness: {e}")))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::LocalMember;

    #[test]
    fn e3_a_member_file_damaged_at_any_byte_is_refused_or_is_the_same() {
        let dir = tempfile::tempdir().expect("dir");
        let member =
            LocalMember::prepare(dir.path(), "c1").expect("made").accepted_by("abc", dir.path()).expect("saved");
        let path = dir.path().join("member.json");
        let whole = std::fs::read(&path).expect("read");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 7);
            for bad in [&flipped[..], &whole[..at]] {
                std::fs::write(&path, bad).expect("written");
                match LocalMember::read(dir.path()) {
                    Ok(read) => assert_eq!(read, Some(member.clone()), "at {at}"),
                    Err(e) => assert!(e.to_string().contains("member.json"), "at {at}: {e}"),
                }
            }
        }
    }

    #[test]
    fn e3_a_member_file_is_made_once_and_stays() {
        let dir = tempfile::tempdir().expect("dir");
        let first = LocalMember::prepare(dir.path(), "c1").expect("made");
        assert_eq!(LocalMember::prepare(dir.path(), "c1").expect("read"), first);
        let joined = first.clone().accepted_by("abc", dir.path()).expect("saved");
        assert_eq!(LocalMember::prepare(dir.path(), "c1").expect("read"), joined);
        assert!(joined.clone().accepted_by("other", dir.path()).is_err(), "a folder belongs to one cluster");
        let other = tempfile::tempdir().expect("dir");
        let second = LocalMember::prepare(other.path(), "c1").expect("made");
        assert_ne!((first.raft_id, first.folder_id), (second.raft_id, second.folder_id));
    }
}
