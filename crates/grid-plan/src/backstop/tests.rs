//! Deadlines as numbers: what expires when, and what never does.

use super::{Backstop, GRACE_MS, REVOKE_MS};
use grid_core::{
    BeginLease, BeginTerm, Command, Entry, EntryHead, ExpireLease, Quotas, RegisterNode, State, SubmitJob, apply,
};
use grid_types::job::parse_job;
use grid_types::node::{Capacity, NodeFacts};
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

use serde_json::json;

const LEASE: LeaseKey = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
const NODE: NodeOrd = NodeOrd(1);

#[test]
fn w6_the_backstop_counts_from_acceptance_and_fires_once() {
    let mut backstop = Backstop::default();
    backstop.accepted(NODE, LEASE, 1_000, 500);
    backstop.accepted(NODE, LEASE, 1_000, 900);
    assert!(backstop.expired(&State::default(), 1_500 + GRACE_MS - 1).is_empty());
    assert_eq!(backstop.expired(&State::default(), 1_500 + GRACE_MS).len(), 1);
    assert!(backstop.expired(&State::default(), u64::MAX).is_empty());
}

#[test]
fn w6_leases_expire_in_the_order_of_their_deadlines_whatever_ended_before() {
    let mut backstop = Backstop::default();
    let nodes = [(1, 3_000), (2, 1_000), (3, 2_000), (4, 500)];
    for (node, timeout_ms) in nodes {
        backstop.accepted(NodeOrd(node), LEASE, timeout_ms, 0);
    }
    backstop.ended(NodeOrd(4), LEASE);
    let expired = |backstop: &mut Backstop, now_ms| -> Vec<u32> {
        let node = |command: Command| match command {
            Command::ExpireLease(ExpireLease { node, .. }) => node.0,
            other => panic!("{other:?}"),
        };
        backstop.expired(&State::default(), now_ms + GRACE_MS).into_iter().map(node).collect()
    };
    assert_eq!(expired(&mut backstop, 500), [0; 0], "the one that was due first has ended");
    assert_eq!(expired(&mut backstop, 2_000), [2, 3]);
    backstop.accepted(NodeOrd(5), LEASE, 2_500, 0);
    assert_eq!(expired(&mut backstop, 2_500), [5], "armed after the search, due before what it found");
    assert_eq!(expired(&mut backstop, 3_000), [1]);
}

#[test]
fn w9_a_revoke_that_nobody_confirms_has_an_end_too() {
    let mut backstop = Backstop::default();
    backstop.accepted(NODE, LEASE, 24 * 3_600_000, 0);
    backstop.revoked(NODE, LEASE, 1_000);
    backstop.accepted(NODE, LEASE, 24 * 3_600_000, 2_000);
    assert!(backstop.expired(&State::default(), 1_000 + REVOKE_MS + GRACE_MS - 1).is_empty());
    assert_eq!(backstop.expired(&State::default(), 1_000 + REVOKE_MS + GRACE_MS).len(), 1);
}

#[test]
fn w6_what_ended_or_belongs_to_another_term_never_fires() {
    let mut backstop = Backstop::default();
    backstop.accepted(NODE, LEASE, 0, 0);
    backstop.ended(NODE, LEASE);
    backstop.accepted(NodeOrd(2), LEASE, 0, 0);
    backstop.new_term(&State::default(), false, 0);
    assert!(backstop.expired(&State::default(), u64::MAX).is_empty());
}

/// One `once` lease that is out to one node.
fn leased() -> (State, LeaseKey) {
    let mut state = State::default();
    let begin = BeginTerm {
        term: 1,
        leader: "c1".parse().unwrap(),
        api_url: String::new(),
        grpc_addr: String::new(),
        quotas: Quotas::default(),
        cluster_id: "c".to_owned(),
        restored: None,
        feature_level: grid_core::FEATURE_LEVEL,
    };
    let node = RegisterNode {
        id: "n1".parse().unwrap(),
        facts: NodeFacts {
            backends: [("test".to_owned(), ["record".to_owned()].into())].into(),
            capacity: Capacity { slots: 1, ..Capacity::default() },
            ..NodeFacts::default()
        },
        journal_id: b"j".to_vec(),
        boot: 1,
        nonce: b"n".to_vec(),
        known_session_lives: false,
        agent: false,
        outstanding: Vec::new(),
        unstarted: Vec::new(),
        secret: None,
    };
    let task = json!({"backend": "test", "action": "record", "params": {"path": "/p"}, "timeout": "1s"});
    let spec = parse_job(&json!({"target": "all", "tasks": [task]})).unwrap();
    let (namespace, request) = ("default".parse().unwrap(), grid_core::RequestHash::default());
    let submit = SubmitJob { id: JobId(7), namespace, spec, key: None, plan: None, request };
    put(&mut state, Command::BeginTerm(begin));
    put(&mut state, Command::RegisterNode(node));
    put(&mut state, Command::SubmitJob(submit));
    let lease = state.jobs[&JobId(7)].lease_at(NODE).unwrap().0;
    (state, lease)
}

fn put(state: &mut State, command: Command) {
    let epoch = state.meta.leadership.epoch;
    let head = EntryHead { epoch, term: 1, now_ms: 0, wall_ms: 0, commands: 1 };
    let applied = apply(state, &Entry { head, commands: vec![command] });
    assert!(applied.replies[0].is_ok(), "{:?}", applied.replies);
}

#[test]
fn e8_what_is_not_sent_while_dispatch_is_paused_has_no_deadline() {
    let (state, lease) = leased();
    let mut backstop = Backstop::default();
    backstop.new_term(&state, true, 0);
    backstop.new_session(&state, &state.nodes[&NODE], true, 0);
    assert!(backstop.expired(&state, u64::MAX).is_empty());
    backstop.go_on(&state, 500_000);
    assert!(backstop.expired(&state, 500_000 + 1_000 + GRACE_MS - 1).is_empty(), "its whole time from now on");
    let expire = Command::ExpireLease(ExpireLease { node: NODE, lease, begun: false });
    assert_eq!(backstop.expired(&state, 500_000 + 1_000 + GRACE_MS), [expire]);
    backstop.go_on(&state, 600_000);
    assert!(backstop.expired(&state, u64::MAX).is_empty(), "nothing was withheld since");

    backstop.new_term(&state, false, 0);
    assert_eq!(backstop.expired(&state, u64::MAX).len(), 1, "otherwise it counts from the commit");
    backstop.new_term(&state, true, 0);
    backstop.accepted(NODE, lease, 1_000, 0);
    assert_eq!(backstop.expired(&state, u64::MAX).len(), 1, "so does what a worker holds");
}

#[test]
fn w3_a_lease_that_begins_has_its_whole_time_again_even_while_dispatch_is_paused() {
    let (mut state, lease) = leased();
    let mut backstop = Backstop::default();
    backstop.accepted(NODE, lease, 1_000, 0);
    backstop.begun(NODE, lease, 1_000, 20_000);
    assert!(backstop.expired(&state, 21_000 + GRACE_MS - 1).is_empty());
    let expire = Command::ExpireLease(ExpireLease { node: NODE, lease, begun: true });
    assert_eq!(backstop.expired(&state, 21_000 + GRACE_MS), std::slice::from_ref(&expire));

    let session = state.nodes[&NODE].session;
    put(&mut state, Command::BeginLease(BeginLease { node: NODE, session, lease }));
    backstop.new_term(&state, true, 0);
    assert_eq!(backstop.expired(&state, u64::MAX), [expire], "the next leader knows that it runs");
}

#[test]
fn e2_a_lease_that_was_adopted_has_a_deadline_that_counts() {
    let (mut state, lease) = leased();
    let session = state.nodes[&NODE].session;
    put(&mut state, Command::BeginLease(BeginLease { node: NODE, session, lease }));
    let mut backstop = Backstop::default();
    backstop.accepted(NODE, lease, 1_000, 0);
    assert!(backstop.expired(&state, 1_000 + GRACE_MS).is_empty(), "it has begun since: its whole time again");
    let expire = Command::ExpireLease(ExpireLease { node: NODE, lease, begun: true });
    assert_eq!(backstop.expired(&state, 2_000 + 2 * GRACE_MS), std::slice::from_ref(&expire));
    backstop.accepted(NODE, lease, 1_000, 0);
    backstop.revoked(NODE, lease, 0);
    assert_eq!(backstop.expired(&state, REVOKE_MS + GRACE_MS), [expire], "a revoked one has had its time");
}

#[test]
fn w6_lost_changes_leave_the_deadlines_of_leases_that_are_still_out() {
    let (mut state, lease) = leased();
    let mut backstop = Backstop::default();
    backstop.accepted(NODE, lease, 1_000, 0);
    backstop.accepted(NODE, LEASE, 1_000, 0);
    backstop.catch_up(&state, false, 20_000);
    let expire = |begun| Command::ExpireLease(ExpireLease { node: NODE, lease, begun });
    assert_eq!(backstop.expired(&state, 1_000 + GRACE_MS), [expire(false)], "and not the one that is not out");

    backstop.catch_up(&state, false, 0);
    assert_eq!(backstop.expired(&state, 1_000 + GRACE_MS), [expire(false)], "the lost offer has its whole time");
    backstop.accepted(NODE, lease, 1_000, 0);
    let session = state.nodes[&NODE].session;
    put(&mut state, Command::BeginLease(BeginLease { node: NODE, session, lease }));
    backstop.catch_up(&state, false, 20_000);
    assert!(backstop.expired(&state, 21_000 + GRACE_MS - 1).is_empty(), "its begin was lost");
    assert_eq!(backstop.expired(&state, 21_000 + GRACE_MS), [expire(true)]);
}

#[test]
fn e7_an_expiry_that_was_not_committed_is_proposed_again() {
    let mut backstop = Backstop::default();
    let state = State::default();
    backstop.accepted(NODE, LEASE, 1_000, 0);
    let lost = backstop.expired(&state, 1_000 + GRACE_MS);
    let [Command::ExpireLease(expire)] = &lost[..] else { panic!("{lost:?}") };
    backstop.not_expired(expire, 50_000);
    assert!(backstop.expired(&state, 50_000 + GRACE_MS - 1).is_empty());
    assert_eq!(backstop.expired(&state, 50_000 + GRACE_MS), lost);
}
