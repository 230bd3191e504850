//! Checks and prepares a controller's data folder: whose it is, and what it shows to a cluster that it wants to join.
//!
//! ```text
//!   node-id                 whose folder it is
//!   raft/                   log, votes, snapshots, raft.json: this is the durability
//!   state.sqlite            the applied state; rebuilt from raft/ whenever it cannot be trusted
//!   restoring/              a restore under way; without effect until it becomes raft/
//! ```
//!
//! A folder that is not this node's own, or not a controller's, is refused and left as it is.
//! Not here: what is in the files (`grid-raft`, `grid-store`), making one from a backup (`restore`).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use grid_folder::{Kind, Refused};
use grid_raft::{LocalMember, Member, Start};
use grid_types::Name;

use super::OpenError;

/// Which controller the folder belongs to: what an operator has to know when it is the wrong one.
const OWNER_FILE: &str = "node-id";
const OWNER_UNFINISHED: &str = "node-id.new";

pub fn raft_dir(dir: &Path) -> PathBuf {
    dir.join("raft")
}

pub fn state_path(dir: &Path) -> PathBuf {
    dir.join("state.sqlite")
}

/// What an empty folder sends to the cluster that it joins; the folder belongs to this node from now on.
pub fn prepare_join(dir: &Path, node: &Name) -> Result<LocalMember, OpenError> {
    enter(dir)?;
    check(dir, node, Start::Join)?;
    Ok(LocalMember::prepare(&raft_dir(dir), node.as_str())?)
}

/// Records that the cluster has accepted it.
pub fn accept_join(dir: &Path, member: LocalMember, cluster_id: &str) -> Result<(), OpenError> {
    member.accepted_by(cluster_id, &raft_dir(dir))?;
    Ok(())
}

/// Whether the folder already belongs to a cluster; `--bootstrap` and `--join` change nothing there.
#[must_use]
pub fn has_cluster(dir: &Path) -> bool {
    grid_raft::is_initialised(&raft_dir(dir))
}

/// The cluster id from the state, for a folder that has no `member.json`: an older controller made it.
pub fn cluster_id_without_record(dir: &Path) -> Option<String> {
    match LocalMember::read(&raft_dir(dir)) {
        Ok(None) => grid_store::peek(&state_path(dir)).ok().map(|info| info.cluster_id),
        _ => None,
    }
}

pub fn raft_config(dir: PathBuf, node: &Name, raft_addr: &str, feature_level: u32) -> grid_raft::Config {
    let member =
        Member { address: raft_addr.to_owned(), node_id: node.to_string(), feature_level, ..Member::default() };
    grid_raft::Config::of_folder(member, dir)
}

/// Makes the folder, or refuses one that other users could have changed.
pub fn enter(dir: &Path) -> Result<(), OpenError> {
    grid_folder::enter(dir, Kind::CONTROLLER).map_err(|refused| match refused {
        Refused::Io(source) => unreadable(dir, source),
        Refused::Unsafe(problem) => not_ours(dir, problem),
    })
}

/// A folder is this node's own, or empty; anything else is left alone.
pub fn check(dir: &Path, node: &Name, start: Start) -> Result<(), OpenError> {
    if owned_by(dir, node)? {
        return Ok(());
    }
    // A crash in the middle of the very first start leaves the unfinished file behind.
    refuse_content(dir, &[OWNER_UNFINISHED])?;
    if start == Start::Existing {
        let problem = "is empty; start once with --bootstrap to found a cluster here, or with --join to enter one";
        return Err(not_ours(dir, problem.to_owned()));
    }
    write_owner(dir, node).map_err(|e| unreadable(dir, e))
}

/// Whether the folder is this node's own; another's is an error. `node-id` is for people: where it was lost or damaged,
/// the member's own record knows better, and it is written again.
pub fn owned_by(dir: &Path, node: &Name) -> Result<bool, OpenError> {
    let read = grid_folder::read_if_there(&dir.join(OWNER_FILE)).map_err(|e| unreadable(dir, e))?;
    let owner = read.map(|owner| String::from_utf8_lossy(&owner).trim().to_owned());
    if owner.as_deref() == Some(node.as_str()) {
        return Ok(true);
    }
    if LocalMember::read(&raft_dir(dir))
        .is_ok_and(|member| member.is_some_and(|member| member.node_id == node.as_str()))
    {
        tracing::warn!("{}: the file {OWNER_FILE} was lost or damaged; it is written again", dir.display());
        write_owner(dir, node).map_err(|e| unreadable(dir, e))?;
        return Ok(true);
    }
    match owner {
        None => Ok(false),
        Some(owner) => {
            let problem = format!(
                "belongs to controller {owner}, not to {node}; start it with --node-id {owner}, or with an empty folder"
            );
            Err(not_ours(dir, problem))
        }
    }
}

/// Anything but the names in `allowed` makes it somebody's folder.
pub fn refuse_content(dir: &Path, allowed: &[&str]) -> Result<(), OpenError> {
    for entry in std::fs::read_dir(dir).map_err(|e| unreadable(dir, e))? {
        let name = entry.map_err(|e| unreadable(dir, e))?.file_name();
        // A file system of its own has this from the beginning.
        let is_allowed = name == grid_folder::FILE_SYSTEM || allowed.iter().any(|allowed| name == *allowed);
        if !is_allowed {
            let problem = format!("is not empty (it has {name:?}) and not a controller's folder; give an empty one");
            return Err(not_ours(dir, problem));
        }
    }
    Ok(())
}

/// Whole or not at all, whatever happens in between.
pub fn write_owner(dir: &Path, node: &Name) -> std::io::Result<()> {
    let fresh = dir.join(OWNER_UNFINISHED);
    let mut file = grid_folder::create(&fresh)?;
    writeln!(file, "{node}")?;
    file.sync_all()?;
    std::fs::rename(&fresh, dir.join(OWNER_FILE))?;
    File::open(dir)?.sync_all()
}

pub fn not_ours(dir: &Path, problem: String) -> OpenError {
    OpenError::NotOurs { path: dir.to_path_buf(), problem }
}

pub fn unreadable(dir: &Path, source: std::io::Error) -> OpenError {
    OpenError::Folder { path: dir.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::check;
    use grid_raft::Start;

    #[test]
    fn a_folder_is_this_nodes_own_or_empty() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("lost+found")).unwrap();
        let (c1, c2) = ("c1".parse().unwrap(), "c2".parse().unwrap());
        assert!(check(dir.path(), &c1, Start::Existing).unwrap_err().to_string().contains("--bootstrap"));
        check(dir.path(), &c1, Start::Bootstrap).unwrap();
        check(dir.path(), &c1, Start::Existing).unwrap();
        assert!(check(dir.path(), &c2, Start::Bootstrap).unwrap_err().to_string().contains("--node-id c1"));
        let foreign = tempfile::tempdir().unwrap();
        std::fs::write(foreign.path().join("thesis.txt"), "x").unwrap();
        assert!(check(foreign.path(), &c1, Start::Bootstrap).unwrap_err().to_string().contains("thesis.txt"));
    }
}
