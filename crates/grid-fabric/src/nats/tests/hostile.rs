//! Anyone who may publish: garbage on every subject, foreign sessions, floods.

use async_nats::HeaderMap;
use bytes::Bytes;
use grid_proto::refusals::counts;
use grid_proto::v1;
use grid_types::SessionId;
use prost::Message;
use tokio_stream::StreamExt;

use super::super::subjects::{self, Call};
use super::rig::{EPOCH, Rig, Seen, closing_of, heartbeat, result};
use crate::{Arrival, CloseReason, Link};

fn refused(kind: &str) -> u64 {
    counts().get("nats").and_then(|kinds| kinds.get(kind)).copied().unwrap_or(0)
}

/// Bytes that begin like protobuf, JSON or nothing, of several sizes.
fn garbage() -> Vec<Bytes> {
    let dense = v1::FromWorker { results: vec![v1::LeaseResult::default(); 200_000], ..Default::default() };
    let mut all: Vec<Bytes> = [&b""[..], b"\xff", b"{}", b"null", b"\x08\x07\x52", &[0; 1 << 16], &[0xff; 900 << 10]]
        .iter()
        .map(|bytes| Bytes::copy_from_slice(bytes))
        .collect();
    all.push(dense.encode_to_vec().into());
    let nested = "[".repeat(100_000);
    all.push(nested.into());
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_every_subject_is_counted_and_stops_nobody() {
    let mut rig = Rig::start().await;
    let (malformed, other_node) = (refused("malformed"), refused("other_node"));
    let subjects = [
        "node.a.up",
        "node.a.register",
        "node.a.drain",
        "node.a.leave",
        "node.a.log",
        "node.A_B.up",
        "node.A_B.register",
        "result.job-0000000000000.0.a",
        "result.x.y.z",
        "result.job-0000000000000.-1.a",
    ];
    for subject in subjects {
        for body in garbage() {
            for reply in [None, Some("_INBOX.a.x"), Some("cmd.all.test.record"), Some("$JS.API.STREAM.DELETE.results")]
            {
                let (subject, body) = (subject.to_owned(), body.clone());
                match reply {
                    Some(reply) => rig.nats().publish_with_reply(subject, reply, body).await.unwrap(),
                    None => rig.nats().publish(subject, body).await.unwrap(),
                }
            }
        }
    }
    let link = rig.link("a").await;
    let _streams = link.open(heartbeat(7, 0)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(7, "a".to_owned()), "nothing before it counted");
    assert!(refused("malformed") > malformed + 50, "{:?}", counts());
    assert!(refused("other_node") > other_node + 10, "{:?}", counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn n6_a_reply_goes_to_an_inbox_of_the_node_and_nowhere_else() {
    let rig = Rig::start().await;
    let mut elsewhere = Vec::new();
    for subject in ["cmd.>", "_INBOX.b.>", "answers.mine"] {
        elsewhere.push(rig.nats().subscribe(subject).await.unwrap());
    }
    let mut own = rig.nats().subscribe("_INBOX.a.>").await.unwrap();
    let request = Bytes::from(v1::NodeSession { node_id: "a".to_owned(), ..Default::default() }.encode_to_vec());
    for reply in ["cmd.all.test.record", "_INBOX.b.x", "answers.mine", "_INBOX.a.x"] {
        rig.nats().publish_with_reply(Call::Drain.of(&"a".parse().unwrap()), reply, request.clone()).await.unwrap();
    }
    let replied = tokio::time::timeout(super::rig::LIMIT, own.next()).await.expect("no reply").unwrap();
    assert_eq!(replied.subject.as_str(), "_INBOX.a.x");
    // A marker after everything that could have come.
    for (subject, others) in ["cmd.marker", "_INBOX.b.marker", "answers.mine"].iter().zip(&mut elsewhere) {
        rig.nats().publish((*subject).to_owned(), "marker".into()).await.unwrap();
        let first = loop {
            let next = tokio::time::timeout(super::rig::LIMIT, others.next()).await.expect("no marker").unwrap();
            if next.subject.as_str() != subjects::LEADER {
                break next;
            }
        };
        assert_eq!(first.payload, "marker", "{subject}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_worker_floods_it_is_closed_and_the_next_one_works() {
    let mut rig = Rig::start().await;
    let link = rig.link("a").await;
    let (_uplink, mut downlink) = link.open(heartbeat(7, 0)).await.unwrap();
    rig.next_seen().await;
    rig.next_seen().await;
    rig.hub.set_busy(true);
    let done = v1::RevokeDone { output_tail: vec![7; 64 << 10], ..Default::default() };
    let message = v1::FromWorker { revokes_done: vec![done; 8], ..heartbeat(7, 2) };
    let body = Bytes::from(message.encode_to_vec());
    for _ in 0..100 {
        rig.nats().publish("node.a.up", body.clone()).await.unwrap();
    }
    let Arrival::Message(last) = rig.heard(&mut downlink).await else { panic!("no message") };
    assert_eq!(CloseReason::of(&last.closing.unwrap()), Some(CloseReason::Overflow));
    assert_eq!(rig.next_seen().await, Seen::Closed(7));
    rig.hub.set_busy(false);
    let _streams = link.open(heartbeat(8, 1)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(8, "a".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_node_beyond_its_share_do_not_hold_up_others() {
    let rig = Rig::start().await;
    rig.hub.set_busy(true);
    let request = v1::RegisterNodeRequest { node_id: "a".to_owned(), ..Default::default() };
    let body = Bytes::from(request.encode_to_vec());
    for _ in 0..3_000 {
        rig.nats().publish_with_reply("node.a.register", "_INBOX.a.x", body.clone()).await.unwrap();
    }
    rig.wait_for("its share", || rig.hub.registrations() == 160).await;
    let other = rig.link("b").await;
    let asked = tokio::spawn(async move {
        let request = v1::RegisterNodeRequest { node_id: "b".to_owned(), ..Default::default() };
        other.register(request).await
    });
    rig.wait_for("the other node", || rig.hub.registrations() == 161).await;
    rig.hub.set_busy(false);
    assert!(asked.await.unwrap().is_err_and(|error| error.to_string().contains("clone is here")));
    assert!(refused("flood") > 2_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_ignores_what_is_no_message_of_its_leader() {
    let rig = Rig::start().await;
    let link = rig.link("a").await;
    let (_uplink, mut downlink) = link.open(heartbeat(7, 0)).await.unwrap();
    let down = subjects::down(&"a".parse().unwrap(), SessionId(7));
    for body in garbage() {
        rig.nats().publish(down.clone(), body).await.unwrap();
    }
    for epoch in ["", "x", "-1", "99999999999999999999999"] {
        let mut headers = HeaderMap::new();
        headers.insert("leader-epoch", epoch);
        rig.nats().publish_with_headers(subjects::LEADER, headers, Bytes::new()).await.unwrap();
    }
    rig.outbox().send(v1::ToWorker { leader_epoch: EPOCH, ask_journal: vec![3], ..Default::default() }).unwrap();
    let Arrival::Message(message) = rig.heard(&mut downlink).await else { panic!("no message") };
    assert_eq!(message.ask_journal, [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_unknown_sessions_are_told_so_and_a_secret_that_is_wrong_opens_nothing() {
    let mut rig = Rig::start().await;
    let node = "a".parse().unwrap();
    let mut down = rig.nats().subscribe(subjects::down(&node, SessionId(66))).await.unwrap();
    let sender = super::super::result::Sender { session: 66, leader_epoch: EPOCH };
    let body = super::super::result::encode(&node, sender, &result(1, b"x")).unwrap();
    let subject = subjects::result(grid_types::JobId(1), grid_types::StepIndex(0), &node);
    rig.nats().publish(subject, body).await.unwrap();
    assert_eq!(CloseReason::of(&closing_of(&mut down).await), Some(CloseReason::StaleSession));
    let forged = v1::FromWorker { secret: Some(v1::Secret { value: vec![1; 16] }), ..heartbeat(66, 5) };
    rig.nats().publish(subjects::up(&node), forged.encode_to_vec().into()).await.unwrap();
    assert_eq!(CloseReason::of(&closing_of(&mut down).await), Some(CloseReason::StaleSession));
    let _streams = rig.link("a").await.open(heartbeat(7, 0)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(7, "a".to_owned()));
}
