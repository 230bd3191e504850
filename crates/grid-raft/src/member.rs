//! Runs a member: its state, and everything that it does besides openraft.
//!
//! Each part is a file with an `impl` of [`RunningMember`]: `candidacy` (elections), `hand_over` (E7), `membership` (changes
//! of members), `announce` and `removal` (joining and leaving), `read` (E6), `rolled_back` (a log that lost entries),
//! `callers` (who may call this member, E3).
//! Not here: how a member is started (`start`), connections (`peers`), the listener (`peer_port`).

pub mod announce;
pub mod callers;
pub mod candidacy;
pub mod hand_over;
pub mod membership;
pub mod read;
pub mod removal;
pub mod rolled_back;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use self::rolled_back::{Comparison, Missing};
use crate::data_dir::folder::{self, Folder};
use crate::group::{Group, Member};
use crate::log::store::LogSize;
use crate::peers::Peers;
use crate::snapshots::Snapshots;
use crate::snapshots::persistence::Persistence;

/// A member that runs.
pub struct RunningMember {
    pub raft: openraft::Raft<Group>,
    pub log_size: LogSize,
    /// Closes when nothing of this member touches the folder any more.
    pub released: watch::Receiver<()>,
    pub snapshots: Snapshots,
    /// One snapshot at a time: openraft ignores a request during another.
    pub snapshot_turn: Mutex<()>,
    pub folder: Folder,
    pub peers: Peers,
    /// What membership should say of this member.
    pub record: Member,
    pub lease: Duration,
    /// One snapshot is received at a time.
    pub receiving: Mutex<()>,
    /// Changes of membership, one after the other.
    pub change_turn: Mutex<()>,
    pub handing_over: AtomicBool,
    /// The term whose reads may be confirmed.
    pub open_term: AtomicU64,
    pub closing: watch::Sender<bool>,
    pub persistence: Persistence,
    /// It has been a voter, or was started as one: it does not join any more.
    pub has_joined: AtomicBool,
    /// With whom the log was compared; `None` when that is over.
    pub comparison: std::sync::Mutex<Option<Comparison>>,
    /// It knows from others whether its log is whole, as far as they know: before that it does not vote.
    pub has_compared: watch::Sender<bool>,
    /// Its log lacks what it acknowledged.
    pub rolled_back: watch::Sender<Option<Missing>>,
    /// It is known that the group goes on without this member.
    pub removed: watch::Sender<bool>,
    pub about: RwLock<Option<About>>,
}

/// How the program around a member describes itself, now.
pub type About = Box<dyn Fn() -> Vec<u8> + Send + Sync>;

impl RunningMember {
    /// What this program says of itself when other members ask.
    pub fn about(&self) -> Vec<u8> {
        let about = self.about.read().unwrap_or_else(PoisonError::into_inner);
        about.as_ref().map(|about| about()).unwrap_or_default()
    }

    pub fn set_about(&self, about: About) {
        *self.about.write().unwrap_or_else(PoisonError::into_inner) = Some(about);
    }

    /// Returns when the folder is free again.
    pub async fn end(&self) {
        self.closing.send_replace(true);
        if let Err(e) = self.raft.shutdown().await {
            tracing::error!("raft task: {e}");
        }
        let mut released = self.released.clone();
        while released.changed().await.is_ok() {}
    }

    /// A joining member's folder belongs to the group with the first entry or snapshot it has taken.
    pub async fn mark_when_it_holds_something(&self) {
        let mut metrics = self.raft.metrics();
        let holds = metrics.wait_for(|m| m.last_log_index.is_some() || m.running_state.is_err()).await;
        if holds.is_ok_and(|m| m.running_state.is_ok())
            && !folder::is_initialised(self.folder.root())
            && let Err(e) = self.folder.mark_initialised(self.peers.me().raft_id, &self.peers.me().folder_id, None)
        {
            tracing::error!("{e}");
        }
    }
}
