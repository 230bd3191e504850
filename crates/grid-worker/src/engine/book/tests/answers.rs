//! What the leader's answers and new sessions do to what is reported.

use super::{Bench, lease};
use crate::engine::record::{Record, Status};
use grid_proto::{outstanding_digest, v1};
use grid_types::decl::EffectClass::{Idempotent, Once};

#[test]
fn w3_a_once_lease_starts_and_is_reported_only_when_that_is_on_disk() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Once);
    assert!(bench.sync_asked && matches!(bench.journal.last(), Some(Record::Started { .. })));
    assert_eq!(bench.started, []);
    bench.sync();
    assert_eq!(bench.started, [key]);
    bench.end(key, Status::Success);
    assert!(bench.sync_asked && matches!(bench.journal.last(), Some(Record::Ended { .. })));
    assert_eq!(bench.results(), []);
    bench.sync();
    assert_eq!(bench.results(), [(key, v1::LeaseStatus::Success)]);
}

#[test]
fn w3_an_idempotent_lease_never_waits_for_the_disk() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Idempotent);
    assert_eq!(bench.started, [key]);
    bench.end(key, Status::Success);
    assert_eq!(bench.results(), [(key, v1::LeaseStatus::Success)]);
    assert!(!bench.sync_asked);
    assert!(matches!(bench.journal[..], [Record::Epoch(_), Record::Started { .. }, Record::Ended { .. }]));
}

#[test]
fn w3_a_sync_of_older_records_is_not_enough() {
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Once);
    let first = bench.book.written();
    bench.offer(lease(2, 0), Once);
    bench.book.synced(first);
    bench.settle();
    assert_eq!(bench.asking(), [lease(1, 0)]);
}

#[test]
fn w4_committed_and_superseded_are_final() {
    use v1::AnswerKind::{Committed, SupersededAttempt, SupersededJob, SupersededSettled};
    for kind in [Committed, SupersededJob, SupersededAttempt, SupersededSettled] {
        let mut bench = Bench::new(8);
        let key = lease(1, 0);
        bench.offer(key, Idempotent);
        bench.end(key, Status::Success);
        assert_eq!(bench.results().len(), 1);
        bench.answer(key, kind);
        bench.wait(1_000_000);
        assert!(!bench.book.has_outgoing(bench.now), "{kind:?}");
        assert!(matches!(bench.journal.last(), Some(Record::Settled { .. })));
    }
}

#[test]
fn w4_retry_keeps_the_result_and_reports_it_again_under_the_new_epoch() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Idempotent);
    bench.end(key, Status::Success);
    assert_eq!(bench.say().leader_epoch, 1);
    bench.epoch = 2;
    bench.answer(key, v1::AnswerKind::Retry);
    assert!(!bench.book.has_outgoing(bench.now), "not at once");
    assert_eq!(bench.book.next_due_mono_ms(), Some(bench.now.mono_ms + 200));
    bench.wait(200);
    let again = bench.say();
    assert_eq!((again.leader_epoch, again.results.len()), (2, 1));
}

#[test]
fn w4_what_nobody_answers_is_said_again() {
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Idempotent);
    bench.end(lease(1, 0), Status::Success);
    bench.revoke(lease(2, 0));
    bench.sync();
    assert_eq!(bench.results().len(), 1);
    assert_eq!(bench.results().len(), 0);
    bench.wait(30_000);
    let again = bench.say();
    assert_eq!((again.results.len(), again.revokes_done.len()), (1, 1));
}

#[test]
fn w5_the_digest_covers_what_is_outstanding_and_the_list_comes_when_it_is_asked_for() {
    let mut bench = Bench::new(1);
    let (done, running, queued, revoked) = (lease(1, 0), lease(2, 0), lease(3, 0), lease(4, 0));
    bench.offer(done, Idempotent);
    bench.end(done, Status::Success);
    bench.offer(running, Idempotent);
    bench.offer(queued, Idempotent);
    bench.revoke(revoked);
    let heartbeat = bench.book.outgoing(bench.now, crate::engine::book::Heartbeat::With, |_| Vec::new());
    assert_eq!(heartbeat.outstanding, None, "only when asked");
    let heartbeat = heartbeat.heartbeat.unwrap();
    assert_eq!(
        (heartbeat.outstanding_digest, heartbeat.outstanding_count),
        (outstanding_digest([&done, &running, &queued, &revoked]), 4)
    );
    bench.hear(v1::ToWorker { ask_outstanding: true, ..Default::default() });
    assert!(bench.book.has_outgoing(bench.now));
    assert_eq!(bench.say().outstanding.unwrap().leases.len(), 4);
    bench.answer(done, v1::AnswerKind::Committed);
    let heartbeat =
        bench.book.outgoing(bench.now, crate::engine::book::Heartbeat::With, |_| Vec::new()).heartbeat.unwrap();
    assert_eq!(heartbeat.outstanding_digest, outstanding_digest([&running, &queued, &revoked]));
}

#[test]
fn w5_a_new_session_reports_everything_unanswered_again() {
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Idempotent);
    bench.end(lease(1, 0), Status::Success);
    bench.offer(lease(2, 0), Once);
    assert_eq!(bench.results().len(), 1);
    assert!(bench.book.begin_session(grid_types::SessionId(8), grid_types::LeaderEpoch::from_wire(2)));
    let first = bench.say();
    assert_eq!((first.session, first.leader_epoch, first.results.len()), (8, 2, 1));
    assert_eq!(first.outstanding.unwrap().leases.len(), 2);
}

#[test]
fn w5_a_new_session_names_the_jobs_whose_forget_may_have_been_missed() {
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Idempotent);
    bench.end(lease(1, 0), Status::Success);
    bench.answer(lease(1, 0), v1::AnswerKind::Committed);
    assert!(bench.book.begin_session(grid_types::SessionId(8), grid_types::LeaderEpoch::from_wire(2)));
    assert_eq!(bench.say().outstanding.unwrap().settled_jobs, [1]);
    bench.book.receive(&v1::ToWorker { leader_epoch: 2, ask_outstanding: true, ..Default::default() }, bench.now);
    assert!(bench.say().outstanding.unwrap().settled_jobs.is_empty(), "once a session is enough");
}

#[test]
fn many_results_share_messages_that_stay_small() {
    let mut bench = Bench::new(1024);
    for job in 1..=200 {
        bench.offer(lease(job, 0), Idempotent);
        bench.book.ended(lease(job, 0), super::ended(Status::Success), vec![b'x'; 16 * 1024], bench.now);
    }
    let (mut results, mut messages) = (0, 0);
    while bench.book.has_outgoing(bench.now) {
        let message = bench.say();
        assert!(prost::Message::encoded_len(&message) < 2 * 1024 * 1024);
        results += message.results.len();
        messages += 1;
    }
    assert_eq!((results, messages), (200, 4));
}

#[test]
fn w4_an_output_is_discarded_when_the_leader_has_stored_all_of_it() {
    use v1::AnswerKind::{Committed, Retry, SupersededJob};
    let cases: [(&[u8], u64, v1::AnswerKind, bool); 5] = [
        (b"all", 3, Committed, true),
        (b"all", 3, SupersededJob, false),
        (b"all", 3, Retry, false),
        (b"the end", 900, Committed, false),
        (b"", 0, Committed, false),
    ];
    for (tail, output_bytes, kind, discarded) in cases {
        let mut bench = Bench::new(8);
        let key = lease(1, 0);
        bench.offer(key, Idempotent);
        let ended = crate::engine::record::Ended { output_bytes, ..super::ended(Status::Success) };
        bench.book.ended(key, ended, tail.to_vec(), bench.now);
        bench.settle();
        assert_eq!(bench.results().len(), 1);
        bench.answer(key, kind);
        assert_eq!(!bench.discarded.is_empty(), discarded, "{tail:?} of {output_bytes}, {kind:?}");
    }
}
