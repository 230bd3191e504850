//! A new process on the journal of the one before.

use super::{Bench, lease};
use crate::engine::book::{Book, Interrupted};
use crate::engine::record::{Group, Record, Status};
use grid_proto::v1;
use grid_types::decl::EffectClass::{Idempotent, Once};

#[test]
fn w3_after_a_restart_once_is_unknown_and_the_rest_runs_again() {
    let mut bench = Bench::new(8);
    let (once, again, revoked) = (lease(1, 0), lease(2, 0), lease(3, 0));
    bench.offer(once, Once);
    bench.offer(again, Idempotent);
    bench.offer(revoked, Idempotent);
    bench.sync();
    bench.revoke(revoked);
    let mut bench = bench.restart();
    bench.begin();
    bench.wait(30_000);
    let said = bench.say();
    assert_eq!(said.results.len(), 1);
    assert_eq!(said.results[0].status(), v1::LeaseStatus::Unknown);
    assert_eq!(said.results[0].error, "worker restarted while it ran");
    assert_eq!(said.revokes_done[0].ended(), v1::LeaseStatus::Cancelled);
    assert!(!bench.book.holds(&again));
    bench.offer(again, Idempotent);
    bench.offer(once, Once);
    bench.sync();
    assert_eq!(bench.started, [again], "the same attempt, and never the once one");
}

#[test]
fn w3_a_finished_lease_is_reported_after_a_restart_with_its_output() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Once);
    bench.sync();
    let ended = crate::engine::record::Ended { output_bytes: 13, ..super::ended(Status::Failed) };
    bench.book.ended(key, ended, Vec::new(), bench.now);
    let mut bench = bench.restart();
    assert!(bench.book.begin_session(grid_types::SessionId(9), grid_types::LeaderEpoch::from_wire(1)));
    let first = bench.say();
    assert_eq!(first.outstanding.unwrap().leases.len(), 1);
    assert_eq!(first.results[0].output_tail, b"from the file");
    assert_eq!(first.results[0].status(), v1::LeaseStatus::Failed);
}

#[test]
fn issue15_2_a_short_output_survives_in_the_journal_until_it_is_answered() {
    let mut bench = Bench::new(8);
    let key = lease(1, 0);
    bench.offer(key, Idempotent);
    bench.end_saying(key, b"said");
    let mut compacted = Bench::new(8);
    compacted.journal = bench.book.snapshot().collect();
    for bench in [bench, compacted] {
        let mut bench = bench.restart();
        assert_eq!(bench.book.outputs().collect::<Vec<_>>(), [(key, 1, b"said".to_vec())]);
        bench.begin_without_look();
        assert_eq!(bench.say().results[0].output_tail, b"said");
        bench.answer(key, v1::AnswerKind::Committed);
        assert_eq!((bench.discarded.as_slice(), bench.kept.as_slice()), (&[key][..], &[][..]));
        let kept = bench.restart();
        assert_eq!(kept.book.outputs().count(), 0, "the leader has it");
    }
}

#[test]
fn issue15_2_an_output_that_no_leader_took_is_kept() {
    for kind in [v1::AnswerKind::SupersededJob, v1::AnswerKind::SupersededAttempt, v1::AnswerKind::SupersededSettled] {
        let mut bench = Bench::new(8);
        bench.offer(lease(1, 0), Idempotent);
        bench.end_saying(lease(1, 0), b"said");
        bench.results();
        bench.answer(lease(1, 0), kind);
        assert_eq!((bench.discarded.as_slice(), bench.kept.as_slice()), (&[][..], &[lease(1, 0)][..]));
    }
    let mut bench = Bench::new(8);
    bench.offer(lease(1, 0), Idempotent);
    bench.end_saying(lease(1, 0), b"said");
    bench.forget(1);
    assert_eq!(bench.kept, [lease(1, 0)], "forgotten before it was answered");
}

#[test]
fn the_processes_of_interrupted_leases_are_known_and_no_others() {
    let mut bench = Bench::new(8);
    let group = Group { pgid: 42, start_ticks: 1, machine_boot: 2 };
    for job in 1..=2 {
        bench.offer(lease(job, 0), Idempotent);
        bench.book.forked(lease(job, 0), Group { pgid: 40 + u32::try_from(job).unwrap(), ..group });
    }
    bench.end(lease(1, 0), Status::Success);
    let mut book = Book::new(8);
    for record in bench.journal {
        book.replay(record);
    }
    assert_eq!(book.interrupted(), [Interrupted { lease: lease(2, 0), groups: vec![group] }]);
}

#[test]
fn compaction_loses_nothing_that_matters() {
    let mut bench = Bench::new(1);
    bench.epoch = 3;
    for job in 1..=6 {
        bench.offer(lease(job, 0), Once);
        bench.sync();
        if job < 6 {
            bench.end(lease(job, 0), Status::Success);
            bench.sync();
        }
    }
    bench.offer(lease(7, 0), Idempotent);
    bench.answer(lease(1, 0), v1::AnswerKind::Committed);
    bench.forget(1);
    bench.answer(lease(2, 0), v1::AnswerKind::Committed);
    bench.revoke(lease(3, 0));
    bench.revoke(lease(8, 0));
    bench.book.forked(lease(6, 0), Group { pgid: 42, start_ticks: 1, machine_boot: 2 });
    bench.settle();
    let read = |records: Vec<Record>| {
        let mut book = Book::new(1);
        for record in records {
            book.replay(record);
        }
        format!("{:?} {:?} {:?} {:?}", book.epoch, book.leases, book.settled, book.forgotten)
    };
    let compacted: Vec<Record> = bench.book.snapshot().collect();
    assert_eq!(read(compacted.clone()), read(bench.journal.clone()));
    assert!(compacted.len() < bench.journal.len());
}
