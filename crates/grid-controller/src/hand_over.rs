//! E7: leadership goes to another controller, in order.
//!
//! ```text
//!   LEADER -> DRAINING (results and cancels only) -> proposes nothing -> Raft hands over -> STANDBY
//!                                                                    \-> nobody took it within 5 s: LEADER again
//! ```
//!
//! What was asked meanwhile waits and is answered NOT_LEADER, never lost: it was not handed to the log (E4).
//! Not here: how Raft does it (`grid_raft::Raft::hand_over`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use grid_raft::HandOverError;
use tokio::time::{sleep, timeout};

use crate::shared::Shared;

const POLL: Duration = Duration::from_millis(10);
const HEARD_LIMIT: Duration = Duration::from_secs(1);

/// Returns when another controller leads, or why none does.
pub async fn hand_over(shared: &Arc<Shared>, to: Option<u64>) -> Result<(), HandOverError> {
    if shared.open_term().is_none() || shared.draining.swap(true, Ordering::AcqRel) {
        return Err(HandOverError::NotLeader);
    }
    // However this ends, also if whoever asked goes away in the middle.
    let shared = Arc::clone(shared);
    let handing = tokio::spawn(async move {
        tracing::info!("draining: leadership is handed over");
        let held = shared.proposer.hold().await;
        let handed = shared.raft.hand_over(to).await;
        // Before anything that waits goes on: a leader no more answers NOT_LEADER.
        if handed.is_ok() {
            let mut term = shared.term.clone();
            let _ = term.wait_for(Option::is_none).await;
        }
        // Its followers were not asked for a while: without their answers it would take itself for cut off (E5).
        let heard = async {
            while shared.leadership.borrow().is_leader && !shared.raft.has_majority() {
                sleep(POLL).await;
            }
        };
        let _ = timeout(HEARD_LIMIT, heard).await;
        shared.draining.store(false, Ordering::Release);
        drop(held);
        handed
    });
    handing.await.unwrap_or_else(|e| Err(HandOverError::Refused(e.to_string())))
}
