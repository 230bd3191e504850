//! Simulates the side of the controllers: calls of workers, commits, terms.

use std::collections::BTreeMap;

use grid_controller::leader::{Backlog, Leader, Mandate, Out, Proposal, When};
use grid_core::{Command, Reply};
use grid_fabric::{LinkError, Peer};
use grid_proto::v1;
use grid_types::{NodeOrd, SessionId};
use grid_worker::engine::Input;

use super::network::broken;
use super::{Call, Event, Simulation, TICK_MS};
use crate::controller::{Committed, Then};

/// How long an answer waits for a message that it could travel with.
const WITH_NEXT_MS: u64 = 10;

impl Simulation {
    /// The leader is replaced. Of what it proposed, a part is committed.
    pub fn change_leader(&mut self) {
        let waiting = self.controller.waiting();
        let committed = if waiting > 0 { self.dice.roll(waiting as u64 + 1) } else { 0 };
        let ended = self.controller.depose(self.now_ms, usize::try_from(committed).unwrap_or(usize::MAX));
        self.recorded();
        self.note(|all| format!("the leader changes: epoch {}", all.controller.epoch()));
        for (session, machine) in ended {
            self.send_down(machine, broken(session));
        }
        let epoch = self.controller.epoch().wire();
        let at_ms = self.now_ms + 100 + self.dice.roll(1_500);
        self.schedule.at(at_ms, Event::OpenTerm { epoch });
    }

    pub(super) fn open_term(&mut self, epoch: u64) {
        if self.controller.epoch().wire() == epoch && !self.controller.leads() {
            self.controller.open_term(self.now_ms);
        }
    }

    /// E5, E8: for some seconds the leader may not offer, or may not answer.
    pub(super) fn lose_mandate(&mut self) {
        self.controller.mandate = if self.chance(50) { Mandate::Paused } else { Mandate::CutOff };
        self.note(|all| format!("the leader is {:?}", all.controller.mandate));
        let epoch = self.controller.epoch().wire();
        let at_ms = self.now_ms + self.dice.roll(5_000);
        self.schedule.at(at_ms, Event::FullMandate { epoch });
    }

    pub(super) fn full_mandate(&mut self, epoch: u64) {
        if self.controller.epoch().wire() == epoch {
            self.controller.mandate = Mandate::Full;
            let outs = self.controller.lead(self.now_ms, Leader::on_resumed);
            self.perform(outs);
        }
    }

    pub(super) fn tick(&mut self) {
        self.schedule.at(self.now_ms + TICK_MS, Event::Tick);
        let now_ms = self.now_ms;
        let outs = self.controller.lead(now_ms, |leader, now| leader.on_tick(now, now_ms));
        self.perform(outs);
    }

    pub(super) fn propose(&mut self, commands: Vec<Command>, then: Then) {
        self.controller.propose(commands, then);
        let at_ms = self.now_ms + 1 + self.dice.roll(6);
        self.schedule.at(at_ms, Event::Commit);
    }

    /// Without a leader nothing is committed; what waits is decided when the term is over.
    pub(super) fn commit(&mut self) {
        let waiting = self.controller.waiting();
        if waiting == 0 || !self.controller.leads() {
            return;
        }
        let Committed { replies, batch } = self.controller.commit(self.now_ms, waiting);
        self.recorded();
        // In the real controller two tasks bring these to the leader.
        let answers_first = self.chance(50);
        let mut batch = Some(batch);
        if answers_first && let Some(batch) = batch.take() {
            let outs = self.controller.lead(self.now_ms, |leader, now| leader.on_applied(now, batch));
            self.perform(outs);
        }
        for (then, replies) in replies {
            match then {
                Then::Nothing => {}
                Then::Leader { term, origin } => {
                    if origin.needs(&replies) {
                        let outs = self
                            .controller
                            .lead(self.now_ms, |leader, now| leader.on_replied(now, term, origin, &replies));
                        self.perform(outs);
                    }
                }
                Then::Register { machine, process, secret } => {
                    let input = match replies.first() {
                        Some(Ok(Reply::Registered { node, session })) => {
                            let (reply, outs) = self.controller.registered(self.now_ms, *node, *session, secret);
                            self.perform(outs);
                            Input::Registered { reply: Box::new(reply), leader: "c1".to_owned() }
                        }
                        other => Input::NotRegistered(LinkError::Unreachable(format!("{other:?}"))),
                    };
                    self.send_down_to(machine, process, input);
                }
            }
        }
        if let Some(batch) = batch.take() {
            let outs = self.controller.lead(self.now_ms, |leader, now| leader.on_applied(now, batch));
            self.perform(outs);
        }
    }

    /// A call of a worker arrives. `process` 0: nobody waits for the answer.
    pub(super) fn called(&mut self, machine: usize, process: u64, call: Call) {
        match call {
            Call::Register(request) => {
                let mut secret = [0; 16];
                secret[..8].copy_from_slice(&self.dice.number().to_be_bytes());
                match self.controller.registration(self.now_ms, *request, &secret) {
                    Ok(command) => self.propose(vec![command], Then::Register { machine, process, secret }),
                    Err(refusal) => {
                        self.send_down_to(machine, process, Input::NotRegistered(LinkError::Refused(refusal)));
                    }
                }
            }
            Call::Open { credential, first } => {
                let session = credential.session;
                let secret = &credential.secret.value;
                let opened = self.controller.lead(self.now_ms, |leader, now| {
                    leader.on_opened(now, session, secret, &Peer::Connection(None)).ok()
                });
                let Some(outs) = opened else { return self.send_down_to(machine, process, broken(session)) };
                self.perform(outs);
                self.controller.streams.insert(session, machine);
                self.send_down_to(machine, process, Input::Opened { session });
                self.received(session, *first);
            }
            Call::Message { session, message } => self.received(session, *message),
        }
    }

    fn received(&mut self, session: SessionId, message: grid_proto::v1::FromWorker) {
        if !self.controller.streams.contains_key(&session) {
            return;
        }
        let outs =
            self.controller.lead(self.now_ms, |leader, now| leader.on_message(now, session, message, Backlog::Empty));
        self.perform(outs);
    }

    pub(super) fn stream_ended(&mut self, session: SessionId) {
        if self.controller.streams.remove(&session).is_some() {
            self.controller.lead(self.now_ms, |leader, _| leader.on_closed(session));
        }
    }

    /// The connection of a machine breaks; each side notices at its own time.
    pub(super) fn break_stream(&mut self, machine: usize) {
        let Some(session) = self.machines[machine].session else { return };
        self.note(|all| format!("the stream of {} breaks", all.machines[machine].name));
        let at_ms = self.later_ms();
        self.schedule.at(at_ms, Event::StreamEnded { session });
        self.send_down(machine, broken(session));
    }

    /// A message goes to the machine that has the session, if its stream is open.
    fn say(&mut self, session: SessionId, mut message: v1::ToWorker) {
        let Some(machine) = self.controller.streams.get(&session).copied() else { return };
        if message.leader_epoch != self.controller.epoch().wire() {
            self.check.violations.push(format!("W2: a message without its epoch: {message:?}"));
        }
        message.controllers.clear();
        self.send_down(machine, Input::Received { session, message: Box::new(message) });
    }

    /// Does what the leader wants done.
    fn perform(&mut self, outs: Vec<Out>) {
        for out in outs {
            match out {
                Out::Send { session, message, when } => {
                    self.now_ms += u64::from(when == When::WithNext) * WITH_NEXT_MS;
                    self.say(session, message);
                    self.now_ms -= u64::from(when == When::WithNext) * WITH_NEXT_MS;
                }
                // Each copy has a fate of its own, as on a broker.
                Out::OfferMany(many) => {
                    many.recipients.iter().for_each(|to| self.say(to.session, many.message_for(to.session)));
                }
                Out::Close { session, .. } => {
                    if let Some(machine) = self.controller.streams.remove(&session) {
                        self.controller.lead(self.now_ms, |leader, _| leader.on_closed(session));
                        self.send_down(machine, broken(session));
                    }
                }
                Out::Propose(Proposal { term, commands, origin }) => {
                    self.propose(commands, Then::Leader { term, origin });
                }
                Out::Wake { .. } => {}
                Out::Invented { node, leases } => {
                    self.note(|_| format!("node {node} named {leases} leases that were never granted"));
                    self.check.violations.push(format!("node {node} named {leases} leases that were never granted"));
                }
            }
        }
    }

    /// The machine of each node.
    pub(super) fn nodes(&self) -> BTreeMap<NodeOrd, usize> {
        let number = |id: &str| self.machines.iter().position(|machine| machine.name == id);
        let nodes = self.controller.state.nodes.values();
        nodes.filter_map(|node| Some((node.ord, number(node.id.as_str())?))).collect()
    }

    fn recorded(&mut self) {
        let history = std::mem::take(&mut self.controller.history);
        if !history.is_empty() {
            let nodes = self.nodes();
            self.note(|_| format!("recorded: {history:?}"));
            self.check.recorded(&history, &nodes);
        }
    }
}
