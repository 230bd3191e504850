use grid_types::job::{Offline, OnUnknown};
use grid_types::node::NodeStatus;
use grid_types::{JobStatus, NodeOrd, Outcome};

use crate::commands::{Answer, Rejection, Reply, Stale};
use crate::jobs::why;
use crate::world::{World, leaf, pipeline};

const AGENT: NodeOrd = NodeOrd(1);

/// `node-1` is an agent.
fn world() -> World {
    let mut world = World::new();
    world.register_agent("node-1", "a").unwrap();
    world
}

#[test]
fn w10_a_once_lease_is_handed_out_once_and_others_again() {
    let mut world = world();
    world.submit("all", vec![leaf("test", "record")]);
    world.submit("all", vec![leaf("ping", "echo")]);
    assert_eq!(world.hand_out(1).len(), 2);
    let again = world.hand_out(1);
    assert_eq!(again.len(), 1, "the once lease is gone with its answer");
    let term = world.head().term + 1;
    world.begin_term(term).unwrap();
    assert_eq!(world.hand_out(1), again, "a new leader knows it too");
}

#[test]
fn w10_what_was_handed_out_and_never_settled_is_unknown() {
    let mut world = world();
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = (AGENT, world.hand_out(1)[0]);
    world.expire(lease);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
    assert_eq!(world.report(lease, Outcome::Success), Ok(Reply::Answered(Answer::Superseded(Stale::Settled))));
}

#[test]
fn w10_what_was_never_handed_out_is_never_unknown() {
    let mut world = world();
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    assert!(why(&world.state, world.job(job), 0).contains("waits for agent node-1 to ask for it"));
    world.expire(lease);
    assert_eq!(world.offered(), [lease], "it may still come");
    world.mark_dead(1);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Skipped, "offline, and certainly not run");
}

#[test]
fn w10_a_silent_agent_that_is_waited_for_gets_its_lease_when_it_is_back() {
    let mut world = world();
    world.next_job(|spec| spec.offline = Offline::Wait);
    let job = world.submit("all", vec![leaf("test", "record")]);
    world.mark_dead(1);
    assert_eq!(world.status(job), JobStatus::Running);
    world.register_agent("node-1", "a").unwrap();
    let lease = world.hand_out(1)[0];
    world.succeed((AGENT, lease));
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn w9_a_cancel_needs_no_word_of_an_agent_that_was_never_given_it() {
    let mut world = world();
    let steps = || vec![pipeline(vec![leaf("test", "record"), leaf("ping", "echo")]), leaf("ping", "echo")];
    let never_given = world.submit("all", steps());
    world.cancel(never_given).unwrap();
    assert!(world.state.jobs.is_empty(), "nothing is left to wait for");
    let rows = world.rows_of(never_given);
    assert_eq!((rows[&(0, 1)], rows[&(1, 1)], rows[&(2, 1)]), (Outcome::Cancelled, Outcome::Skipped, Outcome::Skipped));
    let given = world.submit("all", steps());
    let lease = (AGENT, world.hand_out(1)[0]);
    world.cancel(given).unwrap();
    assert_eq!(world.revoked(), [lease]);
    assert_eq!(world.report(lease, Outcome::Success), Ok(Reply::Answered(Answer::Superseded(Stale::Job))));
    assert!(world.hand_out(1).is_empty());
    world.confirm_revoked(lease).unwrap();
    assert_eq!(world.rows_of(given)[&(0, 1)], Outcome::Cancelled);
}

#[test]
fn w10_an_answer_that_was_never_written_is_taken_back() {
    let mut world = world();
    world.submit("all", vec![leaf("test", "record")]);
    world.submit("all", vec![leaf("ping", "echo")]);
    let given = world.hand_out(1);
    assert_eq!(world.hand_back(1, given.clone()).len(), 1, "an earlier answer may have given the pure one, too");
    assert_eq!(world.hand_out(1), given);
    let cancelled = given[0].job;
    world.cancel(cancelled).unwrap();
    world.hand_back(1, given);
    assert_eq!(world.rows_of(cancelled)[&(0, 1)], Outcome::Cancelled, "nobody has it, so nobody confirms it");
    let term = world.head().term + 1;
    world.submit("all", vec![leaf("test", "record")]);
    let given = world.hand_out(1);
    world.begin_term(term).unwrap();
    assert!(world.hand_back(1, given).is_empty(), "what another leader handed out is not this one's to take back");
}

#[test]
fn w1_another_process_of_an_agent_gives_up_what_the_first_was_given() {
    let mut world = world();
    world.next_job(|spec| spec.on_unknown = OnUnknown::Wait);
    let given = world.submit("all", vec![leaf("test", "record")]);
    world.hand_out(1);
    world.next_job(|_| ());
    let waiting = world.submit("all", vec![leaf("test", "record")]);
    world.register_agent("node-1", "b").unwrap();
    assert_eq!(world.count(given, 0, Outcome::Unknown), 1);
    let handed = world.hand_out(1);
    assert_eq!((handed.len(), handed[0].job), (1, waiting), "what nobody was given is for the new one");
}

#[test]
fn w1_what_a_worker_had_is_not_taken_for_never_handed_out_when_an_agent_takes_its_name() {
    let mut world = World::with_nodes(1);
    let once = world.submit("all", vec![leaf("test", "record")]);
    let pure = world.submit("all", vec![leaf("ping", "echo")]);
    world.begin_all();
    world.register_agent("node-1", "a").unwrap();
    assert_eq!(world.rows_of(once)[&(0, 1)], Outcome::Unknown);
    world.cancel(pure).unwrap();
    assert_eq!(world.revoked().len(), 1, "the worker may still run it");
}

#[test]
fn only_a_live_agent_in_its_current_session_is_given_anything() {
    let mut world = World::with_nodes(1);
    world.submit("all", vec![leaf("ping", "echo")]);
    assert!(world.hand_out(1).is_empty(), "a worker has a session for that");
    world.register_agent("node-2", "a").unwrap();
    world.remove(2, true).unwrap();
    let session = grid_types::SessionId(world.session(2));
    let command = super::HandOut { node: NodeOrd(2), session, leases: Vec::new(), returned: false };
    let refused = world.apply(vec![crate::Command::HandOut(command.clone())]).replies.remove(0);
    assert_eq!(refused, Err(Rejection::StatusMoved { status: NodeStatus::Removed }));
    world.register_agent("node-2", "a").unwrap();
    let refused = world.apply(vec![crate::Command::HandOut(command)]).replies.remove(0);
    assert!(matches!(refused, Err(Rejection::StaleSession { .. })), "{refused:?}");
}
