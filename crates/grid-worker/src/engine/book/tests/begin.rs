//! W3: a `once` lease starts when its leader has recorded that, and not much later.

use super::{Bench, lease, offer_of};
use crate::engine::book::Work;
use crate::engine::record::{Record, Status};
use grid_proto::v1;
use grid_types::decl::EffectClass::{Idempotent, Once};

/// A lease whose start is on disk, and when its leader was asked.
fn asking() -> (Bench, u64) {
    let mut bench = Bench::new(8);
    bench.grants = false;
    bench.offer(lease(1, 0), Once);
    assert_eq!(bench.begins(), [], "not before the start is on disk");
    bench.sync();
    assert_eq!((bench.started.len(), bench.sync_asked), (0, false));
    let asked = bench.begins();
    assert_eq!(asked, [(lease(1, 0), bench.now.mono_ms)]);
    (bench, asked[0].1)
}

#[test]
fn w3_a_once_lease_starts_only_when_the_leader_has_recorded_it() {
    let (mut bench, asked_ms) = asking();
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    assert_eq!(bench.started, [lease(1, 0)], "an answer that comes twice starts it once");
    bench.wait(60_000);
    assert_eq!(bench.begins(), []);
    bench.offer(lease(2, 0), Idempotent);
    assert_eq!(bench.started.len(), 2, "what may run again needs no permission");
}

#[test]
fn w3_an_answer_counts_for_10_s_from_its_question() {
    let (mut bench, asked_ms) = asking();
    bench.wait(10_001);
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    assert_eq!(bench.started, [], "the process was stopped meanwhile; another may have taken its place");
    let again = bench.begins();
    assert_eq!(again, [(lease(1, 0), asked_ms + 10_001)]);
    bench.wait(9_000);
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    assert_eq!(bench.started, [], "an answer to the first question does not become younger by the second");
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, again[0].1);
    assert_eq!(bench.started, [lease(1, 0)]);
}

#[test]
fn w3_without_an_answer_the_question_is_asked_again() {
    let (mut bench, _) = asking();
    bench.wait(9_999);
    assert_eq!(bench.begins(), []);
    bench.wait(1);
    assert_eq!(bench.begins().len(), 1);
    bench.answer_begin(lease(1, 0), v1::BeginKind::AskAgain, bench.now.mono_ms);
    assert_eq!(bench.begins(), []);
    bench.wait(200);
    assert_eq!(bench.begins().len(), 1);
    bench.begin();
    assert_eq!(bench.asking(), [lease(1, 0)], "the next session");
}

#[test]
fn w3_a_new_session_asks_in_its_first_message() {
    let (mut bench, _) = asking();
    assert!(bench.book.begin_session(grid_types::SessionId(9), grid_types::LeaderEpoch::from_wire(1)));
    let first = bench.say();
    assert_eq!((first.begins.len(), first.outstanding.unwrap().leases.len()), (1, 1));
}

#[test]
fn w3_what_is_refused_never_starts() {
    let (mut bench, asked_ms) = asking();
    bench.answer_begin(lease(1, 0), v1::BeginKind::Refused, asked_ms);
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    assert_eq!((bench.started.len(), bench.book.active_count()), (0, 0), "its slot is free");
    bench.sync();
    assert_eq!(bench.revokes_done(), [(lease(1, 0), v1::LeaseStatus::Unspecified)], "it never started");
    bench.offer(lease(1, 0), Once);
    bench.sync();
    assert_eq!(bench.started, []);
}

#[test]
fn w9_a_permission_that_crosses_its_revoke_starts_nothing() {
    let (mut bench, asked_ms) = asking();
    let answer = v1::BeginAnswer { lease: Some(lease(1, 0).into()), kind: v1::BeginKind::Granted.into(), asked_ms };
    bench.hear(v1::ToWorker { revokes: vec![lease(1, 0).into()], begun: vec![answer], ..Default::default() });
    bench.sync();
    assert_eq!(bench.started, []);
    assert_eq!(bench.revokes_done(), [(lease(1, 0), v1::LeaseStatus::Unspecified)]);
}

#[test]
fn w3_a_start_that_comes_too_late_is_asked_for_again() {
    let late = |bench: &mut Bench| {
        let offer = offer_of(lease(1, 0), Once);
        let work = Work { lease: lease(1, 0), offer, started_at_ms: 1, start_by_mono_ms: Some(1) };
        bench.book.started_late(work, bench.now);
        bench.settle();
    };
    let (mut bench, asked_ms) = asking();
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    late(&mut bench);
    assert_eq!(bench.begins().len(), 1);

    let (mut bench, asked_ms) = asking();
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    bench.revoke(lease(1, 0));
    late(&mut bench);
    bench.sync();
    assert_eq!(bench.revokes_done(), [(lease(1, 0), v1::LeaseStatus::Unspecified)]);

    let (mut bench, asked_ms) = asking();
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    bench.book.stop_all(bench.now);
    late(&mut bench);
    bench.sync();
    assert_eq!(bench.results(), [(lease(1, 0), v1::LeaseStatus::Failed)]);
}

#[test]
fn w3_a_worker_that_is_told_to_end_at_once_starts_nothing_it_was_still_asking_for() {
    let (mut bench, asked_ms) = asking();
    bench.book.stop_all(bench.now);
    bench.sync();
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    assert_eq!(bench.started, []);
    assert_eq!(bench.results(), [(lease(1, 0), v1::LeaseStatus::Failed)]);
}

#[test]
fn w3_what_was_asked_for_is_unknown_after_a_restart() {
    let (bench, _) = asking();
    let mut bench = bench.restart();
    bench.begin();
    bench.wait(30_000);
    assert_eq!(bench.results(), [(lease(1, 0), v1::LeaseStatus::Unknown)]);
}

#[test]
fn w2_forget_buries_only_what_it_names() {
    let mut bench = Bench::new(8);
    let old = lease(1, 0);
    let fresh = grid_types::LeaseKey { job_epoch: grid_types::JobEpoch(3), ..old };
    bench.offer(old, Idempotent);
    bench.end(old, Status::Success);
    bench.answer(old, v1::AnswerKind::Committed);
    bench.offer(fresh, Idempotent);
    bench.end(fresh, Status::Success);
    assert_eq!(bench.results(), [(old, v1::LeaseStatus::Success), (fresh, v1::LeaseStatus::Success)][1..]);
    bench.forget_up_to(1, 2);
    assert!(bench.book.holds(&fresh), "the job was resumed since, and this result is not recorded");
    bench.answer(fresh, v1::AnswerKind::Committed);
    let mut bench = bench.restart();
    bench.begin();
    bench.offer(fresh, Idempotent);
    assert_eq!(bench.results(), [(fresh, v1::LeaseStatus::Success)], "settled, and not buried by the earlier epoch");
    assert!(bench.journal.iter().any(|record| matches!(record, Record::Forgotten { epoch, .. } if epoch.0 == 1)));
}

#[test]
fn w3_what_was_withdrawn_is_dropped_and_may_be_offered_again() {
    let (mut bench, asked_ms) = asking();
    bench.answer_begin(lease(1, 0), v1::BeginKind::Withdrawn, asked_ms);
    assert_eq!((bench.book.outstanding_count(), bench.book.active_count()), (0, 0), "its slot is free");
    let mut bench = bench.restart();
    bench.begin();
    bench.wait(30_000);
    assert_eq!(bench.results(), [], "it never started, and the journal knows");
    bench.offer(lease(1, 0), Once);
    bench.sync();
    assert_eq!(bench.asking(), [lease(1, 0)]);
}

#[test]
fn w3_a_lease_that_waits_for_permission_does_not_run() {
    let (mut bench, asked_ms) = asking();
    assert_eq!((bench.book.running_count(), bench.book.active_count()), (0, 1), "a worker may end while it waits");
    bench.answer_begin(lease(1, 0), v1::BeginKind::Granted, asked_ms);
    assert_eq!(bench.book.running_count(), 1);
}
