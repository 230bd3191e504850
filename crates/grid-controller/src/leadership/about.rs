//! What controllers report to each other about themselves.

use std::sync::Arc;

use grid_raft::PeerState;
use grid_types::api::{Role, RoleDoc};
use serde::{Deserialize, Serialize};

use crate::shared::Shared;

/// What a controller reports about itself. Fields are only added, with a default.
#[derive(Serialize, Deserialize)]
pub struct About {
    pub role: Role,
    #[serde(default)]
    pub leader_epoch: Option<u64>,
    #[serde(default)]
    pub version: Option<String>,
    /// Why its snapshots fail.
    #[serde(default)]
    pub snapshot_problem: Option<String>,
    /// It could not dispatch as leader: the folder of its local worker is refused (E8), or it does not reach the broker (N5).
    #[serde(default)]
    pub cannot_dispatch: bool,
}

/// Lets other controllers ask for this one's role and problems.
pub fn describe(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    shared.log.raft.set_about(move || {
        let Some(shared) = weak.upgrade() else { return Vec::new() };
        let RoleDoc { role, leader_epoch, .. } = shared.role();
        let (version, snapshot_problem) =
            (Some(env!("CARGO_PKG_VERSION").to_owned()), shared.log.raft.snapshot_trouble());
        let cannot_dispatch = shared.dispatch_problem().is_some();
        let about = About { role, leader_epoch, version, snapshot_problem, cannot_dispatch };
        serde_json::to_vec(&about).unwrap_or_default()
    });
}

/// Why the snapshots of a controller fail, if they do; `None` if it did not answer that.
pub fn snapshot_problem(state: &PeerState) -> Option<Option<String>> {
    serde_json::from_slice(&state.about).ok().map(|about: About| about.snapshot_problem)
}

/// Whether a controller could dispatch as leader, as far as it said.
pub fn can_dispatch(state: &PeerState) -> bool {
    serde_json::from_slice(&state.about).is_ok_and(|about: About| !about.cannot_dispatch)
}

impl About {
    /// What another controller said of itself.
    pub fn of(state: &PeerState) -> Option<Self> {
        serde_json::from_slice(&state.about).ok()
    }
}
