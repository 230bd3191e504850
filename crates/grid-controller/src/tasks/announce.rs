//! Workers are told who the controllers are whenever that changes: the one they were given may be gone one day.
//!
//! Level-triggered: each session remembers which list it was told, so one that opens while members change misses
//! nothing. A controller that is alone and always was has nothing to tell.

use std::sync::Arc;
use std::time::Duration;

use crate::shared::Shared;

const TICK: Duration = Duration::from_millis(500);
/// Sessions told in one tick, so that thousands of them are not woken at once.
const AT_ONCE: usize = 1_000;

/// Runs until the member ends.
pub async fn announce(shared: Arc<Shared>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut controllers, mut list, mut several) = (Vec::new(), 0, false);
    loop {
        interval.tick().await;
        if shared.tenure.leadership.has_changed().is_err() {
            return;
        }
        if shared.open_term().is_none() {
            continue;
        }
        let now = shared.controllers();
        if now != controllers {
            (controllers, list) = (now, list + 1);
        }
        several |= controllers.len() > 1;
        if several {
            shared.lead(|leader, _| leader.on_controllers(&controllers, list, AT_ONCE));
        }
    }
}
