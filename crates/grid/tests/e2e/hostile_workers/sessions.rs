//! A session belongs to the process that registered it, even if other clients know its number.

use std::path::{Path, PathBuf};

use grid_proto::v1;
use grid_testkit::spec::{echo, job, sleep};
use grid_testkit::{Cluster, Trio};
use tonic::Status;

use super::peer::{Peer, epoch, first, refused, registration};
use crate::bad_input::one_node;

fn session_of(cluster: &Cluster, node: &str) -> u64 {
    let node = cluster.api().try_node(node).expect("the node");
    node["session"].as_u64().unwrap_or_else(|| panic!("no session: {node}"))
}

fn secret(byte: u8) -> Option<v1::Secret> {
    Some(v1::Secret { value: vec![byte; 16] })
}

fn drain(peer: &Peer, request: &v1::NodeSession) -> Result<(), Status> {
    peer.call(async |mut client| client.drain_node(request.clone()).await.map(drop))
}

fn leave(peer: &Peer, request: &v1::NodeSession) -> Result<(), Status> {
    peer.call(async |mut client| client.leave_node(request.clone()).await.map(drop))
}

fn send_log(peer: &Peer, chunk: v1::LogChunk) -> Result<(), Status> {
    peer.call(async |mut client| client.stream_logs(tokio_stream::once(chunk)).await.map(drop))
}

#[test]
fn issue14_2_a_session_cannot_be_taken_over_by_its_number() {
    let cluster = one_node();
    let (session, epoch) = (session_of(&cluster, "web-01"), epoch(&cluster.api()));
    let peer = Peer::connect(cluster.server.grpc_port());
    for secret in [None, secret(0), secret(7), Some(v1::Secret { value: vec![7; 1 << 20] })] {
        let guessed = v1::RegisterNodeReply { session, leader_epoch: epoch, secret, ..Default::default() };
        let mut stream = peer.open(first(&guessed)).expect("answered");
        assert_eq!(peer.closing(&mut stream), "STALE_SESSION");
    }
    let guessed =
        v1::NodeSession { node_id: "web-01".to_owned(), session, secret: secret(7), nothing_outstanding: true };
    drain(&peer, &guessed).expect_err("refused");
    leave(&peer, &guessed).expect_err("refused");
    let id = cluster.api().submit(&job("all", [echo()]));
    assert_eq!(cluster.api().wait_ended(&id).status(), "completed", "by the worker itself");
    assert_eq!(cluster.api().try_node("web-01").expect("the node")["state"], "ready");
    assert_eq!(session_of(&cluster, "web-01"), session, "its session was never disturbed");
    assert_eq!(refused(&cluster.api(), "bad_secret"), 6);
}

#[test]
fn issue14_2_a_refusal_does_not_tell_what_exists() {
    let cluster = one_node();
    let session = session_of(&cluster, "web-01");
    let agent = cluster.api().post("/v1/leases", &serde_json::json!({"agent": "polls", "wait": "0s"}));
    assert_eq!(agent.status, 200);
    let of_agent = session_of(&cluster, "polls");
    let peer = Peer::connect(cluster.server.grpc_port());
    let mut answers = Vec::new();
    for (node, session) in
        [("web-01", session), ("web-01", session + 7), ("nobody", 1), ("no name!", 0), ("polls", of_agent)]
    {
        let guessed =
            v1::NodeSession { node_id: node.to_owned(), session, secret: secret(7), nothing_outstanding: false };
        answers.push(drain(&peer, &guessed).expect_err("refused"));
        answers.push(leave(&peer, &guessed).expect_err("refused"));
        let chunk = v1::LogChunk { session, secret: secret(7), request_id: "log-1".to_owned(), ..Default::default() };
        answers.push(send_log(&peer, chunk).expect_err("refused"));
    }
    let shown = |status: &Status| (status.code(), status.message().to_owned());
    assert!(answers.iter().all(|status| shown(status) == shown(&answers[0])), "{answers:?}");
}

#[test]
fn issue14_2_a_second_stream_closes_the_first_and_both_sides_say_so() {
    let mut cluster = one_node();
    let peer = Peer::connect(cluster.server.grpc_port());
    let reply = peer.register(registration("raw")).expect("registered");
    let mut before = peer.open(first(&reply)).expect("open");
    let mut after = peer.open(first(&reply)).expect("its secret opens a second one");
    peer.send(&before, v1::FromWorker { heartbeat: Some(v1::Heartbeat::default()), ..first(&reply) });
    assert_eq!(peer.closing(&mut before), "REPLACED");
    cluster.api().submit(&job("node:raw", [sleep("100s")]));
    let offers = loop {
        let message = peer.next(&mut after).expect("the second stream goes on");
        if !message.offers.is_empty() {
            break message.offers;
        }
    };
    assert_eq!(offers.len(), 1);
    let log = cluster.server.process().log_text();
    assert!(log.contains("a second stream of this session was opened"), "{log}");
    assert_eq!(refused(&cluster.api(), "stream_replaced"), 1);
    let again = peer.register(registration("raw")).expect("the same process registers again");
    assert_eq!(peer.closing(&mut after), "STALE_SESSION");
    assert_ne!(again.secret, reply.secret, "every registration has a secret of its own");
    let mut stale = peer.open(first(&reply)).expect("answered");
    assert_eq!(peer.closing(&mut stale), "STALE_SESSION");
    let old = v1::NodeSession {
        node_id: "raw".to_owned(),
        session: again.session,
        secret: reply.secret,
        ..Default::default()
    };
    leave(&peer, &old).expect_err("the secret of an earlier session");
    let own = v1::NodeSession { secret: again.secret, ..old };
    leave(&peer, &own).expect("its own");
    cluster.api().wait_node("raw", "left");
}

#[test]
fn issue14_2_a_new_leader_knows_the_secret_by_its_hash_and_no_file_has_it() {
    let mut trio = Trio::start(&[("web-01", "")]);
    let leader = trio.wait_leader();
    let peer = Peer::connect(trio.server(&leader).grpc_port());
    let reply = peer.register(registration("raw")).expect("registered");
    let secret = reply.secret.clone().expect("a secret");
    assert_eq!(secret.value.len(), 16);
    trio.server(&leader).kill9();
    let next = trio.wait_other_leader(&leader);
    let peer = Peer::connect(trio.server(&next).grpc_port());
    let session = v1::NodeSession { node_id: "raw".to_owned(), session: reply.session, ..Default::default() };
    leave(&peer, &session).expect_err("without the secret");
    leave(&peer, &v1::NodeSession { secret: reply.secret, ..session }).expect("the new leader knows the session");
    trio.api(&next).wait_node("raw", "left");
    for id in [leader, next] {
        let data = trio.server(&id).data_dir();
        let folder = data.parent().expect("a folder");
        assert_eq!(files_with(folder, &secret.value), Vec::<PathBuf>::new(), "logs, SQLite and the log of {id}");
    }
}

fn files_with(folder: &Path, wanted: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, wanted));
        } else if std::fs::read(&path).is_ok_and(|bytes| bytes.windows(wanted.len()).any(|part| part == wanted)) {
            found.push(path);
        }
    }
    found
}
