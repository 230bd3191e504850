//! Hands leadership over when this controller cannot dispatch for a while and another could (E7).
//!
//! ```text
//!   LEADER, unable for 10 s --another voter could dispatch--> hands over to it
//!                           \--none could, or alone--> stays; `why` and `status` say so
//! ```
//!
//! Unable: the folder of the local worker is refused, so that dispatch stays paused (E8), or the broker of its workers cannot be reached
//! (N5). Each controller reports to the others that it is (`leadership::About`), so that two such controllers do not hand over to each
//! other. One that is elected again, because the healthy leader has failed, hands over again after 10 s.
//! Not here: who looks at the folder (the supervisor, in `grid`), the pause itself (`gate`), the connection (`grid-fabric`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use grid_raft::PeerState;
use tracing::{info, warn};

use super::about::can_dispatch;
use super::hand_over::hand_over;
use crate::shared::Shared;

const HAND_OVER_AFTER: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A follower that is further behind does not catch up while the hand-over waits for it.
const MOST_BEHIND: u64 = 10_000;

/// Runs until the member ends.
pub async fn hand_over_leadership(shared: Arc<Shared>) {
    let mut interval = tokio::time::interval(LOOK_EVERY);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut since, mut handed_over) = (None, 0_u64);
    while shared.tenure.leadership.has_changed().is_ok() {
        interval.tick().await;
        if shared.open_term().is_none() || shared.dispatch_problem().is_none() {
            since = None;
            continue;
        }
        if since.get_or_insert_with(Instant::now).elapsed() < HAND_OVER_AFTER {
            continue;
        }
        let voters: Vec<u64> = shared
            .log
            .raft
            .roster()
            .members
            .iter()
            .filter(|listed| listed.is_voter)
            .map(|listed| listed.raft_id)
            .collect();
        let Some(to) = successor(&shared.log.raft.states().await, &voters, shared.log.raft.local_member().raft_id)
        else {
            continue;
        };
        since = None;
        let why = shared.dispatch_problem().unwrap_or_default();
        match hand_over(&shared, Some(to)).await {
            Ok(()) => {
                handed_over += 1;
                // Once for each doubling, however often it is elected.
                if handed_over.is_power_of_two() {
                    warn!(times = handed_over, "leadership was handed over: {why}");
                }
            }
            Err(e) => info!("leadership was not handed over, it is tried again in {HAND_OVER_AFTER:?}: {e}"),
        }
    }
}

/// The voter that is furthest among those that could dispatch and take over at once.
fn successor(states: &[PeerState], voters: &[u64], me: u64) -> Option<u64> {
    let last_index = states.iter().find(|state| state.raft_id == me)?.last_index;
    let could = states.iter().filter(|state| {
        let is_near = last_index.saturating_sub(state.last_index) <= MOST_BEHIND;
        state.raft_id != me && voters.contains(&state.raft_id) && is_near && can_dispatch(state)
    });
    could.max_by_key(|state| state.last_index).map(|state| state.raft_id)
}

#[cfg(test)]
mod tests {
    use grid_raft::PeerState;

    use super::{MOST_BEHIND, successor};

    fn state(raft_id: u64, last_index: u64, about: &str) -> PeerState {
        let about = about.as_bytes().to_vec();
        PeerState { raft_id, term: 1, last_index, applied_index: 0, snapshot_index: 0, about }
    }

    #[test]
    fn e8_only_a_voter_that_could_dispatch_and_has_the_log_takes_over() {
        let healthy = r#"{"role":"STANDBY"}"#;
        let refused = r#"{"role":"STANDBY","cannot_dispatch":true}"#;
        let me = state(1, MOST_BEHIND + 50, refused);
        let of = |others: &[PeerState]| successor(&[std::slice::from_ref(&me), others].concat(), &[1, 2, 3], 1);
        assert_eq!(of(&[]), None, "alone");
        assert_eq!(of(&[state(2, MOST_BEHIND + 50, refused)]), None, "they would hand over to each other for ever");
        assert_eq!(of(&[state(4, MOST_BEHIND + 50, healthy)]), None, "it does not vote");
        assert_eq!(of(&[state(2, 49, healthy)]), None, "it is too far behind");
        assert_eq!(of(&[state(2, MOST_BEHIND + 50, "")]), None, "it says nothing");
        let both = [state(2, MOST_BEHIND + 40, healthy), state(3, MOST_BEHIND + 50, healthy)];
        assert_eq!(of(&both), Some(3));
        assert_eq!(of(&[both[0].clone(), state(3, MOST_BEHIND + 50, refused)]), Some(2));
    }
}
