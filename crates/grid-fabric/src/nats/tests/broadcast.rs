//! N2 over a real nats-server: who hears an offer that is published once.

use std::collections::BTreeSet;

use grid_proto::v1;
use grid_types::{NodeOrd, SessionId};

use super::rig::{EPOCH, Rig, heartbeat, lease};
use crate::{Arrival, Audience, Downlink, Link, NotPublished, OfferMany, Recipient, Uplink};

/// Session and ordinal are those that the fake hub gives a node with such a name.
async fn session(rig: &Rig, node: u32, groups: &[&str]) -> (Uplink, Downlink) {
    let link = rig.link(&format!("n{node}")).await;
    let groups = groups.iter().map(ToString::to_string).collect();
    let facts = Some(v1::NodeFacts { groups, ..Default::default() });
    let request = v1::RegisterNodeRequest { node_id: format!("n{node}"), facts, ..Default::default() };
    let reply = link.register(request).await.unwrap();
    link.open(heartbeat(reply.session, 1)).await.unwrap()
}

fn offer(attempt: u32, to: &[u32], audience: Audience) -> OfferMany {
    let recipients =
        to.iter().map(|node| Recipient { node: NodeOrd(*node), session: SessionId(u64::from(*node) + 100) });
    let (backend, action) = ("ping".to_owned(), "echo".to_owned());
    let offer = v1::Offer { lease: Some(lease(attempt)), backend, action, timeout_ms: 1_000, ..Default::default() };
    let offer = v1::Offer { effect: v1::EffectClass::Pure.into(), ..offer };
    OfferMany { leader_epoch: EPOCH, offer, recipients: recipients.collect(), audience }
}

/// Waits until a session was offered all of these attempts, and nothing else before.
async fn offered(rig: &Rig, downlink: &mut Downlink, expected: &[u32]) {
    // Commands for all and for a group come on two subscriptions: their order is not that of publishing.
    let (expected, mut attempts) = (BTreeSet::from_iter(expected.iter().copied()), BTreeSet::new());
    while !attempts.is_superset(&expected) {
        if let Arrival::Message(message) = rig.heard(downlink).await {
            attempts.extend(message.offers.iter().map(|offer| offer.lease.unwrap().attempt));
        }
    }
    assert_eq!(attempts, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn n2_only_the_sessions_that_are_meant_hear_what_is_published_once() {
    let rig = Rig::start().await;
    let broadcaster = rig.broadcaster().expect("it leads");
    let (_up1, mut first) = session(&rig, 1, &["web"]).await;
    let (_up2, mut second) = session(&rig, 2, &["web", "prod"]).await;
    let (_up3, mut third) = session(&rig, 3, &[]).await;
    let web = || Audience::Group("web".parse().unwrap());
    for published in [
        offer(1, &[1, 2], Audience::All),
        offer(2, &[2, 3], Audience::All),
        offer(3, &[1, 2, 3], web()),
        // Above the sessions that are meant is that of node 3, although its ordinal is in the range.
        OfferMany {
            recipients: vec![Recipient { node: NodeOrd(3), session: SessionId(102) }],
            ..offer(4, &[3], Audience::All)
        },
        OfferMany { leader_epoch: EPOCH - 1, ..offer(5, &[1, 2, 3], Audience::All) },
        offer(6, &[1, 2, 3], Audience::All),
    ] {
        broadcaster.publish(&published).unwrap();
    }
    offered(&rig, &mut first, &[1, 3, 6]).await;
    offered(&rig, &mut second, &[1, 2, 3, 6]).await;
    offered(&rig, &mut third, &[2, 6]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n2_what_has_no_message_is_refused_and_goes_per_session() {
    let rig = Rig::start().await;
    let broadcaster = rig.broadcaster().expect("it leads");
    assert_eq!(broadcaster.publish(&offer(1, &[1, 4_000_000], Audience::All)), Err(NotPublished::NoMessage));
    let text = v1::Value { kind: Some(v1::value::Kind::Text("x".repeat(rig.client().split_bytes()))) };
    let mut large = offer(1, &[1, 2], Audience::All);
    large.offer.params.insert("message".to_owned(), text);
    assert_eq!(broadcaster.publish(&large), Err(NotPublished::NoMessage));
}

#[tokio::test(flavor = "multi_thread")]
async fn n2_who_does_not_lead_or_has_no_connection_cannot_broadcast() {
    let mut rig = Rig::start().await;
    let broadcaster = rig.broadcaster().expect("it leads");
    rig.server.kill9();
    rig.wait_for("the connection to break", || {
        broadcaster.publish(&offer(1, &[1, 2], Audience::All)) == Err(NotPublished::Disconnected)
    })
    .await;
    rig.server.restart();
    rig.wait_for("the connection", || broadcaster.publish(&offer(1, &[1, 2], Audience::All)).is_ok()).await;
    rig.lead(0);
    rig.wait_for("its end", || rig.broadcaster().is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n2_garbage_on_the_subjects_of_commands_ends_nothing() {
    let rig = Rig::start().await;
    let (_up, mut down) = session(&rig, 1, &[]).await;
    for payload in [&b""[..], b"{", b"null", b"{\"include\":{\"from\":1,\"to\":1}}", &[0xff; 1_000]] {
        rig.nats().publish("cmd.all.ping.echo", payload.to_vec().into()).await.unwrap();
        rig.nats().publish("cmd.all.x", payload.to_vec().into()).await.unwrap();
    }
    rig.nats().flush().await.unwrap();
    rig.broadcaster().expect("it leads").publish(&offer(7, &[1], Audience::All)).unwrap();
    offered(&rig, &mut down, &[7]).await;
}
