//! The way to a leader and from one leader to the next.

use grid_fabric::{CloseReason, FabricRefusal, LinkError};
use grid_proto::v1;
use grid_types::decl::EffectClass::{Idempotent, Once};
use grid_types::{Code, SessionId};

use super::{Ending, Input, Output, Rig, lease};
use crate::engine::record::{Record, Status};

#[test]
fn w1_the_first_message_of_a_session_has_its_secret_and_what_is_outstanding() {
    let mut rig = Rig::new();
    rig.register();
    let first = &rig.sent[0];
    assert_eq!(first.secret.as_ref().unwrap().value, [7; 16]);
    assert!(first.outstanding.is_some() && first.heartbeat.is_some());
    assert!(rig.asked.contains(&Output::SaveClusterId("cluster".to_owned())));
    assert!(!rig.asked.iter().any(|output| matches!(output, Output::Ready { .. })), "its stream is not open");
    rig.handle(Input::Opened { session: SessionId(1) });
    assert!(rig.asked.contains(&Output::Ready { session: SessionId(1) }));
}

#[test]
fn attempts_come_with_growing_pauses_and_the_same_seed_gives_the_same_ones() {
    let pauses = || {
        let mut rig = Rig::new();
        let mut times = Vec::new();
        for _ in 0..8 {
            rig.unreachable();
            let before_ms = rig.now.mono_ms;
            let at_ms = rig.engine.wake_at_mono_ms(rig.now).unwrap();
            rig.wait(at_ms - before_ms);
            assert_eq!(rig.registrations.len(), 1);
            times.push(at_ms - before_ms);
        }
        times
    };
    let found = pauses();
    assert!((50..=100).contains(&found[0]) && (1_500..=3_000).contains(&found[7]), "{found:?}");
    assert_eq!(found, pauses());
}

/// The worker may be busy with its disk, or stopped, when the pause ends.
#[test]
fn a_pause_that_ended_unseen_is_still_woken_for() {
    let mut rig = Rig::new();
    rig.unreachable();
    let ended_ms = rig.engine.wake_at_mono_ms(rig.now).unwrap();
    rig.now.mono_ms = ended_ms + 1;
    let wake_ms = rig.engine.wake_at_mono_ms(rig.now).unwrap();
    assert_eq!(wake_ms, rig.now.mono_ms + 1);
    rig.wait(1);
    assert_eq!(rig.registrations.len(), 1);
}

#[test]
fn w4_a_new_leader_gets_every_unanswered_result_under_its_epoch() {
    let mut rig = Rig::connected();
    rig.offer(lease(1), Idempotent);
    rig.end(lease(1), Status::Success);
    assert_eq!(rig.results().len(), 1);
    rig.offer(lease(2), Idempotent);
    rig.wait(6_000);
    rig.handle(Input::Broken { session: SessionId(1), reason: "gone".to_owned() });
    assert!(rig.asked.contains(&Output::CloseSession));
    rig.end(lease(2), Status::Success);
    rig.epoch = 2;
    rig.connect();
    assert!(rig.journal.contains(&Record::Epoch(grid_types::LeaderEpoch::from_wire(2))), "W2: on disk");
    let results = rig.results();
    assert_eq!(results.len(), 2, "{results:?}");
    assert_eq!(rig.started, [lease(1), lease(2)]);
}

#[test]
fn w2_a_leader_whose_epoch_is_over_is_not_obeyed() {
    let mut rig = Rig::connected();
    rig.epoch = 3;
    rig.offer(lease(1), Idempotent);
    rig.epoch = 2;
    rig.offer(lease(2), Idempotent);
    assert_eq!(rig.started, [lease(1)]);
    assert!(rig.asked.contains(&Output::CloseSession), "it looks for the leader again");
    rig.wait(200);
    rig.register();
    assert!(rig.sent.iter().all(|first| first.session != 2), "no stream is opened to it");
    rig.epoch = 3;
    rig.wait(3_000);
    rig.connect();
    rig.offer(lease(2), Idempotent);
    assert_eq!(rig.started, [lease(1), lease(2)]);
}

#[test]
fn w2_what_comes_from_another_session_counts_for_nothing() {
    let mut rig = Rig::connected();
    rig.handle(Input::Broken { session: SessionId(1), reason: "gone".to_owned() });
    rig.wait(200);
    rig.connect();
    rig.asked.clear();
    rig.offer_in(1, lease(1), Idempotent);
    assert!(rig.started.is_empty(), "an offer to the session before");
    let offers = vec![v1::Offer { lease: Some(lease(1).into()), session: 2, ..Default::default() }];
    let message = Box::new(v1::ToWorker { leader_epoch: 1, offers, ..Default::default() });
    let old = SessionId(1);
    rig.handle(Input::Received { session: old, message });
    rig.handle(Input::Broken { session: old, reason: "late".to_owned() });
    rig.handle(Input::Opened { session: old });
    rig.handle(Input::Drained { session: old, problem: None });
    rig.handle(Input::Left { session: old, problem: None });
    assert!(rig.started.is_empty() && rig.asked.is_empty() && rig.ending.is_none(), "{:?}", rig.asked);
}

#[test]
fn a_leader_that_closes_the_session_names_whom_to_ask_first() {
    let mut rig = Rig::connected();
    rig.wait(6_000);
    let closing = CloseReason::NotLeader.message("http://new".to_owned());
    rig.hear(v1::ToWorker { closing: Some(closing), ..Default::default() });
    assert_eq!(rig.registrations[0].ask_first.as_deref(), Some("http://new"), "at once: it was no short session");
    let mut removed = Rig::connected();
    let closing = CloseReason::Removed.message(String::new());
    removed.hear(v1::ToWorker { closing: Some(closing), ..Default::default() });
    assert_eq!(removed.ending, Some(Ending::Removed));
}

#[test]
fn w1_a_duplicate_is_waited_for_as_long_as_the_leader_says() {
    let twice = |passes_within_ms| FabricRefusal {
        passes_within_ms,
        ..FabricRefusal::new(Code::DuplicateNode, "another worker")
    };
    for (said_ms, waits_ms) in [(None, 20_000), (Some(90_000), 90_000), (Some(1_000), 20_000)] {
        let mut rig = Rig::new();
        let began_ms = rig.now.mono_ms;
        while rig.ending.is_none() {
            rig.wait(100);
            if rig.registrations.pop().is_some() {
                rig.handle(Input::NotRegistered(LinkError::Refused(twice(said_ms))));
            }
        }
        assert_eq!(rig.ending, Some(Ending::Refused("another worker".to_owned())));
        let waited_ms = rig.now.mono_ms - began_ms;
        assert!((waits_ms..waits_ms + 4_000).contains(&waited_ms), "{said_ms:?}: {waited_ms}");
    }
    let mut wrong = Rig::new();
    let refusal = FabricRefusal::new(Code::Invalid, "no such group");
    wrong.handle(Input::NotRegistered(LinkError::Refused(refusal.clone())));
    assert_eq!(wrong.ending, Some(Ending::Refused("no such group".to_owned())));
    let mut known = Rig::connected();
    known.wait(6_000);
    known.handle(Input::Broken { session: SessionId(1), reason: "gone".to_owned() });
    known.handle(Input::NotRegistered(LinkError::Refused(refusal)));
    assert_eq!(known.ending, None, "what a leader finds wrong later is not this worker's configuration");
}

#[test]
fn w5_heartbeats_come_in_time_and_travel_with_what_is_sent_anyway() {
    let mut rig = Rig::connected();
    rig.say();
    rig.wait(999);
    assert_eq!(rig.say().heartbeat, None);
    rig.wait(1);
    assert!(rig.say().heartbeat.is_some());
    rig.wait(600);
    rig.offer(lease(1), Once);
    assert!(rig.say().heartbeat.is_some(), "with the acceptance");
    rig.wait(999);
    assert_eq!(rig.say().heartbeat, None);
}
