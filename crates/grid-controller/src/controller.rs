//! A running controller: opens the data folder and starts its parts.
//!
//! Not here: what the API asks of it (`requests`).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use grid_core::State;
use grid_plan::{Backstop, Liveness};
use grid_raft::{LogPosition, MachinePosition, Raft, Start};
use grid_store::{Store, StoreError};
use grid_types::api::{Role, RoleDoc};
use grid_types::clock::Clock;
use grid_types::{JobId, Name};
use tokio::sync::{Notify, mpsc, watch};

use crate::hub::FabricHub;
use crate::machine::{ControllerMachine, Replies};
use crate::output_desk::OutputDesk;
use crate::proposer::Proposer;
use crate::shared::{Settings, Shared, Soft};
use crate::{dispatch, leader, log_size, ticker};

/// Where and how to start.
pub struct Opening {
    pub settings: Settings,
    pub data_dir: PathBuf,
    /// As peers reach this member.
    pub raft_addr: String,
    pub bootstrap: bool,
    pub clock: Arc<dyn Clock>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{}: cannot be made", .path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("{}: {problem}", .path.display())]
    NotOurs { path: PathBuf, problem: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the stored state contradicts itself: {0}; restore a backup into an empty folder")]
    Contradiction(String),
    #[error(transparent)]
    Raft(#[from] grid_raft::OpenError),
}

/// A handle to a running controller; clones share it.
#[derive(Clone)]
pub struct Controller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) raft: Raft<Replies>,
    pub(crate) last_job: Arc<Mutex<Option<JobId>>>,
}

impl Controller {
    pub async fn open(opening: Opening) -> Result<Self, OpenError> {
        let dir = &opening.data_dir;
        std::fs::create_dir_all(dir).map_err(|source| OpenError::Folder { path: dir.clone(), source })?;
        check_folder(dir, &opening.settings.node_id, opening.bootstrap)?;
        let (store, stored) = Store::open(&dir.join("state.sqlite"))?;
        let reader = store.reader();
        let state = State::from_parts(stored.parts).map_err(OpenError::Contradiction)?;
        let state = Arc::new(RwLock::new(state));
        let (effects, effects_out) = mpsc::unbounded_channel();
        let position = MachinePosition {
            applied: stored.applied.map(|at| LogPosition { term: at.term, index: at.index }),
            membership: stored.membership,
        };
        let machine = ControllerMachine::new(Arc::clone(&state), store, position, effects);
        let raft_id = raft_id(&opening.settings.node_id);
        let mut config = grid_raft::Config::new(raft_id, opening.raft_addr, dir.join("raft"));
        // Nobody else could need them.
        config.keep_entries = 0;
        let start = if opening.bootstrap { Start::Bootstrap } else { Start::Existing };
        let raft = Raft::open(config, start, machine).await?;

        let (term, term_out) = watch::channel(None);
        let proposer = Proposer::start(raft.clone(), term_out.clone());
        let soft = Soft { liveness: Liveness::new(opening.settings.thresholds), backstop: Backstop::default() };
        let role = RoleDoc {
            node_id: opening.settings.node_id.to_string(),
            role: Role::Standby,
            leader_epoch: None,
            leader_id: None,
            leader_url: None,
            leader_grpc: None,
        };
        let shared = Arc::new(Shared {
            settings: opening.settings,
            clock: opening.clock,
            state,
            reader,
            proposer,
            term: term_out,
            role: Mutex::new(role),
            sessions: Mutex::default(),
            soft: Mutex::new(soft),
            output_desk: OutputDesk::default(),
        });
        shared.publish_role(false);
        let deposed = Arc::new(Notify::new());
        tokio::spawn(dispatch::dispatch(Arc::clone(&shared), effects_out, Arc::clone(&deposed)));
        tokio::spawn(leader::follow(Arc::clone(&shared), raft.clone(), term, deposed));
        tokio::spawn(ticker::tick(Arc::clone(&shared)));
        tokio::spawn(log_size::keep_short(raft.clone()));
        Ok(Self { shared, raft, last_job: Arc::default() })
    }

    /// What the fabric asks.
    #[must_use]
    pub fn hub(&self) -> FabricHub {
        FabricHub::new(Arc::clone(&self.shared))
    }

    /// Resolves when this controller leads.
    pub async fn leads(&self) {
        let mut term = self.shared.term.clone();
        // An ended channel means that the member has stopped; `stopped` says why.
        let _ = term.wait_for(Option::is_some).await;
    }

    /// Resolves with the reason when the log or the store can go on no more; the process must end (L2).
    pub async fn stopped(&self) -> String {
        self.raft.stopped().await
    }

    pub async fn shutdown(&self) {
        self.shared.sessions().end_all(grid_fabric::closing::SHUTDOWN);
        self.raft.shutdown().await;
    }
}

/// Stable for a node id, so that a folder tells whose it is.
fn raft_id(node: &Name) -> u64 {
    let hash = node
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash >> 1 | 1
}

/// Which controller the folder belongs to: what an operator has to know when it is the wrong one.
const OWNER_FILE: &str = "node-id";

/// A folder is this node's own, or empty; anything else is left alone.
fn check_folder(dir: &Path, node: &Name, bootstrap: bool) -> Result<(), OpenError> {
    let not_ours = |problem: String| OpenError::NotOurs { path: dir.to_path_buf(), problem };
    let unreadable = |source| OpenError::Folder { path: dir.to_path_buf(), source };
    let file = dir.join(OWNER_FILE);
    match std::fs::read_to_string(&file) {
        Ok(owner) if owner.trim() == node.as_str() => return Ok(()),
        Ok(owner) => {
            let owner = owner.trim();
            let problem = format!(
                "belongs to controller {owner}, not to {node}; start it with --node-id {owner}, or with an empty folder"
            );
            return Err(not_ours(problem));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(unreadable(e)),
    }
    let mut entries = std::fs::read_dir(dir).map_err(unreadable)?;
    // A crash in the middle of the very first start leaves the unfinished file behind.
    let foreign = entries.find(|entry| entry.as_ref().map_or(true, |entry| entry.file_name() != "node-id.new"));
    if let Some(entry) = foreign {
        let name = entry.map_err(unreadable)?.file_name();
        let problem = format!("is not empty (it has {name:?}) and not a controller's folder; give an empty one");
        return Err(not_ours(problem));
    }
    if !bootstrap {
        return Err(not_ours("is empty; start once with --bootstrap to found a cluster here".to_owned()));
    }
    write_owner(dir, node).map_err(unreadable)
}

/// Whole or not at all, whatever happens in between.
fn write_owner(dir: &Path, node: &Name) -> std::io::Result<()> {
    let fresh = dir.join("node-id.new");
    let mut file = File::create(&fresh)?;
    writeln!(file, "{node}")?;
    file.sync_all()?;
    std::fs::rename(&fresh, dir.join(OWNER_FILE))?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::check_folder;

    #[test]
    fn a_folder_is_this_nodes_own_or_empty() {
        let dir = tempfile::tempdir().unwrap();
        let (c1, c2) = ("c1".parse().unwrap(), "c2".parse().unwrap());
        assert!(check_folder(dir.path(), &c1, false).unwrap_err().to_string().contains("--bootstrap"));
        check_folder(dir.path(), &c1, true).unwrap();
        check_folder(dir.path(), &c1, false).unwrap();
        assert!(check_folder(dir.path(), &c2, true).unwrap_err().to_string().contains("--node-id c1"));
        let foreign = tempfile::tempdir().unwrap();
        std::fs::write(foreign.path().join("thesis.txt"), "x").unwrap();
        assert!(check_folder(foreign.path(), &c1, true).unwrap_err().to_string().contains("thesis.txt"));
    }
}
