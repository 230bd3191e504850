//! `RegisterNode`: a worker process begins a session (W1).
//!
//! A second process that claims the same node is refused while the known session lives. A registration names the leases
//! that the worker's journal has: a `once` lease that has begun (W3) and is not among them becomes `unknown` in this very
//! entry, before anything is offered in the session. `journal_id`, `boot` and nonce are not asked about that, because a
//! folder that was copied or put back has them, too. One that has not begun is offered as usual. A lease that another
//! process began and that this one has not started is as good as missing: nobody here knows how it ended.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::limits::{MAX_AGENTS, MAX_EXTRA_FACTS_BYTES, MAX_NODES};
use grid_types::node::{NodeFacts, NodeStatus};
use grid_types::{Event, JobId, LeaseKey, NodeId, NodeOrd, Reason, SessionId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::state::{Node, Past, RanState, SecretHash, State};
use crate::turn::Turn;

/// Begins a session of a node (W1).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RegisterNode {
    /// The node's own name.
    #[n(0)]
    pub id: NodeId,
    /// What the node says of itself.
    #[n(1)]
    pub facts: NodeFacts,
    /// The random id of its journal.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub journal_id: Vec<u8>,
    /// How often a process was started on its data folder.
    #[n(3)]
    pub boot: u64,
    /// Random, of this process.
    #[n(4)]
    #[cbor(with = "minicbor::bytes")]
    pub nonce: Vec<u8>,
    /// Whether the leader still hears the session it knows: soft state, so the leader stamps it.
    #[n(5)]
    pub known_session_lives: bool,
    /// A plain HTTP agent (W10).
    #[n(6)]
    #[cbor(default)]
    pub agent: bool,
    /// What the worker's journal has: leases that started, run, or ended without a final answer.
    #[n(7)]
    #[cbor(default)]
    pub outstanding: Vec<LeaseKey>,
    /// Of those, what this process has not started (W3).
    #[n(8)]
    #[cbor(default)]
    pub unstarted: Vec<LeaseKey>,
    /// Of the secret that the leader gives to this session.
    #[n(9)]
    #[cbor(default)]
    pub secret: Option<SecretHash>,
}

/// What a registration after a restore means for the node's journal.
struct Journal {
    asked: u32,
    is_continuous: bool,
}

impl RegisterNode {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        if let Some(rejection) = self.refused_by(turn.state) {
            return Err(rejection);
        }
        let known = turn.state.node_ids.get(&self.id).copied();
        if let Some(node) = known.and_then(|ord| turn.state.nodes.get(&ord)) {
            let (ord, becomes_agent) = (node.ord, self.agent && !node.agent);
            self.give_up_leases(turn, ord);
            if becomes_agent {
                turn.note_all_handed(ord);
            }
        }
        let meta = &mut turn.state.meta;
        meta.next_session += 1;
        let session = SessionId(meta.next_session);
        let ord = known.unwrap_or_else(|| {
            meta.next_ord += 1;
            NodeOrd(meta.next_ord)
        });
        let wall_ms = turn.state.meta.wall_ms;
        let journal = self.journal(turn.state, turn.state.nodes.get(&ord));
        let extra_before = turn.state.nodes.get(&ord).map_or(0, Node::extra_facts_bytes);
        let extra = turn.state.extra_facts_bytes + self.facts.extra_bytes();
        turn.state.extra_facts_bytes = extra.saturating_sub(extra_before);
        let (leased_jobs, waiting, registered_wall_ms, was, drained, past) = match turn.state.nodes.remove(&ord) {
            Some(old) if old.status == NodeStatus::Removed => {
                turn.state.removed_nodes = turn.state.removed_nodes.saturating_sub(1);
                (old.leased_jobs, old.waiting, wall_ms, old.status, false, old.past)
            }
            Some(old) => (old.leased_jobs, old.waiting, old.registered_wall_ms, old.status, old.drained, old.past),
            None => (Default::default(), Default::default(), wall_ms, NodeStatus::Ready, false, Default::default()),
        };
        let past = self.still_at_worker(past);
        let node = Node {
            ord,
            id: self.id.clone(),
            facts: Box::new(self.facts.clone()),
            status: if drained { NodeStatus::Draining } else { NodeStatus::Ready },
            session,
            journal_id: self.journal_id.clone(),
            boot: self.boot,
            nonce: self.nonce.clone(),
            registered_wall_ms,
            changed_wall_ms: wall_ms,
            changed_ms: turn.state.meta.now_ms,
            lapsed: false,
            leader_epoch: turn.state.meta.leadership.epoch,
            drained,
            agent: self.agent,
            met: turn.state.meta.leadership.epoch.generation,
            asked: journal.asked,
            is_continuous: journal.is_continuous,
            past,
            secret: self.secret,
            leased_jobs,
            waiting,
        };
        turn.state.node_ids.insert(self.id.clone(), ord);
        turn.state.nodes.insert(ord, node);
        turn.changes.nodes.insert(ord);
        turn.wake.insert(ord);
        turn.node_turned(ord, was);
        if known.is_some() {
            turn.record_node_event(&self.id, Event::NodeReturned { was, session });
        } else {
            turn.record_node_event(&self.id, Event::NodeRegistered { session });
        }
        Ok(Reply::Registered { node: ord, session })
    }

    /// Why the state refuses it. The leader asks before it proposes, so that a flood of registrations that come to nothing stays
    /// out of the log.
    #[must_use]
    pub fn refused_by(&self, state: &State) -> Option<Rejection> {
        let node = state.node_by_id(&self.id);
        let duplicate = || node.map_or(Ok(()), |node| self.check(node));
        let counted = self.check_nodes(state).and_then(|()| self.check_agents(state));
        counted.and_then(|()| self.check_facts(state)).and_then(|()| duplicate()).err()
    }

    /// Anyone who reaches a port may register under new names, so they are bounded; a known node may always come back.
    fn check_nodes(&self, state: &State) -> Result<(), Rejection> {
        let limit = state.meta.quotas.max_nodes.unwrap_or(MAX_NODES);
        let is_new = state.node_by_id(&self.id).is_none_or(|node| node.status == NodeStatus::Removed);
        if is_new && state.live_nodes() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            return Err(Rejection::TooManyNodes { limit });
        }
        Ok(())
    }

    fn check_agents(&self, state: &State) -> Result<(), Rejection> {
        if !self.agent || state.nodes.len() < MAX_AGENTS {
            return Ok(());
        }
        let is_live = |node: &&Node| node.agent && node.status != NodeStatus::Removed;
        let is_new = state.node_by_id(&self.id).filter(is_live).is_none();
        if is_new && state.nodes.values().filter(is_live).count() >= MAX_AGENTS {
            return Err(Rejection::TooManyAgents { limit: u32::try_from(MAX_AGENTS).unwrap_or(u32::MAX) });
        }
        Ok(())
    }

    /// The facts of all nodes are bounded in sum: each has its share, and together they have some bytes above it. So nodes with large
    /// facts never keep out one with usual facts, and a known node comes back as long as it needs no more than before.
    fn check_facts(&self, state: &State) -> Result<(), Rejection> {
        let (before, wanted) =
            (state.node_by_id(&self.id).map_or(0, Node::extra_facts_bytes), self.facts.extra_bytes());
        let others = state.extra_facts_bytes.saturating_sub(before);
        if wanted > before && others.saturating_add(wanted) > MAX_EXTRA_FACTS_BYTES {
            return Err(Rejection::TooManyFacts);
        }
        Ok(())
    }

    /// E2: a lease of a restored job that the worker had at its last answer and has no more is in doubt.
    fn still_at_worker(&self, mut past: BTreeMap<JobId, Past>) -> BTreeMap<JobId, Past> {
        for (job, of_job) in &mut past {
            for (step, ran) in &mut of_job.ran {
                let lease = LeaseKey { job: *job, job_epoch: ran.epoch, step: *step, attempt: ran.attempt };
                if ran.state == RanState::AtWorker && !self.outstanding.contains(&lease) {
                    ran.state = RanState::Outstanding;
                }
            }
        }
        past
    }

    /// E2: whether the journal has to be asked after a restore, and whether it is the one that the backup knows.
    fn journal(&self, state: &State, known: Option<&Node>) -> Journal {
        let generation = state.meta.leadership.epoch.generation;
        let same_process = known.is_some_and(|node| {
            let same = (&node.journal_id, &node.nonce) == (&self.journal_id, &self.nonce);
            same && node.status != NodeStatus::Removed && !node.agent && !self.agent
        });
        let was_continuous = known.is_none_or(|node| node.met < generation || node.is_continuous);
        let nothing_to_ask = || !state.jobs.values().any(|job| job.head.restored.is_some());
        let is_asked = self.agent || nothing_to_ask();
        Journal {
            asked: if is_asked { generation } else { known.map_or(0, |node| node.asked) },
            is_continuous: same_process && was_continuous,
        }
    }

    fn check(&self, node: &Node) -> Result<(), Rejection> {
        // What was removed is no node any more: the node that takes the name is new.
        if node.nonce == self.nonce || node.status == NodeStatus::Removed {
            return Ok(());
        }
        let way_out = "if this machine is a copy of that one, start it with --reset-journal and another --node-id";
        if self.known_session_lives && self.agent {
            return Err(Rejection::DuplicateNode(format!(
                "another agent or worker runs as {}, and it was heard a moment ago; stop one of the two, or give this one \
                 another name",
                self.id
            )));
        }
        if self.known_session_lives {
            return Err(Rejection::DuplicateNode(format!(
                "another worker is running as {}, and it answers; stop one of the two; {way_out}",
                self.id
            )));
        }
        Ok(())
    }

    /// W1: gives up what may have run and is not in the worker's journal.
    fn give_up_leases(&self, turn: &mut Turn<'_>, ord: NodeOrd) {
        let jobs: Vec<JobId> =
            turn.state.nodes.get(&ord).map(|n| n.leased_jobs.iter().copied().collect()).unwrap_or_default();
        let outstanding: BTreeSet<&LeaseKey> = self.outstanding.iter().collect();
        let unstarted: BTreeSet<&LeaseKey> = self.unstarted.iter().collect();
        let restarted = turn.state.nodes.get(&ord).is_some_and(|node| node.nonce != self.nonce);
        for id in jobs {
            if restarted {
                turn.note_interrupted(id, ord);
            }
            let (Some(job), Some(node)) = (turn.state.jobs.get(&id), turn.state.nodes.get(&ord)) else { continue };
            let (Some(position), Some((lease, revoked))) = (job.position(ord), job.lease_at(ord)) else { continue };
            let began_elsewhere = job.begun(ord).is_some_and(|nonce| nonce != self.nonce) && unstarted.contains(&lease);
            if job.never_ran(node) || (outstanding.contains(&lease) && !began_elsewhere) {
                continue;
            }
            let another = node.journal_id != self.journal_id;
            // An agent keeps no journal: what it received stays with it as long as it is the same one (W10).
            let is_same_agent = self.agent && node.agent && !another;
            let is_once = job.runs_once(&job.cells[position]);
            if (is_once && !is_same_agent) || (revoked.is_some() && another) {
                turn.lose_lease(id, position, Reason::NotInJournal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::{Command, Rejection, Reply};
    use crate::world::{World, leaf};
    use grid_types::Outcome;
    use grid_types::limits::MAX_EXTRA_FACTS_BYTES;

    #[test]
    fn w1_the_first_registration_gives_an_ordinal_and_each_a_session() {
        let mut world = World::new();
        let first = world.register("web-01", b"journal-a", 1, b"nonce-1", false);
        let again = world.register("web-01", b"journal-a", 1, b"nonce-1", true);
        let (Ok(Reply::Registered { node: a, session: s1 }), Ok(Reply::Registered { node: b, session: s2 })) =
            (first, again)
        else {
            panic!("both are accepted: it is the same process")
        };
        assert_eq!(a, b);
        assert!(s2 > s1);
    }

    #[test]
    fn w1_another_process_while_the_session_lives_is_a_duplicate() {
        let mut world = World::new();
        world.register("web-01", b"journal-a", 1, b"nonce-1", false).unwrap();
        for journal in [b"journal-a".as_slice(), b"journal-b"] {
            let clone = world.register("web-01", journal, 2, b"nonce-2", true);
            let Err(Rejection::DuplicateNode(message)) = clone else { panic!("{clone:?}") };
            assert!(message.contains("--reset-journal"), "{message}");
        }
    }

    #[test]
    fn w1_a_folder_that_was_put_back_is_accepted_as_long_as_nobody_else_runs_as_the_node() {
        let mut world = World::new();
        world.register("web-01", b"journal-a", 5, b"nonce-1", false).unwrap();
        for (boot, nonce) in [(4, b"nonce-2"), (5, b"nonce-3"), (6, b"nonce-4")] {
            assert!(world.register("web-01", b"journal-a", boot, nonce, false).is_ok());
        }
    }

    #[test]
    fn issue14_4_new_nodes_are_bounded_and_known_ones_come_back() {
        let mut world = World::with_nodes(2);
        world.state.meta.quotas.max_nodes = Some(2);
        let refused = world.register("node-3", b"journal-3", 1, b"nonce-3", false);
        assert_eq!(refused, Err(Rejection::TooManyNodes { limit: 2 }));
        world.register("node-1", b"journal-1", 2, b"again", false).unwrap();
        world.remove(1, true).unwrap();
        world.register("node-3", b"journal-3", 1, b"nonce-3", false).unwrap();
        let refused = world.register("node-1", b"journal-1", 3, b"again", false);
        assert_eq!(refused, Err(Rejection::TooManyNodes { limit: 2 }), "what was removed is new");
        assert_eq!(world.state.live_nodes(), 2);
    }

    #[test]
    fn issue14_4_facts_are_bounded_in_sum_and_usual_nodes_always_register() {
        let mut world = World::with_nodes(1);
        let registration = |name: &str, labels: usize| {
            let command = World::register_command(name, name.as_bytes(), 1, name.as_bytes(), 4);
            let Command::RegisterNode(mut command) = command else { unreachable!() };
            command.facts.labels = (0..labels).map(|i| (format!("label-{i}"), "v".repeat(250))).collect();
            command
        };
        // After every command I13 compares the sum with that of a rebuilt state.
        let register = |world: &mut World, name, labels| {
            world.one(Command::RegisterNode(registration(name, labels))).unwrap();
        };
        register(&mut world, "wide-1", 50);
        let each = world.state.extra_facts_bytes;
        assert!(each > 8 * 1024, "{each}");
        register(&mut world, "wide-2", 60);
        register(&mut world, "wide-2", 50);
        assert_eq!(world.state.extra_facts_bytes, 2 * each);

        // As if many such nodes were registered.
        let mut full = world.state.clone();
        full.extra_facts_bytes = MAX_EXTRA_FACTS_BYTES;
        let refused = |name, labels| registration(name, labels).refused_by(&full);
        assert_eq!(refused("wide-3", 50), Some(Rejection::TooManyFacts));
        assert_eq!(refused("wide-2", 51), Some(Rejection::TooManyFacts), "it needs more than before");
        for (name, labels) in [("wide-2", 50), ("wide-2", 49), ("usual", 3), ("node-1", 3)] {
            assert_eq!(refused(name, labels), None, "{name}");
        }
        full.extra_facts_bytes -= each;
        assert_eq!(registration("wide-3", 50).refused_by(&full), None, "one more fits");

        let ord = world.state.node_by_id(&"wide-1".parse().unwrap()).unwrap().ord.0;
        world.remove(ord, true).unwrap();
        assert_eq!(world.state.extra_facts_bytes, each, "its bytes are free again");
        register(&mut world, "wide-1", 50);
        assert_eq!(world.state.extra_facts_bytes, 2 * each);
    }

    #[test]
    fn w1_a_lost_journal_turns_once_leases_unknown_and_keeps_the_others() {
        let mut world = World::with_nodes(1);
        let once = world.submit("all", vec![leaf("test", "record")]);
        let pure = world.submit("all", vec![leaf("ping", "echo")]);
        world.begin(world.offered()[0]).unwrap();
        world.register("node-1", b"another journal", 9, b"n", false).unwrap();
        assert_eq!(world.rows_of(once).values().copied().collect::<Vec<_>>(), [Outcome::Unknown]);
        assert_eq!(world.count(pure, 0, Outcome::Running), 1);
        let offered = world.offered();
        assert_eq!(offered.len(), 1, "the pure one is still out, under the new session");
        assert_eq!(offered[0].1.job, pure);
    }
}
