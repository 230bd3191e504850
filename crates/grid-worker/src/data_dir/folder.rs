//! Opens the data folder: who this worker is across restarts (W1), and the proof that only one process uses it.
//!
//! `identity` is written whole or not at all, with a checksum: a worker must not become another node, or another journal's
//! owner, by a changed byte. The journal belongs to the `journal_id`: if the journal is gone, damaged or
//! given up, so is what it knew, and a new id says so to the leader, which then counts outstanding `once` leases as
//! unknown. The new id comes first and names the old one until the old journal is out of the way: a crash between the
//! two must not replay the old journal under the new id.

use std::fs::File;
use std::path::{Path, PathBuf};

use grid_folder::{Kind, LockError};
use grid_types::NodeId;
use serde::{Deserialize, Serialize};

use crate::machine::{hostname, write_whole};
use crate::seams::Random;

const RANDOM_CHARS: usize = 5;
const LONGEST_HOST: usize = 63 - 1 - RANDOM_CHARS;
/// Replaces the id of a journal whose identity is gone.
const UNKNOWN_JOURNAL: &str = "unknown";

/// What is wrong with a data folder.
#[derive(Debug, thiserror::Error)]
#[error("data folder {}: {problem}", path.display())]
pub struct FolderError {
    pub path: PathBuf,
    pub problem: String,
}

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    identity: Identity,
    _lock: File,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    node_id: NodeId,
    /// 16 random bytes in hex.
    journal_id: String,
    boot: u64,
    /// Empty until the first registration.
    cluster_id: String,
    /// The journal that lies in the folder was written under this id and is to be given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous_journal_id: Option<String>,
}

impl Identity {
    fn check(&self) -> serde_json::Result<u32> {
        Ok(crc32fast::hash(&serde_json::to_vec(self)?))
    }
}

/// As it lies on the disk. One without a checksum was written by an older worker.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    identity: Identity,
    check: Option<u32>,
}

/// What becomes of the journal that the folder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownJournal {
    /// It counts.
    Keep,
    /// An operator gave it up (`--reset-journal`): the node starts over.
    Reset,
}

impl Folder {
    /// Locks the folder and raises the boot counter, on disk.
    pub(crate) fn open(
        path: &Path,
        given: Option<&NodeId>,
        journal: KnownJournal,
        random: &dyn Random,
    ) -> Result<Self, FolderError> {
        let fault = |problem: String| FolderError { path: path.to_owned(), problem };
        // Outputs and errors of leases are nobody else's business.
        grid_folder::enter(path, Kind::WORKER).map_err(|refused| fault(refused.to_string()))?;
        Self::locked(path, lock(path)?, given, journal, random)
    }

    /// As [`Self::open`], for a folder that was entered and whose lock this process has.
    pub(crate) fn locked(
        path: &Path,
        lock: File,
        given: Option<&NodeId>,
        journal: KnownJournal,
        random: &dyn Random,
    ) -> Result<Self, FolderError> {
        let fault = |problem: String| FolderError { path: path.to_owned(), problem };
        // With a node id on the command line nothing of a damaged identity is needed.
        let start_over = journal == KnownJournal::Reset && given.is_some();
        let known = match read_identity(path) {
            Err(Unreadable::Damaged(problem)) if start_over => {
                tracing::warn!("the file `identity` is damaged ({problem}); this node starts over");
                None
            }
            read => read.map_err(|unreadable| fault(unreadable.to_string()))?,
        };
        let identity = next_identity(path, known, given, journal, random).map_err(fault)?;
        let folder = Self { path: path.to_owned(), identity, _lock: lock };
        folder.save()?;
        Ok(folder)
    }

    pub(crate) fn node_id(&self) -> &NodeId {
        &self.identity.node_id
    }

    pub(crate) fn boot(&self) -> u64 {
        self.identity.boot
    }

    pub(crate) fn journal_id(&self) -> &str {
        &self.identity.journal_id
    }

    pub(crate) fn journal_id_bytes(&self) -> Vec<u8> {
        let digits = self.identity.journal_id.as_bytes().chunks(2);
        digits.filter_map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
    }

    /// The id under which the journal in this folder was written, if it is not the one of now.
    pub(crate) fn replaced_journal_id(&self) -> Option<&str> {
        self.identity.previous_journal_id.as_deref()
    }

    /// From here on this is another journal, whatever happens (W1).
    pub(crate) fn replace_journal_id(&mut self, random: &dyn Random) -> Result<(), FolderError> {
        let fresh = random_hex(random).map_err(|problem| FolderError { path: self.path.clone(), problem })?;
        let old = std::mem::replace(&mut self.identity.journal_id, fresh);
        self.identity.previous_journal_id.get_or_insert(old);
        self.save()
    }

    /// The old journal is out of the way.
    pub(crate) fn journal_is_replaced(&mut self) -> Result<(), FolderError> {
        self.identity.previous_journal_id = None;
        self.save()
    }

    pub(crate) fn cluster_id(&self) -> &str {
        &self.identity.cluster_id
    }

    /// Learned at the first registration, and from then on required (E3).
    pub(crate) fn set_cluster_id(&mut self, cluster_id: &str) -> Result<(), FolderError> {
        if self.identity.cluster_id != cluster_id {
            cluster_id.clone_into(&mut self.identity.cluster_id);
            self.save()?;
        }
        Ok(())
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        journal_path(&self.path)
    }

    fn save(&self) -> Result<(), FolderError> {
        let check = self.identity.check().map(Some);
        let stored = check.map(|check| Stored { identity: self.identity.clone(), check });
        let text = stored.and_then(|stored| serde_json::to_vec_pretty(&stored)).map_err(std::io::Error::from);
        let saved = text.and_then(|text| write_whole(&self.path.join("identity"), &text));
        saved.map_err(|error| FolderError { path: self.path.clone(), problem: error.to_string() })
    }
}

/// Takes the folder for this process.
pub(crate) fn lock(folder: &Path) -> Result<File, FolderError> {
    grid_folder::lock(&folder.join("lock")).map_err(|error| {
        let problem = match error {
            LockError::Held { holder } => {
                let who = holder.map(|pid| format!(" ({pid})")).unwrap_or_default();
                format!("another worker process{who} uses it; stop that one or name another folder")
            }
            LockError::Io(error) => error.to_string(),
        };
        FolderError { path: folder.to_owned(), problem }
    })
}

fn journal_path(folder: &Path) -> PathBuf {
    folder.join("journal")
}

#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error(
        "its file `identity` is damaged ({0}); restore it, or start over with --reset-journal and --node-id: outstanding \
         once-only steps of that node then count as unknown"
    )]
    Damaged(String),
}

fn read_identity(folder: &Path) -> Result<Option<Identity>, Unreadable> {
    let Some(bytes) = grid_folder::read_if_there(&folder.join("identity"))? else { return Ok(None) };
    let damaged = |e: serde_json::Error| Unreadable::Damaged(e.to_string());
    let stored: Stored = serde_json::from_slice(&bytes).map_err(damaged)?;
    let check = stored.identity.check().map_err(damaged)?;
    if stored.check.is_some_and(|stored| stored != check) {
        return Err(Unreadable::Damaged("its checksum is wrong".to_owned()));
    }
    Ok(Some(stored.identity))
}

fn next_identity(
    folder: &Path,
    known: Option<Identity>,
    given: Option<&NodeId>,
    journal: KnownJournal,
    random: &dyn Random,
) -> Result<Identity, String> {
    let (journal_is_there, reset) = (journal_path(folder).exists(), journal == KnownJournal::Reset);
    let Some(known) = known else {
        let node_id = given.cloned().map_or_else(|| make_node_id(&hostname(), random), Ok)?;
        let previous_journal_id = journal_is_there.then(|| UNKNOWN_JOURNAL.to_owned());
        return Ok(Identity {
            node_id,
            journal_id: random_hex(random)?,
            boot: 1,
            cluster_id: String::new(),
            previous_journal_id,
        });
    };
    let node_id = given.cloned().unwrap_or_else(|| known.node_id.clone());
    if node_id != known.node_id && !reset {
        return Err(format!(
            "it belongs to node {}, not to {node_id}; use that id, another folder, or --reset-journal",
            known.node_id
        ));
    }
    let cluster_id = if reset { String::new() } else { known.cluster_id };
    let boot = known.boot.saturating_add(1);
    if journal_is_there && !reset {
        return Ok(Identity { node_id, boot, cluster_id, ..known });
    }
    let previous_journal_id = known.previous_journal_id.or(Some(known.journal_id));
    Ok(Identity { node_id, journal_id: random_hex(random)?, boot, cluster_id, previous_journal_id })
}

/// The host name, bent to the rule for names, and a few random characters.
fn make_node_id(hostname: &str, random: &dyn Random) -> Result<NodeId, String> {
    let first_label = hostname.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let bent: String = first_label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let host = bent.trim_matches('-');
    let host = if host.is_empty() { "node" } else { &host[..host.len().min(LONGEST_HOST)] };
    let suffix = &random_hex(random)?[..RANDOM_CHARS];
    format!("{}-{suffix}", host.trim_end_matches('-'))
        .parse()
        .map_err(|error| format!("cannot make a node id: {error}"))
}

fn random_hex(random: &dyn Random) -> Result<String, String> {
    let id = random.id().map_err(|error| error.to_string())?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::{Folder, KnownJournal, make_node_id};
    use crate::machine::SystemRandom;
    use grid_types::NodeId;

    #[test]
    fn w1_the_boot_counter_rises_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Folder::open(dir.path(), None, KnownJournal::Keep, &SystemRandom).unwrap();
        first.set_cluster_id("c1").unwrap();
        std::fs::write(first.journal_path(), b"").unwrap();
        let (node, journal) = (first.node_id().clone(), first.journal_id().to_owned());
        assert_eq!((first.boot(), first.journal_id_bytes().len()), (1, 16));
        drop(first);
        let second = Folder::open(dir.path(), Some(&node), KnownJournal::Keep, &SystemRandom).unwrap();
        assert_eq!((second.node_id(), second.journal_id(), second.boot()), (&node, journal.as_str(), 2));
        assert_eq!((second.cluster_id(), second.replaced_journal_id()), ("c1", None));
    }

    #[test]
    fn w1_a_lost_or_reset_journal_gets_another_id() {
        let dir = tempfile::tempdir().unwrap();
        let journal =
            Folder::open(dir.path(), None, KnownJournal::Keep, &SystemRandom).unwrap().journal_id().to_owned();
        let mut lost = Folder::open(dir.path(), None, KnownJournal::Keep, &SystemRandom).unwrap();
        assert_ne!(lost.journal_id(), journal, "its journal was never there");
        lost.journal_is_replaced().unwrap();
        std::fs::write(lost.journal_path(), b"").unwrap();
        let journal = lost.journal_id().to_owned();
        drop(lost);
        let reset = Folder::open(dir.path(), None, KnownJournal::Reset, &SystemRandom).unwrap();
        assert_ne!(reset.journal_id(), journal);
        assert_eq!(reset.replaced_journal_id(), Some(journal.as_str()));
    }

    #[test]
    fn a_folder_serves_one_process_and_one_node() {
        let dir = tempfile::tempdir().unwrap();
        let web: NodeId = "web-01".parse().unwrap();
        let db: NodeId = "db-01".parse().unwrap();
        let first = Folder::open(dir.path(), Some(&web), KnownJournal::Keep, &SystemRandom).unwrap();
        let refused = Folder::open(dir.path(), Some(&web), KnownJournal::Keep, &SystemRandom).unwrap_err().to_string();
        assert!(refused.contains("another worker process"), "{refused}");
        drop(first);
        let refused = Folder::open(dir.path(), Some(&db), KnownJournal::Keep, &SystemRandom).unwrap_err().to_string();
        assert!(refused.contains("belongs to node web-01"), "{refused}");
        Folder::open(dir.path(), Some(&db), KnownJournal::Reset, &SystemRandom).unwrap();
    }

    #[test]
    fn any_hostname_makes_a_node_id() {
        for (host, start) in
            [("Web_01.example.org", "web-01-"), ("", "node-"), ("-ü-", "node-"), (&"x".repeat(80), "xxx")]
        {
            let id = make_node_id(host, &SystemRandom).unwrap();
            assert!(id.as_str().starts_with(start) && id.as_str().len() <= 63, "{id}");
        }
    }
}
