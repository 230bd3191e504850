//! Told to end: drain, finish, leave.

use grid_fabric::Leave;
use grid_proto::v1;
use grid_types::SessionId;
use grid_types::decl::EffectClass::{Idempotent, Once};

use super::super::Stop;
use super::{Ending, Input, Output, Rig, lease};
use crate::engine::record::Status;

fn drained(rig: &mut Rig) {
    assert!(rig.asked.contains(&Output::Drain));
    rig.handle(Input::Drained { session: SessionId(rig.session), problem: None });
}

fn left(rig: &mut Rig, leave: Leave) {
    assert_eq!(rig.asked.last(), Some(&Output::Leave(leave)));
    rig.handle(Input::Left { session: SessionId(rig.session), problem: None });
    assert_eq!(rig.ending, Some(Ending::Done));
}

#[test]
fn a_drain_takes_offers_until_the_leader_knows_and_leaves_when_nothing_is_outstanding() {
    let mut rig = Rig::connected();
    rig.handle(Input::Stop(Stop::Drain));
    rig.offer(lease(1), Idempotent);
    drained(&mut rig);
    rig.offer(lease(2), Idempotent);
    assert_eq!(rig.started, [lease(1)]);
    rig.end(lease(1), Status::Success);
    assert_eq!(rig.results().len(), 1);
    assert_eq!(rig.asked.last(), Some(&Output::Drain), "the answer is missing");
    rig.answer(lease(1), v1::AnswerKind::Committed);
    rig.asked.retain(|output| !matches!(output, Output::DiscardOutputs(_)));
    left(&mut rig, Leave::NothingOutstanding);
}

#[test]
fn a_second_word_stops_what_runs_and_reports_it() {
    let mut rig = Rig::connected();
    rig.offer(lease(1), Idempotent);
    rig.handle(Input::Stop(Stop::Drain));
    drained(&mut rig);
    rig.handle(Input::Stop(Stop::Now));
    assert_eq!(rig.stopped, [lease(1)]);
    rig.end(lease(1), Status::Cancelled);
    assert_eq!(rig.results(), [(lease(1), v1::LeaseStatus::Failed)], "not cancelled: nobody revoked it");
    rig.wait(4_999);
    assert_eq!(rig.asked.last(), Some(&Output::Drain));
    rig.wait(1);
    left(&mut rig, Leave::LeasesOutstanding);
}

#[test]
fn without_a_leader_a_worker_ends_when_only_answers_are_missing() {
    let mut idle = Rig::new();
    idle.handle(Input::Stop(Stop::Drain));
    assert_eq!(idle.ending, Some(Ending::Done));
    let mut rig = Rig::connected();
    rig.offer(lease(1), Idempotent);
    rig.offer(lease(2), Once);
    rig.sync();
    rig.handle(Input::Broken { session: SessionId(1), reason: "gone".to_owned() });
    rig.handle(Input::Stop(Stop::Drain));
    rig.wait(60_000);
    assert_eq!(rig.ending, None, "something runs");
    rig.end(lease(1), Status::Success);
    rig.wait(30_000);
    assert_eq!(rig.ending, None, "that the once lease never started is not on disk yet");
    rig.sync();
    assert_eq!(rig.ending, Some(Ending::Done));
    let again = rig.killed();
    assert_eq!(again.registrations[0].request.outstanding.len(), 2, "both are reported after the next start");
}

#[test]
fn a_stream_that_breaks_while_it_leaves_does_not_keep_a_worker() {
    let mut rig = Rig::connected();
    rig.handle(Input::Stop(Stop::Drain));
    drained(&mut rig);
    assert_eq!(rig.asked.last(), Some(&Output::Leave(Leave::NothingOutstanding)));
    assert!(!rig.engine.wants_to_speak(rig.now));
    rig.handle(Input::Broken { session: SessionId(1), reason: "gone".to_owned() });
    assert_eq!(rig.ending, Some(Ending::Done));
}
