//! The leader without a runtime: real state, real `apply`, scripted workers, times as numbers.

mod many;
pub mod world;

use grid_core::{Command, Effect};
use grid_fabric::CloseReason;
use grid_proto::v1;
use grid_types::node::NodeStatus;
use grid_types::{JobStatus, LeaseKey, NodeOrd, SessionId};
use serde_json::json;
use world::World;

use super::applied::MOST_WAITING;
use super::{AppliedBatch, Backlog, Leader, Mandate, Out, When};
use crate::reply::NoReply;

/// A job over three workers, with a change of leader and a restart of a worker in the middle. Returns everything that was sent.
fn whole_job() -> Vec<String> {
    let mut world = World::new(&["w1", "w2", "w3"]);
    let job = world.submit(7, &[("ping", "echo"), ("test", "record")]);
    world.settle();
    world.work("w1");
    world.work("w2");
    // The result of the third is on its way when the leader changes, and its worker restarts and knows nothing of it.
    world.begin_term(2);
    world.restart("w3");
    world.register("w1");
    world.register("w2");
    world.settle();
    assert_eq!(world.ended(job), None);
    world.work("w3");
    for worker in ["w1", "w2", "w3"] {
        world.work(worker);
    }
    assert_eq!(world.ended(job), Some(JobStatus::Completed), "{:#?}", world.trace);
    assert_eq!(world.starts(), 7, "three of each step, and the one that was lost with its worker");
    world.trace
}

#[test]
fn issue15_the_same_inputs_give_the_same_job_through_a_leader_change_and_a_worker_restart() {
    assert_eq!(whole_job(), whole_job());
}

#[test]
fn one_message_for_each_session_and_batch_and_answers_alone_may_wait() {
    let mut world = World::new(&["w1", "w2"]);
    // With a window, each is offered it by itself.
    let body = json!({"target": "all", "concurrency": 2, "tasks": [{"backend": "ping", "action": "echo"}]});
    world.submit_body(7, &body);
    let outs = world.applied();
    let sends: Vec<_> = outs.iter().filter_map(sent).collect();
    assert_eq!(sends.len(), 2);
    assert!(sends.iter().all(|(message, when)| message.offers.len() == 1 && *when == When::Now));
    world.deliver(outs);
    let outs = world.report("w1");
    let sends: Vec<_> = outs.iter().filter_map(sent).collect();
    assert_eq!(sends.len(), 1, "{sends:?}");
    assert_eq!((sends[0].0.answers.len(), sends[0].1), (1, When::WithNext), "the barrier still waits for w2");
}

#[test]
fn e5_e7_e8_what_a_leader_may_send_depends_on_its_mandate() {
    for (mandate, offers) in [(Mandate::Full, 1), (Mandate::Paused, 0), (Mandate::HandingOver, 0), (Mandate::CutOff, 0)]
    {
        let mut world = World::new(&["w1"]);
        world.mandate = mandate;
        world.submit(7, &[("ping", "echo")]);
        let outs = world.applied();
        let sent: usize = outs.iter().filter_map(sent).map(|(message, _)| message.offers.len()).sum();
        assert_eq!(sent, offers, "{mandate:?}");
        world.deliver(outs);
        world.mandate = Mandate::Full;
        let outs = world.lead(Leader::on_resumed);
        // The stream began with a question that is not answered yet.
        assert!(outs.is_empty());
        world.say("w1", |message| message.outstanding = Some(v1::OutstandingList::default()));
        assert_eq!(world.running("w1"), 1, "{mandate:?}: what was withheld is offered");
    }
}

#[test]
fn what_was_applied_in_another_term_is_not_sent() {
    let mut world = World::new(&["w1"]);
    world.submit(7, &[("ping", "echo")]);
    world.batch.term += 1;
    assert_eq!(world.applied(), []);
}

#[test]
fn w5_what_was_dropped_because_too_much_waited_is_offered_from_the_state() {
    let mut world = World::new(&["w1"]);
    world.say("w1", |message| message.outstanding = Some(v1::OutstandingList::default()));
    world.submit(7, &[("ping", "echo")]);
    world.batch.effects = vec![Effect::Deposed; MOST_WAITING];
    let more = AppliedBatch { term: world.batch.term, effects: vec![Effect::Deposed], ..AppliedBatch::default() };
    world.batch.merge(more);
    assert!(world.batch.overflowed && world.batch.effects.is_empty(), "nothing of it is kept");
    let outs = world.applied();
    let [Out::Send { message, .. }] = &outs[..] else { panic!("{outs:?}") };
    assert!(message.ask_outstanding);
    world.deliver(outs);
    world.say("w1", |message| message.outstanding = Some(v1::OutstandingList::default()));
    assert_eq!(world.running("w1"), 1, "the state has what was dropped");
}

#[test]
fn w6_an_overflow_keeps_the_deadlines_of_leases_that_are_out() {
    let mut world = World::new(&["w1"]);
    let job = world.submit(7, &[("ping", "echo")]);
    world.settle();
    let (lease, _) = world.state.jobs[&job].lease_at(NodeOrd(1)).unwrap();
    let timeout_ms = world.state.jobs[&job].spec.steps().next().unwrap().1.timeout_ms;
    world.say("w1", |message| message.accepted.push(lease.into()));
    let expiries = |world: &mut World| -> Vec<LeaseKey> {
        let outs = world.lead(|leader, now| leader.on_tick(now, now.mono_ms));
        let commands = outs.into_iter().flat_map(|out| match out {
            Out::Propose(proposal) => proposal.commands,
            _ => Vec::new(),
        });
        commands
            .filter_map(|command| if let Command::ExpireLease(expire) = command { Some(expire.lease) } else { None })
            .collect()
    };
    world.pass(timeout_ms + 29_999);
    // Too much was applied, and the offer of the second job was in it.
    let second = world.submit(8, &[("ping", "echo")]);
    world.batch.overflowed = true;
    world.settle();
    assert_eq!(expiries(&mut world), []);
    world.pass(1);
    assert_eq!(expiries(&mut world), [lease], "its deadline is that of its acceptance");
    let (lease, _) = world.state.jobs[&second].lease_at(NodeOrd(1)).unwrap();
    world.pass(timeout_ms + 30_000);
    assert_eq!(expiries(&mut world), [lease], "what was lost in the overflow has a deadline too");
}

#[test]
fn one_batch_of_any_size_is_taken_and_those_of_an_overflow_are_not() {
    let batch = |effects| AppliedBatch { term: 1, effects: vec![Effect::Deposed; effects], ..AppliedBatch::default() };
    let mut waiting = AppliedBatch::default();
    assert!(waiting.is_empty());
    waiting.merge(batch(MOST_WAITING + 1));
    assert_eq!((waiting.effects.len(), waiting.overflowed), (MOST_WAITING + 1, false));
    waiting.merge(batch(1));
    waiting.merge(batch(1));
    assert_eq!((waiting.effects.len(), waiting.overflowed, waiting.is_empty()), (0, true, false));
    waiting.merge(AppliedBatch { term: 2, ..batch(1) });
    assert_eq!((waiting.effects.len(), waiting.overflowed), (1, false), "a later term begins anew");
}

#[test]
fn w4_a_report_that_was_refused_is_said_again_and_taken_up_again() {
    let mut world = World::new(&["w1"]);
    world.submit(7, &[("ping", "echo")]);
    world.settle();
    let session = world.session("w1");
    let outs = world.result("w1");
    let [Out::Propose(proposal)] = &outs[..] else { panic!("{outs:?}") };
    let (term, commands) = (proposal.term, proposal.commands.len());
    assert_eq!(world.result("w1"), [], "it is on its way");
    let Some(Out::Propose(proposal)) = outs.into_iter().next() else { panic!("a proposal") };
    let refused = vec![Err(NoReply::NotLeader); commands];
    let outs = world.lead(|leader, now| leader.on_replied(now, term, proposal.origin, &refused));
    let [Out::Send { session: to, message, .. }] = &outs[..] else { panic!("{outs:?}") };
    assert_eq!((*to, message.answers[0].kind()), (session, v1::AnswerKind::Retry));
    assert_eq!(world.result("w1").len(), 1, "said again, it is proposed again");
}

#[test]
fn v3_a_node_that_falls_silent_is_declared_dead_and_its_stream_is_closed() {
    let mut world = World::new(&["w1", "w2", "w3"]);
    let session = world.session("w3");
    let mut closed = Vec::new();
    for _ in 0..2_000 {
        world.pass(100);
        world.say("w1", |_| ());
        world.say("w2", |_| ());
        closed.extend(world.tick());
    }
    assert_eq!(world.status("w3"), NodeStatus::Dead);
    assert_eq!(world.status("w1"), NodeStatus::Ready);
    assert_eq!(closed, [Out::Close { session, reason: CloseReason::StaleSession }]);
}

#[test]
fn w2_a_message_of_another_session_or_epoch_changes_nothing_and_ends_its_stream() {
    let mut world = World::new(&["w1"]);
    let (old, epoch) = (world.session("w1"), world.epoch());
    let late = v1::FromWorker { leader_epoch: epoch + 1, ..v1::FromWorker::default() };
    let outs = world.lead(|leader, now| leader.on_message(now, old, late.clone(), Backlog::Empty));
    assert_eq!(outs, [Out::Close { session: old, reason: CloseReason::StaleSession }]);
    let outs = world.lead(|leader, now| leader.on_message(now, old, late, Backlog::Empty));
    assert_eq!(outs, [], "it is over");
    let unknown = v1::FromWorker { leader_epoch: epoch, ..v1::FromWorker::default() };
    assert_eq!(world.lead(|leader, now| leader.on_message(now, SessionId(99), unknown, Backlog::Empty)), []);
}

#[test]
fn a_second_stream_of_a_session_closes_the_first_and_needs_its_secret() {
    let mut world = World::new(&["w1"]);
    let session = world.session("w1");
    assert!(world.open("w1", b"another secret!!").is_err());
    let outs = world.open("w1", &World::secret("w1")).expect("its own");
    assert_eq!(outs, [Out::Close { session, reason: CloseReason::Replaced }]);
}

#[test]
fn a_heartbeat_that_differs_asks_for_the_list_unless_something_waits_for_the_worker() {
    let mut world = World::new(&["w1"]);
    world.submit(7, &[("ping", "echo")]);
    world.applied();
    world.say("w1", |message| message.outstanding = Some(v1::OutstandingList::default()));
    let session = world.session("w1");
    let heartbeat = v1::FromWorker {
        leader_epoch: world.epoch(),
        heartbeat: Some(v1::Heartbeat { outstanding_digest: 1, outstanding_count: 1 }),
        ..v1::FromWorker::default()
    };
    let outs = world.lead(|leader, now| leader.on_message(now, session, heartbeat.clone(), Backlog::Waiting));
    assert_eq!(outs, []);
    let outs = world.lead(|leader, now| leader.on_message(now, session, heartbeat.clone(), Backlog::Empty));
    assert!(matches!(&outs[..], [Out::Send { message, .. }] if message.ask_outstanding), "{outs:?}");
    let outs = world.lead(|leader, now| leader.on_message(now, session, heartbeat, Backlog::Empty));
    assert_eq!(outs, [], "one question at a time");
}

#[test]
fn new_controllers_are_sent_once_to_each_open_session_a_few_at_a_time() {
    let mut world = World::new(&["w1", "w2", "w3"]);
    let list = ["http://c1".to_owned(), "http://c2".to_owned()];
    let mut told = 0;
    for _ in 0..3 {
        told += world.lead(|leader, _| leader.on_controllers(&list, 1, 2)).len();
    }
    assert_eq!(told, 3);
}

/// Nothing here, and in what it uses of this crate, does I/O, asks a clock, takes a lock or draws a random number.
#[test]
fn issue15_the_leader_is_pure() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join("leader.rs"), source.join("reply.rs")];
    files.extend(std::fs::read_dir(source.join("leader")).unwrap().map(|file| file.unwrap().path()));
    let forbidden =
        ["tokio", "std::sync", "std::time", "std::net", "std::fs", "getrandom", "async ", "HashMap", "HashSet"];
    for file in files.iter().filter(|file| file.extension().is_some() && !file.ends_with("tests.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        for word in forbidden {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
        let own = text.matches("crate::").count();
        let allowed = text.matches("crate::reply").count() + text.matches("crate::leader").count();
        assert_eq!(own, allowed, "{}: the leader uses nothing of the rest of the controller", file.display());
    }
}

fn sent(out: &Out) -> Option<(&v1::ToWorker, When)> {
    match out {
        Out::Send { message, when, .. } => Some((message, *when)),
        _ => None,
    }
}
