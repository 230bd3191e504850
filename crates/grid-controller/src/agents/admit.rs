//! Registers agents through the log: at the first poll, and again when the process or its facts have changed.
//!
//! W1: a second process under a name that polls is refused, if the two differ in `instance`. V3: an agent that
//! was declared dead registers again. One that an operator removed stays removed; its next process is a new agent.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{Command, Node, RegisterNode, State};
use grid_types::api::AGENT_SLOTS;
use grid_types::decl::builtin;
use grid_types::node::{Capacity, NodeFacts, NodeStatus};
use grid_types::{Code, Faults};

use super::Admitted;
use crate::control::{AgentFacts, AgentPoll, Permit, Refusal, refused};
use crate::controller::Controller;
use crate::reply::NoReply;

/// Beginning of an agent's identity, which no worker's can have.
const IDENTITY: &[u8] = b"agent:";

impl Controller {
    /// Registers it if that is needed.
    pub(super) async fn admit_agent(&self, permit: Permit, poll: &AgentPoll) -> Result<Admitted, Refusal> {
        if let Some(known) = known(&self.shared.state(), poll)? {
            return Ok(known);
        }
        let _one = self.shared.leading.polls.admission.lock().await;
        let lives = self
            .shared
            .look(|leader, now| now.state.node_by_id(&poll.agent).is_some_and(|node| leader.lives(now, node.ord)));
        let known_session_lives = lives.unwrap_or_default();
        let command = {
            let state = self.shared.state();
            if let Some(known) = known(&state, poll)? {
                return Ok(known);
            }
            let node = state.node_by_id(&poll.agent);
            let before = node.filter(|node| node.agent && node.status != NodeStatus::Removed);
            let (journal_id, nonce) = (identity(poll), identity(poll));
            let (id, facts) = (poll.agent.clone(), facts(poll, before));
            facts.check_size().map_err(too_wide)?;
            RegisterNode {
                id,
                facts,
                journal_id,
                boot: 0,
                nonce,
                known_session_lives,
                agent: true,
                outstanding: Vec::new(),
                unstarted: Vec::new(),
                secret: None,
            }
        };
        let rejection = command.refused_by(&self.shared.state());
        if let Some(rejection) = rejection {
            return Err(refused(NoReply::Rejected(rejection)));
        }
        self.propose(permit, &Command::RegisterNode(command)).await.map_err(refused)?;
        self.shared.look(|leader, now| {
            if let Some(node) = now.state.node_by_id(&poll.agent) {
                leader.on_agent_registered(now, node.ord);
            }
        });
        let state = self.shared.state();
        // Another registration may have followed this one; the agent registers again with its next poll.
        let gone =
            || Refusal::new(Code::Conflict, format!("agent {} changed while it registered; ask again", poll.agent));
        known(&state, poll)?.ok_or_else(gone)
    }
}

fn too_wide(why: String) -> Refusal {
    let mut faults = Faults::default();
    faults.add("labels", why);
    Refusal::invalid(faults)
}

/// The agent, if it is registered as it says it is.
fn known(state: &State, poll: &AgentPoll) -> Result<Option<Admitted>, Refusal> {
    let Some(node) = state.node_by_id(&poll.agent) else { return Ok(None) };
    let is_it = node.agent && node.nonce == identity(poll);
    if is_it && node.status == NodeStatus::Removed && !node.lapsed {
        let why = format!(
            "agent {0} was removed; to bring it back as a new one, ask with another \"instance\" than before",
            poll.agent
        );
        return Err(Refusal::new(Code::Conflict, why));
    }
    let is_current = is_it && !node.status.is_gone() && facts(poll, Some(node)) == *node.facts;
    Ok(is_current.then_some(Admitted { node: node.ord, session: node.session }))
}

fn identity(poll: &AgentPoll) -> Vec<u8> {
    [IDENTITY, poll.instance.as_deref().unwrap_or_default().as_bytes()].concat()
}

fn facts(poll: &AgentPoll, before: Option<&Node>) -> NodeFacts {
    let mut facts = before.map_or_else(|| first_facts(poll), |node| (*node.facts).clone());
    let AgentFacts { hostname, groups, labels, backends, slots } = poll.facts.clone();
    facts.hostname = hostname.unwrap_or(facts.hostname);
    facts.groups = groups.unwrap_or(facts.groups);
    facts.labels = labels.unwrap_or(facts.labels);
    facts.backends = backends.unwrap_or(facts.backends);
    facts.capacity.slots = slots.unwrap_or(facts.capacity.slots);
    facts
}

/// The facts of an agent that sends none: it runs the backends that a worker enables by default.
fn first_facts(poll: &AgentPoll) -> NodeFacts {
    let usual = builtin().iter().filter(|backend| backend.on_by_default);
    let backends: BTreeMap<String, BTreeSet<String>> = usual
        .map(|backend| (backend.name.to_owned(), backend.actions.iter().map(|action| action.name.to_owned()).collect()))
        .collect();
    NodeFacts {
        hostname: poll.agent.to_string(),
        backends,
        capacity: Capacity { slots: AGENT_SLOTS, ..Capacity::default() },
        ..NodeFacts::default()
    }
}
