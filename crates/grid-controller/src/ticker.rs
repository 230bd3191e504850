//! The leader's pulse: asks the planners what time has brought and proposes it.

use std::sync::Arc;
use std::time::Duration;

use grid_core::{Command, FireTimers};
use grid_fabric::closing;
use grid_plan::due_timers;
use grid_types::node::NodeStatus;
use tracing::debug;

use crate::elapsed::RECORD_EVERY_MS;
use crate::proposer::{NoReply, TOGETHER};
use crate::shared::Shared;

const TICK: Duration = Duration::from_millis(100);

/// Runs until the member ends.
pub async fn tick(shared: Arc<Shared>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if shared.leadership.has_changed().is_err() {
            return;
        }
        let (recorded_ms, mono_ms) = (shared.state().meta.now_ms, shared.clock.mono_ms());
        shared.elapsed.tick(recorded_ms, mono_ms, shared.raft.has_leader());
        let Some(term) = shared.open_term() else { continue };
        if shared.state().meta.superseded.is_some() {
            continue;
        }
        let commands = plan(&shared, term.now_ms());
        // Awaited, so that a slow log is not flooded with the same proposals.
        let replies = propose_all(&shared, &commands).await;
        for (command, reply) in commands.iter().zip(replies) {
            match (command, reply) {
                (_, Err(no_reply)) => {
                    debug!("a planned command had no effect: {no_reply}");
                    if let Command::ExpireLease(expire) = command {
                        shared.soft().backstop.not_expired(expire, shared.clock.mono_ms());
                    }
                }
                // What waits in its outbox must not run any more (V3).
                (Command::MarkNode(mark), Ok(_)) if mark.to == NodeStatus::Dead => {
                    shared.sessions().end(mark.session, closing::STALE_SESSION);
                }
                (_, Ok(_)) => {}
            }
        }
    }
}

fn plan(shared: &Shared, now_ms: u64) -> Vec<Command> {
    let mono_ms = shared.clock.mono_ms();
    let state = shared.state();
    let gives_out = shared.gives_out();
    let mut soft = shared.soft();
    if gives_out {
        soft.backstop.go_on(&state, mono_ms);
    }
    let mut commands = soft.liveness.tick(&state, mono_ms);
    commands.extend(due_timers(&state, now_ms));
    // W6: a restart takes back no more than this.
    let is_recorded = now_ms.saturating_sub(state.meta.now_ms) < RECORD_EVERY_MS;
    if commands.is_empty() && !is_recorded && state.next_due_ms().is_some() {
        commands.push(Command::FireTimers(FireTimers {}));
    }
    commands.extend(soft.backstop.expired(&state, mono_ms));
    commands
}

async fn propose_all(shared: &Shared, commands: &[Command]) -> Vec<Result<grid_core::Reply, NoReply>> {
    let mut waiting = Vec::new();
    for some in commands.chunks(TOGETHER) {
        let (answer, answered) = tokio::sync::oneshot::channel();
        shared.proposer.propose_together(some, move |replies| drop(answer.send(replies))).await;
        waiting.push((some.len(), answered));
    }
    let mut replies = Vec::with_capacity(commands.len());
    for (count, answered) in waiting {
        replies.extend(answered.await.unwrap_or_else(|_| vec![Err(NoReply::NotLeader); count]));
    }
    replies
}
