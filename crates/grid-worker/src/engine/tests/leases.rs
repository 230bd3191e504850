//! One lease from its offer to its end, and what interrupts it.

use grid_proto::v1;
use grid_types::LeaseKey;
use grid_types::decl::EffectClass::{Idempotent, Once};

use super::{Input, Output, Rig, lease};
use crate::engine::book::{LeaseEvent, Work};
use crate::engine::record::{Group, Record, Status};

#[test]
fn w3_a_once_lease_is_on_disk_and_granted_before_it_starts_and_on_disk_before_it_is_reported() {
    let mut rig = Rig::connected();
    rig.say();
    rig.offer(lease(1), Once);
    assert!(matches!(rig.journal.last(), Some(Record::Started { .. })));
    assert_eq!((rig.begins(), rig.started.len()), (vec![], 0), "nobody is asked before it is on disk");
    rig.sync();
    assert_eq!((rig.begins(), rig.started.len()), (vec![lease(1)], 0));
    rig.grant(lease(1));
    assert_eq!(rig.started, [lease(1)]);
    let group = Group { pgid: 7, start_ticks: 1, machine_boot: 1 };
    rig.handle(Input::Lease(LeaseEvent::Forked { lease: lease(1), group }));
    rig.end(lease(1), Status::Success);
    assert_eq!(rig.results(), [], "nothing is reported before it is on disk");
    rig.sync();
    assert_eq!(rig.results(), [(lease(1), v1::LeaseStatus::Success)]);
    rig.answer(lease(1), v1::AnswerKind::Committed);
    assert!(rig.asked.contains(&Output::DiscardOutputs(vec![lease(1)])));
    assert_eq!(rig.engine.book().outstanding_count(), 0);
    rig.hear(v1::ToWorker { forgets: vec![v1::Forget { job_id: 1, job_epoch: 1 }], ..Default::default() });
    assert!(matches!(rig.journal.last(), Some(Record::Forgotten { .. })));
    rig.offer(lease(1), Once);
    rig.sync();
    assert_eq!(rig.started, [lease(1)], "it never starts again");
}

#[test]
fn w3_a_repeatable_lease_waits_for_neither_disk_nor_leader() {
    let mut rig = Rig::connected();
    rig.sync();
    rig.offer(lease(1), Idempotent);
    assert_eq!((rig.started.as_slice(), rig.sync_asked), (&[lease(1)][..], None));
    rig.end(lease(1), Status::Failed);
    assert_eq!(rig.results(), [(lease(1), v1::LeaseStatus::Failed)]);
}

#[test]
fn w2_a_lease_that_is_offered_again_at_any_moment_runs_once() {
    let mut rig = Rig::connected();
    for moment in 0..6 {
        rig.offer(lease(1), Once);
        match moment {
            0 => rig.sync(),
            1 => rig.grant(lease(1)),
            2 => rig.end(lease(1), Status::Success),
            3 => rig.sync(),
            4 => rig.answer(lease(1), v1::AnswerKind::Committed),
            _ => {}
        }
    }
    assert_eq!(rig.started, [lease(1)]);
    assert_eq!(rig.results().last(), Some(&(lease(1), v1::LeaseStatus::Success)), "it is answered from the journal");
}

#[test]
fn w9_a_revoke_at_each_moment_is_confirmed_when_nothing_runs_and_that_is_on_disk() {
    for moment in 0..=4 {
        let mut rig = Rig::connected();
        if moment >= 1 {
            rig.offer(lease(1), Once);
        }
        if moment >= 2 {
            rig.sync();
            rig.say();
        }
        if moment >= 3 {
            rig.grant(lease(1));
        }
        if moment >= 4 {
            rig.end(lease(1), Status::Success);
        }
        rig.revoke(lease(1));
        assert_eq!(rig.revokes_done(), [], "moment {moment}: not before it is on disk");
        if moment == 3 {
            rig.sync();
            assert_eq!((rig.revokes_done(), rig.stopped.as_slice()), (vec![], &[lease(1)][..]), "it still runs");
            rig.end(lease(1), Status::Cancelled);
        }
        rig.sync();
        let ended = match moment {
            3 => v1::LeaseStatus::Cancelled,
            // W9: an outcome that was known before the revoke is kept.
            4 => v1::LeaseStatus::Success,
            _ => v1::LeaseStatus::Unspecified,
        };
        assert_eq!(rig.revokes_done(), [(lease(1), ended)], "moment {moment}");
        rig.offer(lease(1), Once);
        rig.sync();
        assert_eq!(rig.started.len(), usize::from(moment >= 3), "moment {moment}: never again");
    }
}

#[test]
fn w3_a_grant_that_comes_too_late_or_is_used_too_late_asks_again() {
    let mut rig = Rig::connected();
    rig.offer(lease(1), Once);
    rig.sync();
    let asked_ms = rig.say().begins[0].asked_ms;
    rig.wait(10_001);
    let kind = v1::BeginKind::Granted.into();
    let late = || vec![v1::BeginAnswer { lease: Some(lease(1).into()), kind, asked_ms }];
    rig.hear(v1::ToWorker { begun: late(), ..Default::default() });
    assert!(rig.started.is_empty());
    assert_eq!(rig.begins(), [lease(1)]);
    rig.grant(lease(1));
    assert_eq!(rig.started, [lease(1)]);
    let work = Work { lease: lease(1), offer: v1::Offer::default(), started_at_ms: 0, start_by_mono_ms: Some(0) };
    rig.handle(Input::Lease(LeaseEvent::Late { work }));
    assert_eq!(rig.begins(), [lease(1)], "the program was not started in time");
}

#[test]
fn w3_after_a_kill_at_each_moment_a_once_lease_is_unknown_or_reported_and_never_starts_again() {
    for moment in 1..=4 {
        let mut rig = Rig::connected();
        rig.offer(lease(1), Once);
        if moment >= 2 {
            rig.sync();
        }
        if moment >= 3 {
            rig.grant(lease(1));
        }
        if moment >= 4 {
            rig.end(lease(1), Status::Success);
            rig.sync();
        }
        for power_cut in [false, true] {
            let again = Rig { journal: rig.journal.clone(), synced: rig.synced, epoch: 1, session: 1, ..Rig::new() };
            let mut again = if power_cut { again.power_cut() } else { again.killed() };
            let is_known = !power_cut || moment >= 2;
            assert_eq!(again.registrations[0].request.outstanding.len(), usize::from(is_known), "moment {moment}");
            again.connect();
            again.sync();
            let status = if moment == 4 { v1::LeaseStatus::Success } else { v1::LeaseStatus::Unknown };
            let said = again.say();
            let results: Vec<_> = said.results.iter().map(v1::LeaseResult::status).collect();
            assert_eq!(results, if is_known { vec![status] } else { vec![] }, "moment {moment}, cut {power_cut}");
            if moment == 4 {
                assert_eq!(said.results[0].output_tail, b"said");
            }
            again.offer(lease(1), Once);
            again.sync();
            assert!(again.started.is_empty(), "moment {moment}: no start without a new permission");
        }
    }
}

#[test]
fn a_repeatable_lease_that_a_kill_interrupted_runs_again_when_it_is_offered_again() {
    let mut rig = Rig::connected();
    rig.offer(lease(1), Idempotent);
    let mut rig = rig.killed();
    assert!(rig.registrations[0].request.outstanding.is_empty());
    rig.connect();
    rig.offer(lease(1), Idempotent);
    assert_eq!(rig.started, [lease(1)]);
}

#[test]
fn w6_a_lease_that_timed_out_is_reported_as_such() {
    let mut rig = Rig::connected();
    rig.offer(lease(1), Idempotent);
    rig.end(lease(1), Status::TimedOut);
    assert_eq!(rig.results(), [(lease(1), v1::LeaseStatus::TimedOut)]);
}

#[test]
fn n5_what_waits_for_an_answer_is_said_again_when_the_session_resumes() {
    let mut rig = Rig::connected();
    rig.say();
    for job in [1, 2] {
        rig.offer(lease(job), Idempotent);
        rig.end(lease(job), Status::Success);
    }
    assert_eq!(rig.results().len(), 2);
    rig.answer(lease(2), v1::AnswerKind::Committed);
    assert_eq!(rig.results(), [], "nothing is lost within a stream");
    rig.offer(lease(3), Once);
    rig.sync();
    assert_eq!(rig.begins(), [lease(3)]);
    rig.resume();
    let again = rig.say();
    assert_eq!(again.results.iter().map(|result| result.lease.unwrap().into()).collect::<Vec<LeaseKey>>(), [lease(1)]);
    assert_eq!(again.begins.iter().map(|begin| begin.lease.unwrap().into()).collect::<Vec<LeaseKey>>(), [lease(3)]);
    let list = again.outstanding.expect("the list");
    assert_eq!((list.leases.len(), list.settled_jobs.len()), (2, 1), "a Forget may have been lost, too");
}
