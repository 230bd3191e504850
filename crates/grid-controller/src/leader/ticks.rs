//! Runs the leader's ticks: marks silent nodes, fires due timers and expires leases past their deadline.

use grid_core::{Command, ExpireLease, FireTimers};
use grid_fabric::CloseReason;
use grid_plan::due_timers;
use grid_types::node::NodeStatus;
use grid_types::{NodeOrd, SessionId};

use super::{Leader, Now, Origin, Out, Proposal};
use crate::reply::{Replied, TOGETHER};

/// W6: a restart takes back no more leader time than this. Long against a write, short against a deadline.
pub const RECORD_EVERY_MS: u64 = 30_000;

/// What the leader remembers of a planned command until its reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    Expire(ExpireLease),
    /// The node of this session is declared dead.
    Dead(SessionId),
    Other,
}

impl Planned {
    fn of(command: &Command) -> Self {
        match command {
            Command::ExpireLease(expire) => Self::Expire(expire.clone()),
            Command::MarkNode(mark) if mark.to == NodeStatus::Dead => Self::Dead(mark.session),
            _ => Self::Other,
        }
    }
}

impl Leader {
    /// `leader_ms`: leader time. The next tick comes after the replies to this one, so that a slow log is not flooded with the same
    /// proposals.
    pub fn on_tick(&mut self, now: &Now<'_>, leader_ms: u64) -> Vec<Out> {
        if !now.mandate.is_open() || now.state.meta.superseded.is_some() {
            return Vec::new();
        }
        if now.mandate.offers() {
            self.backstop.go_on(now.state, now.mono_ms);
        }
        let stands_still = |node: NodeOrd| self.broker_is_down && !self.sessions.has_connection(node);
        let mut commands = self.liveness.tick_but(now.state, now.mono_ms, stands_still);
        commands.extend(due_timers(now.state, leader_ms));
        let is_recorded = leader_ms.saturating_sub(now.state.meta.now_ms) < RECORD_EVERY_MS;
        if commands.is_empty() && !is_recorded && now.state.next_due_ms().is_some() {
            commands.push(Command::FireTimers(FireTimers {}));
        }
        commands.extend(self.backstop.expired(now.state, now.mono_ms));
        let mut commands = commands.into_iter();
        let mut outs = Vec::new();
        loop {
            let some: Vec<Command> = commands.by_ref().take(TOGETHER).collect();
            if some.is_empty() {
                return self.stamped(outs);
            }
            let origin = Origin::Tick(some.iter().map(Planned::of).collect());
            outs.push(Proposal::out(some, origin));
        }
    }

    pub(super) fn planned_replied(
        &mut self,
        now: &Now<'_>,
        planned: &[Planned],
        replies: &[Replied],
        outs: &mut Vec<Out>,
    ) {
        for (planned, reply) in planned.iter().zip(replies) {
            match (planned, reply) {
                (Planned::Expire(expire), Err(_)) => self.backstop.not_expired(expire, now.mono_ms),
                // What waits in its queue must not run any more (V3).
                (Planned::Dead(session), Ok(_)) => self.end_session(*session, CloseReason::StaleSession, outs),
                _ => {}
            }
        }
    }
}
