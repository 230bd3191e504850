use grid_types::node::NodeStatus;
use grid_types::{JobStatus, Outcome};

use crate::commands::{Rejection, Reply};
use crate::effect::Effect;
use crate::world::{World, leaf};

const GRANTED: Result<Reply, Rejection> = Ok(Reply::Begun { granted: true });
const REFUSED: Result<Reply, Rejection> = Ok(Reply::Begun { granted: false });

#[test]
fn w3_a_lease_begins_once_and_only_its_own_process_may_ask_again() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    assert_eq!(world.begin(lease), GRANTED);
    assert_eq!(world.state.jobs[&job].begun(lease.0), Some(b"nonce".as_slice()));
    assert_eq!(world.begin(lease), GRANTED, "the answer was lost");
    world.register_holding("node-1", b"nonce", &[lease]).unwrap();
    assert_eq!(world.begin(lease), GRANTED, "the same process in its next session");
    world.register_holding("node-1", b"another process", &[lease]).unwrap();
    assert_eq!(world.begin(lease), REFUSED, "a copy that has the record, too");
}

#[test]
fn w3_only_the_current_session_and_an_outstanding_lease_may_begin() {
    let mut world = World::with_nodes(1);
    world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    let old = world.session(1);
    world.register_holding("node-1", b"a clone", &[]).unwrap();
    assert!(matches!(world.begin_as(lease, old), Err(Rejection::StaleSession { .. })), "the original wakes up");
    assert_eq!(world.begin(lease), GRANTED, "it had not begun, so the clone may start it");
    world.succeed(lease);
    assert_eq!(world.begin(lease), REFUSED, "it is settled");

    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    world.cancel(job).unwrap();
    assert_eq!(world.begin(lease), REFUSED, "it is revoked");
    world.confirm_ended(lease, None).unwrap();
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Cancelled);
}

#[test]
fn w1_a_begun_lease_that_the_journal_lacks_is_unknown_whatever_the_folder_says() {
    for (journal, boot, nonce) in
        [(b"journal-1".as_slice(), 1, b"nonce".as_slice()), (b"journal-1", 2, b"copy"), (b"another", 9, b"n")]
    {
        let mut world = World::with_nodes(1);
        let begun = world.submit("all", vec![leaf("test", "record")]);
        let lease = world.offered()[0];
        world.begin(lease).unwrap();
        let waiting = world.submit("all", vec![leaf("test", "record")]);
        world.register("node-1", journal, boot, nonce, false).unwrap();
        assert_eq!(world.rows_of(begun)[&(0, 1)], Outcome::Unknown, "boot {boot}");
        let offered = world.offered();
        assert_eq!(offered.iter().map(|(_, lease)| lease.job).collect::<Vec<_>>(), [waiting], "it has not begun");
        assert_eq!(world.begin(offered[0]), GRANTED);
    }
}

#[test]
fn w1_a_begun_lease_that_the_journal_has_stays_with_its_worker() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    world.begin(lease).unwrap();
    world.register_holding("node-1", b"restarted", &[lease]).unwrap();
    assert_eq!(world.count(job, 0, Outcome::Running), 1);
    world.report(lease, Outcome::Unknown).unwrap();
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
}

#[test]
fn e8_what_has_not_begun_returns_to_its_queue() {
    let mut world = World::with_nodes(2);
    world.next_job(|spec| spec.offline = grid_types::job::Offline::Wait);
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    world.mark_dead(1);
    assert_eq!(world.count(job, 0, Outcome::Pending), 1, "nothing of it ran");
    world.register_holding("node-1", b"again", &[]).unwrap();
    assert!(world.offered().contains(&lease), "offered again under the same name");
    let effects = world.expire(lease);
    assert!(!effects.contains(&Effect::Revoke { node: lease.0, lease: lease.1 }));
    assert_eq!((world.offered().len(), world.count(job, 0, Outcome::Unknown)), (2, 0), "expired, and offered again");
    world.succeed_all_offered();
    assert_eq!(world.status(job), JobStatus::Completed);
}

#[test]
fn e8_what_has_begun_is_unknown_at_expiry_and_dead() {
    for dead in [true, false] {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        let lease = world.offered()[0];
        world.begin(lease).unwrap();
        if dead {
            world.mark_dead(1);
        } else {
            world.expire(lease);
        }
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
    }
}

#[test]
fn w6_a_deadline_from_before_the_begin_does_not_end_a_lease_that_has_begun() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![leaf("test", "record")]);
    let (node, lease) = world.offered()[0];
    world.begin((node, lease)).unwrap();
    world.apply(vec![crate::Command::ExpireLease(crate::ExpireLease { node, lease, begun: false })]);
    assert_eq!(world.count(job, 0, Outcome::Running), 1);
}

#[test]
fn w9_a_revoked_lease_that_never_began_is_cancelled_even_if_its_worker_dies() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![leaf("test", "record")]);
    world.cancel(job).unwrap();
    world.mark_dead(1);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Cancelled);
}

#[test]
fn i7_a_worker_that_leaves_with_nothing_does_not_offer_a_begun_lease_again() {
    let mut world = World::with_nodes(1);
    world.next_job(|spec| spec.offline = grid_types::job::Offline::Wait);
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    world.begin(lease).unwrap();
    world.leave(1);
    assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown, "its folder was put back to a time before");
}

#[test]
fn w3_a_worker_that_asks_is_there() {
    let mut world = World::with_nodes(1);
    world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    world.mark(1, world.session(1), NodeStatus::Ready, NodeStatus::Warning).unwrap();
    world.begin(lease).unwrap();
    assert_eq!(world.state.nodes[&lease.0].status, NodeStatus::Ready);
}

#[test]
fn e8_a_lease_that_returned_to_its_queue_is_withdrawn_not_refused() {
    let mut world = World::new();
    world.register_with_slots("node-1", 1);
    world.next_job(|spec| spec.offline = grid_types::job::Offline::Wait);
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    world.mark_dead(1);
    assert_eq!(world.count(job, 0, Outcome::Pending), 1);
    assert_eq!(world.begin(lease), Ok(Reply::Withdrawn), "its worker drops it and may have it again");
    world.register_holding("node-1", b"again", &[]).unwrap();
    assert_eq!(world.begin(lease), GRANTED);
}

/// A clone began it while the original was paused, and is gone: the original, which has not started it, cannot answer for it.
#[test]
fn w1_a_process_does_not_answer_for_a_lease_that_another_one_began() {
    for asks in [false, true] {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        let lease = world.offered()[0];
        world.register_holding("node-1", b"a clone", &[]).unwrap();
        assert_eq!(world.begin(lease), GRANTED);
        if asks {
            world.register_holding("node-1", b"nonce", &[lease]).unwrap();
            assert_eq!(world.begin(lease), REFUSED);
        } else {
            world.register_unstarted("node-1", b"nonce", &[lease]).unwrap();
        }
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown, "not cancelled or failed without having run");
    }
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![leaf("test", "record")]);
    let lease = world.offered()[0];
    assert_eq!(world.begin(lease), GRANTED);
    world.register_unstarted("node-1", b"nonce", &[lease]).unwrap();
    assert_eq!(world.status(job), JobStatus::Running, "its own begin, whose answer was lost");
    assert_eq!(world.begin(lease), GRANTED);
}

#[test]
fn e2_nothing_begins_while_its_restored_job_is_held() {
    for is_adopted in [false, true] {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        let lease = world.offered()[0];
        world.restore(1);
        let named: &[_] = if is_adopted { &[(lease, None)] } else { &[] };
        world.return_whole(1, &[job], named);
        assert_eq!(world.begin(lease), Ok(Reply::Withdrawn), "adopted: {is_adopted}");
        assert_eq!(world.begin(lease), Ok(Reply::Withdrawn), "the answer was lost");
        assert!(world.offered().is_empty());
        assert_eq!(world.count(job, 0, Outcome::Running), 0, "its process asks, so that nothing of it runs");
        world.confirm(job, None).unwrap();
        assert_eq!(world.offered(), [lease]);
        assert_eq!(world.begin(lease), GRANTED);
        world.succeed(lease);
        assert_eq!(world.status(job), JobStatus::Completed);
    }
}
