use std::collections::BTreeSet;

use grid_core::{
    BeginTerm, CancelJob, Command, Entry, EntryHead, HandOut, Quotas, RegisterNode, RequestHash, State, SubmitJob,
    apply,
};
use grid_types::node::{Capacity, NodeFacts};
use grid_types::{JobId, LeaseId, LeaseKey, NodeOrd};
use serde_json::json;

use super::{GIVE_AGAIN_MS, Received, Times, due};

const AGENT: NodeOrd = NodeOrd(1);

/// An agent with two slots, and what it received.
struct World {
    state: State,
    received: Received,
    outstanding: BTreeSet<LeaseId>,
}

impl World {
    fn new() -> Self {
        let mut world = Self { state: State::default(), received: Received::default(), outstanding: BTreeSet::new() };
        world.begin_term(1);
        let actions = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        world.apply(Command::RegisterNode(RegisterNode {
            id: "a1".parse().unwrap(),
            facts: NodeFacts {
                backends: [("ping".to_owned(), actions(&["echo"])), ("test".to_owned(), actions(&["record"]))].into(),
                capacity: Capacity { slots: 2, ..Capacity::default() },
                ..NodeFacts::default()
            },
            journal_id: Vec::new(),
            boot: 0,
            nonce: Vec::new(),
            known_session_lives: false,
            agent: true,
            outstanding: Vec::new(),
            unstarted: Vec::new(),
            secret: None,
        }));
        world
    }

    fn begin_term(&mut self, term: u64) {
        let head = EntryHead { term, ..self.head() };
        let command = Command::BeginTerm(BeginTerm {
            term,
            leader: "c1".parse().unwrap(),
            api_url: String::new(),
            grpc_addr: String::new(),
            quotas: Quotas::default(),
            cluster_id: "c".to_owned(),
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        });
        assert!(apply(&mut self.state, &Entry { head, commands: vec![command] }).replies[0].is_ok());
    }

    fn head(&self) -> EntryHead {
        let leadership = &self.state.meta.leadership;
        EntryHead { epoch: leadership.epoch, term: leadership.term, now_ms: 0, wall_ms: 0, commands: 1 }
    }

    fn apply(&mut self, command: Command) {
        let entry = Entry { head: self.head(), commands: vec![command] };
        let applied = apply(&mut self.state, &entry);
        assert!(applied.replies[0].is_ok(), "{:?}", applied.replies);
    }

    fn submit(&mut self, id: u64, backend: &str, action: &str) -> JobId {
        let params = if action == "record" { json!({"path": "/x"}) } else { json!({}) };
        let body = json!({"target": "all", "tasks": [{"backend": backend, "action": action, "params": params}]});
        let (id, namespace) = (JobId(id), "default".parse().unwrap());
        let spec = grid_types::job::parse_job(&body).unwrap();
        self.apply(Command::SubmitJob(SubmitJob {
            id,
            namespace,
            spec,
            key: None,
            plan: None,
            request: RequestHash::default(),
        }));
        id
    }

    /// A question asked at one time and looked at at another: what is given and what is revoked.
    fn ask(&mut self, asked: u64, now: u64) -> (Vec<LeaseKey>, Vec<LeaseKey>) {
        let node = &self.state.nodes[&AGENT];
        let due = due(&self.state, node, &self.outstanding, &mut self.received, Times { now, asked });
        let leases: Vec<LeaseKey> = due.offers.iter().map(|offer| offer.lease).collect();
        for lease in &due.revoked {
            self.received.revoked_mono_ms.insert(*lease, now);
        }
        if !leases.is_empty() {
            let (session, given) = (node.session, leases.clone());
            self.apply(Command::HandOut(HandOut { node: AGENT, session, leases: given, returned: false }));
            self.received.given_mono_ms.extend(leases.iter().map(|lease| (*lease, now)));
        }
        (leases, due.revoked)
    }
}

#[test]
fn w5_what_may_run_again_is_given_again_after_3_s_unless_it_is_outstanding() {
    let mut world = World::new();
    world.submit(7, "ping", "echo");
    world.submit(8, "test", "record");
    let (given, _) = world.ask(1_000, 1_000);
    assert_eq!(given.len(), 2);
    let soon = 1_000 + GIVE_AGAIN_MS;
    assert!(world.ask(1_001, soon - 1).0.is_empty(), "the answer may be on its way");
    assert!(world.ask(1_000, soon).0.is_empty(), "it was given after this question was asked");
    world.outstanding = given.iter().map(|lease| LeaseId { node: AGENT, lease: *lease }).collect();
    assert!(world.ask(soon, soon).0.is_empty(), "it says that it has it");
    world.outstanding.clear();
    let (again, _) = world.ask(soon, soon);
    assert_eq!(again, given[..1], "W10: the once lease is never given again");
    assert!(world.ask(soon + 1, soon + 1).0.is_empty());
}

#[test]
fn w10_a_new_leader_gives_again_at_once_what_may_run_again() {
    let mut world = World::new();
    world.submit(7, "ping", "echo");
    world.submit(8, "test", "record");
    let (given, _) = world.ask(1_000, 1_000);
    world.begin_term(2);
    world.received = Received::default();
    world.outstanding = BTreeSet::from([LeaseId { node: AGENT, lease: given[0] }]);
    assert!(world.ask(1_001, 1_001).0.is_empty());
    world.outstanding.clear();
    assert_eq!(world.ask(1_002, 1_002).0, given[..1]);
}

#[test]
fn w9_a_revoke_is_said_from_time_to_time_and_what_is_over_is_forgotten() {
    let mut world = World::new();
    let job = world.submit(7, "ping", "echo");
    let (given, _) = world.ask(0, 0);
    world.apply(Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job }));
    assert_eq!(world.ask(10, 10).1, given);
    assert!(world.ask(20, 10 + GIVE_AGAIN_MS - 1).1.is_empty(), "it is busy stopping it");
    assert_eq!(world.ask(20, 10 + GIVE_AGAIN_MS).1, given, "also in a question that was open all the time");
    let command = grid_core::ConfirmRevoke {
        node: AGENT,
        session: world.state.nodes[&AGENT].session,
        lease: given[0],
        error: None,
        ended: None,
        duration_ms: 0,
        started_wall_ms: 0,
        output_tail: Vec::new(),
        output_bytes: 0,
    };
    world.apply(Command::ConfirmRevoke(command));
    assert_eq!(world.ask(90_000, 90_000), (Vec::new(), Vec::new()));
    assert!(world.received.given_mono_ms.is_empty() && world.received.revoked_mono_ms.is_empty());
    world.outstanding = BTreeSet::from([LeaseId { node: AGENT, lease: given[0] }]);
    assert_eq!(world.ask(90_001, 90_001).1, given, "W5: what it holds and nobody knows");
}
