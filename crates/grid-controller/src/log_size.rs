//! Keeps the log from growing for ever: past a size, a snapshot is taken and the log behind it is purged.
//!
//! By bytes, not by entries: what hurts is the disk and the time of a replay.

use std::time::Duration;

use grid_raft::Raft;
use tracing::{info, warn};

use crate::machine::Replies;

const LOOK_EVERY: Duration = Duration::from_secs(1);

pub async fn keep_short(raft: Raft<Replies>, limit_bytes: u64) {
    // What a snapshot leaves behind (whole files, the newest entries) must not trigger the next one.
    let mut left_behind = 0;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let bytes = raft.log_bytes();
        if bytes <= left_behind + limit_bytes {
            continue;
        }
        match raft.trigger_snapshot().await {
            Ok(()) => {
                left_behind = raft.log_bytes();
                info!(before = bytes, after = left_behind, "snapshot taken");
            }
            Err(stopped) => {
                warn!("no snapshot: {stopped}");
                return;
            }
        }
    }
}
