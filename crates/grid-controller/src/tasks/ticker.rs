//! Gives the leader the time every 100 ms, and proposes what has become due.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::shared::Shared;

const TICK: Duration = Duration::from_millis(100);

/// Runs until the member ends.
pub async fn tick(shared: Arc<Shared>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if shared.tenure.leadership.has_changed().is_err() {
            return;
        }
        let (recorded_ms, mono_ms) = (shared.state().meta.now_ms, shared.clock.mono_ms());
        shared.tenure.elapsed.tick(recorded_ms, mono_ms, shared.log.raft.has_leader());
        let Some(term) = shared.open_term() else { continue };
        let to_do = shared.lead(|leader, now| leader.on_tick(now, term.now_ms()));
        // Awaited, so that a slow log is not flooded with the same proposals.
        let span = tracing::debug_span!("tick", epoch = %term.epoch);
        shared.propose_and_reply(to_do.proposals).instrument(span).await;
    }
}
