//! Tests both ends over a real nats-server.

mod broadcast;
mod hostile;
mod rig;

use bytes::Bytes;
use grid_proto::v1;
use grid_types::Code;
use prost::Message;
use tokio::sync::mpsc;

use super::subjects;
use crate::{Arrival, CloseReason, Credential, Leave, Link, LinkError};
use rig::{EPOCH, Rig, SECRET, Seen, heartbeat, lease, result};

#[tokio::test(flavor = "multi_thread")]
async fn refusals_reach_the_worker_with_code_and_leader() {
    let rig = Rig::start().await;
    let link = rig.link("clone").await;
    let request = |node: &str| v1::RegisterNodeRequest { node_id: node.to_owned(), ..Default::default() };
    let Err(LinkError::Refused(refusal)) = link.register(request("clone")).await else { panic!("accepted") };
    assert_eq!((refusal.code, refusal.message.as_str()), (Code::DuplicateNode, "clone is here already"));
    assert_eq!(refusal.leader_url.as_deref(), Some("http://other:8765"));
    let Err(LinkError::Refused(refusal)) = link.register(request("other")).await else { panic!("accepted") };
    assert_eq!(refusal.code, Code::Forbidden, "a subject of one node is not for another");
    let credential = Credential::new(1, Some(v1::Secret { value: SECRET.to_vec() }));
    assert_eq!(link.drain("clone".to_owned(), credential.clone()).await, Ok(()));
    let left = link.leave("clone".to_owned(), credential, Leave::NothingOutstanding).await;
    assert!(matches!(left, Err(LinkError::Refused(refusal)) if refusal.code == Code::NotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn n4_a_session_speaks_both_ways_and_is_closed_once() {
    let mut rig = Rig::start().await;
    let link = rig.link("a").await;
    let (uplink, mut downlink) = link.open(heartbeat(7, 1)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(7, "a".to_owned()));
    assert_eq!(rig.next_seen().await, Seen::Received(7, 1, 0));
    uplink.reserve().await.unwrap().send(heartbeat(7, 2));
    let message = v1::ToWorker { leader_epoch: EPOCH, offers: vec![v1::Offer::default()], ..Default::default() };
    rig.outbox().send(message.clone()).unwrap();
    assert_eq!(rig.heard(&mut downlink).await, Arrival::Message(Box::new(message)));
    // Looking at what comes down also sends what goes up.
    assert_eq!(rig.next_seen_with(&mut downlink).await, Seen::Received(7, 2, 0));
    let outbox = rig.outbox();
    outbox.close(CloseReason::Removed.message(String::new()));
    let Arrival::Message(last) = rig.heard(&mut downlink).await else { panic!("no message") };
    assert_eq!(CloseReason::of(&last.closing.unwrap()), Some(CloseReason::Removed));
    assert_eq!(last.leader_epoch, EPOCH, "N5: a closing has an epoch, too");
    assert_eq!(rig.next_seen().await, Seen::Closed(7));
    // Another session of the same node; nothing further of the first one.
    let _streams = link.open(heartbeat(8, 1)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(8, "a".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn results_arrive_in_the_order_of_the_messages_around_them() {
    let mut rig = Rig::start().await;
    let link = rig.link("a").await;
    let (uplink, mut downlink) = link.open(heartbeat(7, 0)).await.unwrap();
    rig.next_seen().await;
    rig.next_seen().await;
    for round in 1..=50 {
        let results = vec![result(round, b"text"), result(round + 100, &[0, 255])];
        let message = v1::FromWorker { results, ..heartbeat(7, round) };
        rig.with(&mut downlink, uplink.reserve()).await.unwrap().send(message);
    }
    let (mut results, mut heartbeats) = (0, 0);
    while heartbeats < 50 {
        let Seen::Received(7, heartbeat, count) = rig.next_seen_with(&mut downlink).await else { panic!() };
        results += count;
        if heartbeat > 0 {
            heartbeats += 1;
            assert_eq!(heartbeat, heartbeats);
            assert!(results >= 2 * heartbeats, "{results} results before heartbeat {heartbeat}");
        }
    }
    assert_eq!(results, 100);
    assert_eq!(rig.last_result().output_tail, [0, 255]);
}

#[tokio::test(flavor = "multi_thread")]
async fn n5_what_an_earlier_leader_says_is_dropped_and_a_new_one_announces_itself() {
    let rig = Rig::start().await;
    let link = rig.link("a").await;
    let (_uplink, mut downlink) = link.open(heartbeat(7, 0)).await.unwrap();
    let say = |epoch: u64, closing: bool| {
        let closing = closing.then(|| CloseReason::StaleSession.message(String::new()));
        let message = v1::ToWorker { leader_epoch: epoch, closing, ask_journal: vec![epoch], ..Default::default() };
        rig.nats()
            .publish(subjects::down(&"a".parse().unwrap(), grid_types::SessionId(7)), message.encode_to_vec().into())
    };
    say(EPOCH - 1, true).await.unwrap();
    say(0, true).await.unwrap();
    say(EPOCH, false).await.unwrap();
    let Arrival::Message(first) = rig.heard(&mut downlink).await else { panic!("no message") };
    assert_eq!((first.leader_epoch, first.closing), (EPOCH, None));
    for epoch in [EPOCH, EPOCH + 1] {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("leader-epoch", epoch.to_string().as_str());
        rig.nats().publish_with_headers(subjects::LEADER, headers, Bytes::new()).await.unwrap();
    }
    let Arrival::Message(last) = rig.heard(&mut downlink).await else { panic!("no message") };
    assert_eq!((last.leader_epoch, CloseReason::of(&last.closing.unwrap())), (EPOCH + 1, Some(CloseReason::NotLeader)));
}

#[tokio::test(flavor = "multi_thread")]
async fn n5_a_standby_subscribes_to_nothing_and_a_worker_is_told_that_nobody_leads() {
    let rig = Rig::start().await;
    let link = rig.link("a").await;
    assert!(rig.subscriptions().iter().any(|subject| subject == "node.*.up"));
    rig.lead(0);
    rig.wait_for("no subscription", || rig.subscriptions().iter().all(|subject| !subject.starts_with("node."))).await;
    let credential = Credential::new(1, None);
    let Err(LinkError::Unreachable(why)) = link.drain("a".to_owned(), credential).await else { panic!("answered") };
    assert!(why.contains("no controller leads"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn n4_a_session_that_nobody_listens_to_does_not_count_as_living() {
    let mut rig = Rig::start().await;
    let first = rig.link("again").await;
    let streams = first.open(heartbeat(7, 0)).await.unwrap();
    rig.next_seen().await;
    rig.next_seen().await;
    let second = rig.link("again").await;
    let request = || v1::RegisterNodeRequest { node_id: "again".to_owned(), ..Default::default() };
    let Err(LinkError::Refused(refusal)) = second.register(request()).await else { panic!("its session lives") };
    assert_eq!(refusal.code, Code::DuplicateNode);
    drop((streams, first));
    rig.wait_for("the end of its subscription", || {
        !rig.subscriptions().iter().any(|subject| subject == "node.again.down.7")
    })
    .await;
    assert_eq!(second.register(request()).await.unwrap().session, 8);
    assert_eq!(rig.next_seen().await, Seen::Closed(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn n5_a_session_survives_a_restart_of_the_server_and_resumes() {
    let mut rig = Rig::start().await;
    let link = rig.link("a").await;
    let (uplink, mut downlink) = link.open(heartbeat(7, 0)).await.unwrap();
    rig.next_seen().await;
    rig.next_seen().await;
    rig.server.kill9();
    rig.wait_for("the controller to notice", || !rig.client().is_connected()).await;
    rig.server.restart();
    assert_eq!(rig.heard(&mut downlink).await, Arrival::Resumed);
    // What is said before the leader is back is lost; it asks for it then.
    rig.subscribed().await;
    uplink.reserve().await.unwrap().send(heartbeat(7, 9));
    assert_eq!(rig.next_seen_with(&mut downlink).await, Seen::Received(7, 9, 0));
    assert!(rig.hub.ups().len() >= 3 && rig.hub.ups().contains(&false), "{:?}", rig.hub.ups());
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_tells_every_session() {
    let mut rig = Rig::start().await;
    let link = rig.link("a").await;
    let (_uplink, mut downlink) = link.open(heartbeat(7, 0)).await.unwrap();
    rig.stop.take().unwrap().send(()).unwrap();
    let Arrival::Message(last) = rig.heard(&mut downlink).await else { panic!("no message") };
    assert_eq!(CloseReason::of(&last.closing.unwrap()), Some(CloseReason::Shutdown));
    tokio::time::timeout(rig::LIMIT, &mut rig.serving).await.expect("the server does not end").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_flow_chunk_by_chunk_until_nobody_listens() {
    let mut rig = Rig::start().await;
    let link = rig.link("a").await;
    let (chunks, queue) = mpsc::channel(1);
    let sending = tokio::spawn({
        let link = link.clone();
        async move { link.send_logs(queue).await }
    });
    for offset in 0..3 {
        let secret = Some(v1::Secret { value: SECRET.to_vec() });
        chunks.send(v1::LogChunk { offset, secret, data: vec![7; 200 << 10], ..Default::default() }).await.unwrap();
        assert_eq!(rig.next_seen().await, Seen::Chunk(offset));
    }
    tokio::time::timeout(rig::LIMIT, sending).await.expect("still sending").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn n8_a_burst_above_max_payload_arrives_in_parts() {
    let mut rig = Rig::with_config("max_payload: 65536").await;
    let link = rig.link("a").await;
    let (uplink, mut downlink) = link.open(heartbeat(7, 0)).await.unwrap();
    rig.next_seen().await;
    rig.next_seen().await;
    let offers = vec![v1::Offer { action: "x".repeat(20 << 10), ..Default::default() }; 20];
    rig.outbox().send(v1::ToWorker { leader_epoch: EPOCH, offers, ..Default::default() }).unwrap();
    let mut offers = 0;
    while offers < 20 {
        let Arrival::Message(message) = rig.heard(&mut downlink).await else { panic!("no message") };
        offers += message.offers.len();
    }
    let done = v1::RevokeDone { lease: Some(lease(1)), output_tail: vec![7; 16 << 10], ..Default::default() };
    let revokes_done = vec![done; 20];
    // Each byte of this output takes six in JSON: it is cut to what fits.
    let results = vec![result(1, &[1; 16 << 10])];
    uplink.reserve().await.unwrap().send(v1::FromWorker { revokes_done, results, ..heartbeat(7, 3) });
    loop {
        let Seen::Received(7, heartbeat, _) = rig.next_seen_with(&mut downlink).await else { panic!() };
        if heartbeat == 3 {
            break;
        }
    }
    assert_eq!(rig.hub.revokes_done(), 20);
    assert!(!rig.last_result().output_tail.is_empty() && rig.last_result().output_tail.len() < 16 << 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_not_known_is_told_so() {
    let rig = Rig::start().await;
    let node = "a".parse().unwrap();
    let mut down = rig.nats().subscribe(subjects::down(&node, grid_types::SessionId(66))).await.unwrap();
    rig.nats().publish(subjects::up(&node), heartbeat(66, 5).encode_to_vec().into()).await.unwrap();
    let closing = rig::closing_of(&mut down).await;
    assert_eq!(CloseReason::of(&closing), Some(CloseReason::StaleSession));
    let unread = Bytes::from_static(b"\xff\xff");
    rig.nats().publish(subjects::up(&node), unread).await.unwrap();
}
