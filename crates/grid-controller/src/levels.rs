//! L2: the leader raises the feature level once every member knows more.
//!
//! Each member's record says what its program knows, and is brought up to date when the program is another
//! (`grid-raft::announce`). Learners count, too: one that halts on a command that it does not know is no use when it is
//! needed. Not here: what a level changes (`grid-core`), who is let in (`cluster`).
//! A member that is made older afterwards halts with a clear message: that is what its operator asked for, and no level
//! is ever taken back.

use std::sync::Arc;
use std::time::Duration;

use grid_core::{Command, RaiseFeatureLevel};
use tracing::{debug, info};

use crate::shared::Shared;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs until the member ends. `own`: what this controller knows.
pub async fn raise(shared: Arc<Shared>, own: u32) {
    let mut term = shared.term.clone();
    while term.wait_for(Option::is_some).await.is_ok() {
        if let Some(level) = due(&shared, own) {
            let command = Command::RaiseFeatureLevel(RaiseFeatureLevel { level });
            match shared.proposer.propose(&command).await {
                Ok(_) => info!(level, "every controller knows this feature level, and it is made use of"),
                Err(no_reply) => debug!("the feature level stays: {no_reply}"),
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn due(shared: &Shared, own: u32) -> Option<u32> {
    shared.open_term()?;
    let members = shared.raft.roster().members;
    let known = members.iter().map(|listed| listed.member.feature_level).min()?.min(own);
    (known > shared.state().meta.feature_level).then_some(known)
}
