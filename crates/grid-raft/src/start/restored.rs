//! Creates a one-member group from a copy of a machine's data: what a restore does to the log.
//!
//! ```text
//!   empty folder -> log that begins behind the copy -> copy as its snapshot -> raft.json (makes the folder a member's)
//! ```
//!
//! E2: `raft.json` remembers the restore for good; the leader of a new term reads from it which generation the group must
//! have at least, so that a crash at any moment repeats that rather than forgets it.
//! A folder that holds anything of a member is refused. `raft.json` comes last: without it nothing here counts.
//! Not here: what is in the copy, and whether it is sound (`grid-store`).
//! The machine gets no data here: it is empty, and the first start installs the snapshot, as after any loss of it (L5).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use openraft::Vote;

use crate::config::Config;
use crate::data_dir::folder::{Folder, Restored};
use crate::data_dir::local_member::LocalMember;
use crate::error::OpenError;
use crate::group::{Membership, StoredMembership, log_id_of};
use crate::log::mark::Mark;
use crate::log::record::encode_membership;
use crate::log::store::LogStore;
use crate::machine::LogPosition;
use crate::snapshots::Snapshots;

/// The membership of a group that has only the member of `config`, as a machine at `position` keeps it.
pub fn lone_membership(config: &Config, position: LogPosition) -> Result<Vec<u8>, OpenError> {
    let encoded = encode_membership(Some(position), &alone(config)?);
    encoded.map_err(OpenError::io(&config.data_dir, "cannot encode the membership for"))
}

/// Makes `config.data_dir` the folder of a one-member group whose state at `position` is the machine's copy in `copy`,
/// which is moved there. The machine's own membership must be that of [`lone_membership`].
pub async fn create_from_copy(
    config: &Config,
    copy: &Path,
    position: LogPosition,
    restored: Restored,
) -> Result<(), OpenError> {
    let folder = Folder::new(&config.data_dir);
    if !folder.is_blank() {
        return Err(OpenError::NotEmpty { folder: config.data_dir.clone() });
    }
    let lock = Arc::new(folder.lock()?);
    folder.create()?;
    let damaged = |e: std::io::Error| OpenError::damaged(folder.root(), e);
    let mut local = LocalMember::fresh(Some(member_id(config)?), None)?;
    local.cluster_id = config.cluster_id.clone().unwrap_or_default();
    let mark = Mark::open(&folder.mark()).map_err(damaged)?;
    let log = LogStore::open(config, local.raft_id, &folder.log(), lock, mark).map_err(damaged)?;
    // The next term must lie above that of the last entry there was.
    let vote = Vote::new(position.term, local.raft_id);
    log.begin_after(position, vote).await.map_err(damaged)?;
    drop(log);
    let membership = StoredMembership::new(Some(log_id_of(position)), alone(config)?);
    let snapshots = Snapshots::new(folder.snapshots());
    snapshots.publish(copy, Some(position), membership).map_err(OpenError::io(copy, "cannot take the copy"))?;
    local.save(folder.root())?;
    folder.mark_initialised(local.raft_id, &local.folder_id, Some(restored))
}

fn alone(config: &Config) -> Result<Membership, OpenError> {
    let me = member_id(config)?;
    Ok(Membership::new(vec![BTreeSet::from([me])], BTreeMap::from([(me, config.member.clone())])))
}

/// Copy and folder must agree on it, so it cannot be made up here.
fn member_id(config: &Config) -> Result<u64, OpenError> {
    config.raft_id.ok_or_else(|| OpenError::Settings("a group is created with a member id".into()))
}
