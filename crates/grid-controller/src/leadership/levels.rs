//! L2: the leader raises the cluster's feature level once every member knows a higher one.
//!
//! Each member's record says what its program knows, and is updated when the program is another one
//! (`grid-raft::member::announce`). Learners count, too: one that halts on a command that it does not know is of no use when it
//! is needed. Not here: what a level changes and which levels a program takes (`grid-core`), who may join (`cluster`).
//! A member that is downgraded afterwards refuses its data folder: no level is ever lowered.

use std::sync::Arc;
use std::time::Duration;

use grid_core::{Command, RaiseFeatureLevel};
use tracing::{debug, info};

use crate::shared::Shared;

/// Before a level that could not be raised is proposed again.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the member ends.
pub async fn raise(shared: Arc<Shared>) {
    let mut term = shared.tenure.term.clone();
    while term.wait_for(Option::is_some).await.is_ok() {
        let roster = shared.log.raft.roster();
        let Some(level) = due(&shared) else {
            tokio::select! {
                () = shared.log.raft.roster_changed(&roster) => {}
                changed = term.changed() => if changed.is_err() { return },
            }
            continue;
        };
        let command = Command::RaiseFeatureLevel(RaiseFeatureLevel { level });
        match shared.log.proposer.propose(&command).await {
            Ok(_) => info!(level, "feature level raised: every controller knows it"),
            Err(no_reply) => {
                debug!("feature level not raised: {no_reply}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The newest level that every member knows.
pub fn common(shared: &Shared) -> u32 {
    let members = shared.log.raft.roster().members;
    members.iter().map(|listed| listed.member.feature_level).fold(shared.tenure.feature_level, u32::min)
}

fn due(shared: &Shared) -> Option<u32> {
    let common = common(shared);
    (common > shared.state().meta.feature_level).then_some(common)
}
