//! Tracks what each agent received and reported between two polls, and builds its poll response.
//!
//! W5: what may run again is given again if the agent does not say that it holds it: after [`GIVE_AGAIN_MS`], at once after a change of
//! leader. W10: a `once` lease is given in one answer, never twice.
//! Not here: polls that wait, and the answer's form (`agents`).

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{Effect, Node, Offer, State, node_effects};
use grid_types::decl::EffectClass;
use grid_types::{LeaseId, LeaseKey, NodeOrd, SessionId};

use super::reconcile::is_wanted;
use super::{Leader, Now, Out};

/// W5: what an agent does not hold is given again after this long.
pub const GIVE_AGAIN_MS: u64 = 3_000;
/// Of one answer, about: more waits for the next poll.
const MOST_BYTES: usize = 2 * 1024 * 1024;

#[derive(Default)]
pub struct Agents {
    by_node: BTreeMap<NodeOrd, Agent>,
}

#[derive(Default)]
struct Agent {
    open_polls: u32,
    heard_mono_ms: u64,
    received: Received,
}

/// When it received what, in this term.
#[derive(Debug, Default)]
pub struct Received {
    pub given_mono_ms: BTreeMap<LeaseKey, u64>,
    pub revoked_mono_ms: BTreeMap<LeaseKey, u64>,
}

/// An agent asks for work.
#[derive(Debug, Clone, Copy)]
pub struct AgentAsks<'a> {
    pub node: NodeOrd,
    pub session: SessionId,
    /// When it asked: `outstanding` is true of that moment.
    pub asked_mono_ms: u64,
    /// The leases that it says it has.
    pub outstanding: &'a BTreeSet<LeaseId>,
}

/// What an agent should receive now.
#[derive(Debug, Default, PartialEq)]
pub struct Due {
    pub offers: Vec<Offer>,
    pub revoked: Vec<LeaseKey>,
}

impl Agents {
    /// Whether it asked in this term.
    pub fn knows(&self, node: NodeOrd) -> bool {
        self.by_node.contains_key(&node)
    }

    /// The agents that asked in this term.
    pub fn nodes(&self) -> impl Iterator<Item = NodeOrd> {
        self.by_node.keys().copied()
    }

    /// W1: whether an agent asks now, or did not long ago.
    pub fn lives(&self, node: NodeOrd, now_mono_ms: u64, silent_limit_ms: u64) -> bool {
        self.by_node.get(&node).is_some_and(|agent| {
            agent.open_polls > 0 || now_mono_ms.saturating_sub(agent.heard_mono_ms) < silent_limit_ms
        })
    }
}

impl Leader {
    /// A poll of an agent begins to wait; it ends with [`Leader::on_agent_left`].
    pub fn on_agent_waits(&mut self, node: NodeOrd) {
        self.agents.by_node.entry(node).or_default().open_polls += 1;
    }

    pub fn on_agent_left(&mut self, node: NodeOrd) {
        if let Some(agent) = self.agents.by_node.get_mut(&node) {
            agent.open_polls = agent.open_polls.saturating_sub(1);
        }
    }

    /// An agent registered, or registered again.
    pub fn on_agent_registered(&mut self, now: &Now<'_>, node: NodeOrd) {
        if let Some(known) = now.state.nodes.get(&node) {
            self.backstop.new_session(now.state, known, !now.mandate.offers(), now.mono_ms);
        }
    }

    /// An agent speaks: its polls and results are its heartbeat.
    pub fn on_agent_heard(&mut self, now: &Now<'_>, node: NodeOrd, session: SessionId) -> Vec<Out> {
        let mut outs = Vec::new();
        if self.sessions.node_of(session).is_none() {
            self.begin_session(now, node, session, &mut outs);
        }
        if let Some(known) = self.sessions.get_mut(session) {
            (known.heard_mono_ms, known.heard_wall_ms) = (now.mono_ms, now.wall_ms);
        }
        let agent = self.agents.by_node.entry(node).or_default();
        agent.heard_mono_ms = agent.heard_mono_ms.max(now.mono_ms);
        self.liveness.heard(node, session);
        outs
    }

    /// What it should receive now. Offers go through the log before the answer ([`Leader::on_agent_answered`]).
    pub fn on_agent_poll(&mut self, now: &Now<'_>, asks: AgentAsks<'_>) -> Due {
        let Some(node) = now.state.nodes.get(&asks.node) else { return Due::default() };
        let agent = self.agents.by_node.entry(asks.node).or_default();
        let times = Times { now: now.mono_ms, asked: asks.asked_mono_ms };
        let mut due = due(now.state, node, asks.outstanding, &mut agent.received, times);
        // E8: it stays in the state, and an open poll looks again with every heartbeat.
        if !now.mandate.offers() {
            due.offers.clear();
        }
        due
    }

    /// This is in the answer to an agent; the log has that it received the offers.
    pub fn on_agent_answered(&mut self, now: &Now<'_>, node: NodeOrd, answer: &Due) {
        let agent = self.agents.by_node.entry(node).or_default();
        for offer in &answer.offers {
            agent.received.given_mono_ms.insert(offer.lease, now.mono_ms);
            self.backstop.accepted(node, offer.lease, offer.timeout_ms(), now.mono_ms);
        }
        for lease in &answer.revoked {
            agent.received.revoked_mono_ms.insert(*lease, now.mono_ms);
        }
    }

    /// How an agent's lease ended is recorded.
    pub fn on_agent_result(&mut self, node: NodeOrd, lease: LeaseKey) {
        self.backstop.ended(node, lease);
    }
}

#[derive(Clone, Copy)]
struct Times {
    now: u64,
    asked: u64,
}

impl Times {
    /// `outstanding` is true of the moment of the poll: what was sent after it is not in there.
    fn again(self, last: Option<&u64>) -> bool {
        last.is_none_or(|last| *last < self.asked && self.now.saturating_sub(*last) >= GIVE_AGAIN_MS)
    }

    /// Said again from time to time, until it is confirmed.
    fn once_more(self, last: Option<&u64>) -> bool {
        last.is_none_or(|last| self.now.saturating_sub(*last) >= GIVE_AGAIN_MS)
    }
}

fn due(state: &State, node: &Node, outstanding: &BTreeSet<LeaseId>, received: &mut Received, times: Times) -> Due {
    let mut due = Due::default();
    let mut size = 0;
    let mut current = BTreeSet::new();
    for effect in node_effects(state, node) {
        match effect {
            Effect::Offer(offer) => {
                current.insert(offer.lease);
                let holds = outstanding.contains(&LeaseId { node: node.ord, lease: offer.lease });
                let again = !holds && is_due_again(state, node, received, times, &offer);
                if size < MOST_BYTES && (again || !is_handed_out(state, node, offer.lease)) {
                    size += size_of(&offer);
                    due.offers.push(offer);
                }
            }
            Effect::Revoke { lease, .. } => {
                current.insert(lease);
                if times.once_more(received.revoked_mono_ms.get(&lease)) {
                    due.revoked.push(lease);
                }
            }
            Effect::Begun { .. } | Effect::Forget { .. } | Effect::Deposed => {}
        }
    }
    // W5: what it holds and nobody knows. What is settled it will hear when it reports.
    for LeaseId { node: of, lease } in outstanding {
        let unknown = *of == node.ord && !current.contains(lease) && !is_wanted(state, node, lease);
        if unknown && times.once_more(received.revoked_mono_ms.get(lease)) {
            due.revoked.push(*lease);
        }
    }
    // What is over needs no memory.
    received.given_mono_ms.retain(|lease, _| current.contains(lease));
    received
        .revoked_mono_ms
        .retain(|lease, _| current.contains(lease) || outstanding.contains(&LeaseId { node: node.ord, lease: *lease }));
    due
}

fn is_handed_out(state: &State, node: &Node, lease: LeaseKey) -> bool {
    state.jobs.get(&lease.job).and_then(|job| job.handed(node.ord)).is_some()
}

/// Of an offer that was given before.
fn is_due_again(state: &State, node: &Node, received: &Received, times: Times, offer: &Offer) -> bool {
    let handed = state.jobs.get(&offer.lease.job).and_then(|job| job.handed(node.ord));
    let once = offer.task().is_none_or(|task| task.effect == EffectClass::Once);
    // Another leader gave it, and what it wrote down about that is gone.
    let by_another = handed != Some(state.meta.leadership.epoch);
    !once && (by_another || times.again(received.given_mono_ms.get(&offer.lease)))
}

fn size_of(offer: &Offer) -> usize {
    let params = offer.task().map(|task| serde_json::to_string(&task.params).map_or(0, |text| text.len()));
    params.unwrap_or(0) + 300
}

#[cfg(test)]
mod tests;
