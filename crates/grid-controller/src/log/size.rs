//! Keeps the log from growing for ever: past a size, a snapshot is taken and the log behind it is purged.
//!
//! By bytes, not by entries: what hurts is the disk and the time of a replay.

use std::sync::Arc;
use std::time::Duration;

use grid_raft::Raft;
use tracing::{info, warn};

use super::machine::Replies;
use super::progress::Progress;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs until the member ends. A log of which nothing new was applied is not looked at.
pub async fn keep_short(raft: Raft<Replies>, progress: Arc<Progress>, limit_bytes: u64) {
    let mut leadership = raft.leadership();
    let mut growth = Growth { limit_bytes, left_behind: 0 };
    loop {
        let seen = progress.both();
        let grown = async {
            tokio::time::sleep(LOOK_EVERY).await;
            progress.wait(seen + 1).await;
        };
        tokio::select! {
            () = grown => {}
            ended = leadership.wait_for(|_| false) => if ended.is_err() { return },
        }
        let bytes = raft.log_bytes();
        if !growth.is_due(bytes) {
            continue;
        }
        match raft.trigger_snapshot().await {
            Ok(()) => {
                growth.left_behind = raft.log_bytes();
                info!(before = bytes, "snapshot taken");
            }
            Err(stopped) => {
                warn!("no snapshot: {stopped}");
                return;
            }
        }
    }
}

struct Growth {
    limit_bytes: u64,
    /// What a snapshot leaves behind (whole files, the newest entries) must not trigger the next one.
    left_behind: u64,
}

impl Growth {
    fn is_due(&mut self, bytes: u64) -> bool {
        // The log is cut some time after the snapshot, so what is left is known only later.
        self.left_behind = self.left_behind.min(bytes);
        bytes > self.left_behind + self.limit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Growth;

    #[test]
    fn l6_a_log_that_is_cut_after_the_snapshot_is_due_at_the_same_size_again() {
        let mut growth = Growth { limit_bytes: 64, left_behind: 0 };
        assert!(!growth.is_due(64) && growth.is_due(65));
        growth.left_behind = 65;
        assert!(!growth.is_due(66), "the cut is on its way");
        assert!(!growth.is_due(3), "now it has happened");
        assert!(!growth.is_due(67));
        assert!(growth.is_due(68));
    }
}
