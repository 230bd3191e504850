//! Hands leadership over to another controller without failing a write (E7).
//!
//! ```text
//!   LEADER -> DRAINING: proposes results and cancels only, until a follower is one entry behind (at most 1 s)
//!          -> proposes nothing -> Raft hands over -> STANDBY
//!                                                \-> nobody took it within 5 s: LEADER again
//! ```
//!
//! Anything else is answered NOT_LEADER at once, and what comes when nothing is proposed waits for how it ends: neither was
//! handed to the log (E4).
//! Not here: how Raft does it (`grid_raft::Raft::hand_over`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use grid_raft::HandOverError;
use tokio::time::{sleep, timeout};

use crate::shared::Shared;

const POLL: Duration = Duration::from_millis(10);
/// However busy the workers are: they report again to the next leader.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
const HEARD_LIMIT: Duration = Duration::from_secs(1);

/// Returns when another controller leads, or why none does.
pub async fn hand_over(shared: &Arc<Shared>, to: Option<u64>) -> Result<(), HandOverError> {
    if shared.open_term().is_none() || shared.tenure.draining.swap(true, Ordering::AcqRel) {
        return Err(HandOverError::NotLeader);
    }
    // However this ends, also if the client disconnects in the middle.
    let shared = Arc::clone(shared);
    let handing = tokio::spawn(async move {
        tracing::info!("draining: leadership is handed over");
        let draining = shared.log.proposer.drain();
        shared.log.raft.follower_near(to, 1, DRAIN_LIMIT).await;
        draining.close().await;
        let handed = shared.log.raft.hand_over(to).await;
        // Before anything that waits goes on: a leader no more answers NOT_LEADER.
        if handed.is_ok() {
            let mut term = shared.tenure.term.clone();
            let _ = term.wait_for(Option::is_none).await;
        }
        // Its followers were not asked for a while: without their answers it would take itself for cut off (E5).
        let heard = async {
            while shared.tenure.leadership.borrow().is_leader && !shared.log.raft.has_majority() {
                sleep(POLL).await;
            }
        };
        let _ = timeout(HEARD_LIMIT, heard).await;
        shared.tenure.draining.store(false, Ordering::Release);
        drop(draining);
        handed
    });
    handing.await.unwrap_or_else(|e| Err(HandOverError::Refused(e.to_string())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grid_core::{CancelJob, Command};
    use grid_types::JobId;
    use tempfile::TempDir;

    use crate::life::{opening, propose, register, report, started, submit};
    use crate::reply::NoReply;

    /// Before, everything waited from the first moment on: a worker's result and an operator's cancel with the rest.
    #[tokio::test(flavor = "multi_thread")]
    async fn e7_a_draining_leader_proposes_results_and_cancels_and_then_nothing() {
        let home = TempDir::new().unwrap();
        let controller = started(opening(home.path(), "c1", true)).await.unwrap();
        for node in ["n1", "n2"] {
            propose(&controller, register(node)).await;
        }
        for job in [1, 2] {
            propose(&controller, submit(JobId(job))).await;
        }
        let proposer = controller.shared.log.proposer.clone();
        let cancel = |job| Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job: JobId(job) });
        let draining = proposer.drain();
        assert_eq!(proposer.propose(&submit(JobId(3))).await, Err(NoReply::NotLeader));
        assert!(proposer.propose(&cancel(2)).await.is_ok());
        for result in report(&controller) {
            assert!(proposer.propose(&result).await.is_ok(), "what is out is settled");
        }
        draining.close().await;
        let late = tokio::spawn({
            let (proposer, cancel) = (proposer.clone(), cancel(1));
            async move { proposer.propose(&cancel).await }
        });
        let before = controller.shared.log.raft.states().await[0].last_index;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(controller.shared.log.raft.states().await[0].last_index, before, "nothing is proposed any more");
        assert!(!late.is_finished(), "it waits for how the hand-over ends");
        drop(draining);
        assert!(late.await.unwrap().is_ok(), "LEADER again");
        assert!(proposer.propose(&submit(JobId(4))).await.is_ok());
        controller.shutdown().await;
    }

    /// A result that waits for its place in the log when the leader closes is not proposed afterwards.
    #[tokio::test(flavor = "multi_thread")]
    async fn e7_what_waits_when_a_draining_leader_closes_is_not_proposed() {
        let home = TempDir::new().unwrap();
        let controller = started(opening(home.path(), "c1", true)).await.unwrap();
        propose(&controller, register("n1")).await;
        propose(&controller, submit(JobId(1))).await;
        let proposer = controller.shared.log.proposer.clone();
        let places = proposer.all_places().await;
        let draining = proposer.drain();
        let cancel = Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job: JobId(1) });
        let late = tokio::spawn({
            let proposer = proposer.clone();
            async move { proposer.propose(&cancel).await }
        });
        proposer.wait_taken().await;
        let before = controller.shared.log.raft.states().await[0].last_index;
        tokio::join!(draining.close(), async { drop(places) });
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert_eq!(controller.shared.log.raft.states().await[0].last_index, before, "nothing is proposed any more");
        }
        assert!(!late.is_finished());
        drop(draining);
        assert!(late.await.unwrap().is_ok(), "LEADER again");
        controller.shutdown().await;
    }
}
