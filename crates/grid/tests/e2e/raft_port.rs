//! The controllers' port under senders that are not members of the cluster, and under members that lie.
//!
//! No message may end a controller, now or at its next start, depose a leader, or reveal an id.

use grid_proto::peer;
use grid_proto::peer::peer_client::PeerClient;
use grid_testkit::spec::{echo, job};
use grid_testkit::{Api, Server, Trio};
use prost::Message;
use serde_json::Value;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// Speaks to one controller.
struct Speaker {
    runtime: tokio::runtime::Runtime,
    client: PeerClient<Channel>,
}

impl Speaker {
    fn to(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", server.raft_port())).expect("an address");
        let channel = runtime.block_on(async { endpoint.connect_lazy() });
        Self { runtime, client: PeerClient::new(channel) }
    }

    fn vote(
        &mut self,
        sender: &peer::Sender,
        ballot: peer::Ballot,
        last: peer::LogId,
    ) -> Result<peer::VoteReply, Status> {
        let request = peer::VoteRequest { ballot: Some(ballot), last: Some(last) };
        self.runtime.block_on(self.client.vote(shown(sender, request))).map(tonic::Response::into_inner)
    }

    fn append(&mut self, sender: &peer::Sender, request: peer::AppendRequest) -> Result<peer::AppendReply, Status> {
        self.runtime.block_on(self.client.append(shown(sender, request))).map(tonic::Response::into_inner)
    }
}

/// A request with its sender, as members show it.
fn shown<T>(sender: &peer::Sender, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert_bin("grid-sender-bin", MetadataValue::from_bytes(&sender.encode_to_vec()));
    request
}

/// The facts about a controller that every client of the API can read.
fn public_ids(api: &Api, id: &str) -> (String, u64) {
    let cluster = api.get("/api/v1/cluster").json();
    let members = cluster["members"].as_array().expect("members");
    let member = members.iter().find(|member| member["id"] == id).expect("the controller");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (text(&cluster["cluster_id"]), member["raft_id"].as_u64().expect("a number"))
}

/// A sender that knows all public ids and is not a member.
fn outsider(api: &Api, target: &str) -> peer::Sender {
    let (cluster_id, target) = public_ids(api, target);
    peer::Sender { cluster_id, raft_id: 4_711, folder_id: "0".repeat(32), target, ..peer::Sender::default() }
}

fn ballot(term: u64, voted_for: u64, committed: bool) -> peer::Ballot {
    peer::Ballot { term, voted_for: Some(voted_for), committed }
}

fn refused(api: &Api, kind: &str) -> u64 {
    api.get("/status").json()["refused"]["raft"][kind].as_u64().unwrap_or(0)
}

const FAR: peer::LogId = peer::LogId { term: 1 << 40, index: 1 << 40 };

#[test]
fn issue14_1_a_vote_of_no_member_does_not_end_a_controller() {
    let mut trio = Trio::start_of(1, "", &[("web-01", "")]);
    let api = trio.api("c1");
    let sender = outsider(&api, "c1");
    let epoch = trio.roles()["c1"]["leader_epoch"].clone();
    let mut speaker = Speaker::to(&trio.servers["c1"]);
    for term in [u64::MAX, u64::MAX - 1, 50] {
        for (committed, voted_for) in [(false, 4_711), (true, 4_711), (true, sender.target)] {
            let vote = speaker.vote(&sender, ballot(term, voted_for, committed), FAR);
            assert!(vote.is_err(), "{term}: {vote:?}");
            let request = peer::AppendRequest {
                ballot: Some(ballot(term, voted_for, committed)),
                previous: Some(FAR),
                ..Default::default()
            };
            let append = speaker.append(&sender, request);
            assert!(append.is_err(), "{term}: {append:?}");
        }
    }
    assert!(trio.server("c1").process().is_running());
    assert_eq!(trio.roles()["c1"]["leader_epoch"], epoch, "it still leads");
    assert_eq!(refused(&api, "not_a_member"), 18);
    trio.server("c1").kill9();
    trio.server("c1").restart();
    let id = trio.submit("after", &job("all", [echo()]));
    assert_eq!(trio.api("c1").wait_ended(&id).status(), "completed");
}

#[test]
fn issue14_1_nobody_but_a_member_deposes_a_leader() {
    let mut trio = Trio::start(&[]);
    let leader = trio.wait_leader();
    let epoch = trio.roles()[&leader]["leader_epoch"].clone();
    for id in ["c1", "c2", "c3"] {
        let api = trio.api(id);
        let mut speaker = Speaker::to(&trio.servers[id]);
        let leader_id = public_ids(&api, &leader).1;
        // Under its own id, and under a member's.
        for raft_id in [4_711, leader_id] {
            let sender = peer::Sender { raft_id, ..outsider(&api, id) };
            for term in [50, u64::MAX] {
                let request = peer::AppendRequest { ballot: Some(ballot(term, raft_id, true)), ..Default::default() };
                assert!(speaker.append(&sender, request).is_err(), "{id} {term}");
                assert!(speaker.vote(&sender, ballot(term, raft_id, false), FAR).is_err(), "{id} {term}");
            }
        }
        // The second id is a member's, if the leader is not the one that is asked.
        let refused = refused(&api, "not_a_member") + refused(&api, "other_folder");
        assert_eq!(refused, 8, "{id}");
    }
    assert!(["c1", "c2", "c3"].iter().all(|id| trio.server(id).process().is_running()));
    assert_eq!(trio.wait_leader(), leader);
    assert_eq!(trio.roles()[&leader]["leader_epoch"], epoch, "it was never deposed");
    assert!(trio.roles().values().all(|role| role["leader_epoch"] == epoch));
}

#[test]
fn issue14_1_a_refusal_does_not_tell_which_id_was_wrong() {
    let trio = Trio::start_of(1, "", &[]);
    let api = trio.api("c1");
    let right = outsider(&api, "c1");
    let wrong = [
        right.clone(),
        peer::Sender { cluster_id: "x".into(), ..right.clone() },
        peer::Sender { target: 1, ..right.clone() },
        peer::Sender { raft_id: right.target, ..right.clone() },
        peer::Sender::default(),
    ];
    let mut speaker = Speaker::to(&trio.servers["c1"]);
    let said: Vec<(Code, String)> = wrong
        .iter()
        .map(|sender| {
            let status = speaker.vote(sender, ballot(2, 4_711, false), FAR).expect_err("refused");
            (status.code(), status.message().to_owned())
        })
        .collect();
    assert!(said.iter().all(|answer| *answer == said[0]), "{said:?}");
    let ids = [right.cluster_id, right.target.to_string()];
    assert!(ids.iter().all(|id| !said[0].1.contains(id.as_str())), "{said:?}");
}

/// What the folder of a controller knows of itself.
fn card(server: &Server) -> Value {
    let file = server.data_dir().join("raft/member.json");
    serde_json::from_slice(&std::fs::read(file).expect("a card")).expect("JSON")
}

/// A sender with everything that a member has.
fn member(server: &Server, target: &Server) -> peer::Sender {
    let (card, target) = (card(server), card(target));
    let text = |card: &Value, field: &str| card[field].as_str().expect("text").to_owned();
    peer::Sender {
        cluster_id: text(&card, "cluster_id"),
        raft_id: card["raft_id"].as_u64().expect("a number"),
        folder_id: text(&card, "folder_id"),
        target: target["raft_id"].as_u64().expect("a number"),
        target_folder: text(&target, "folder_id"),
        ..peer::Sender::default()
    }
}

fn at(term: u64, index: u64) -> peer::LogId {
    peer::LogId { term, index }
}

fn entry(id: peer::LogId, kind: peer::EntryKind, content: &[u8]) -> peer::Entry {
    peer::Entry { id: Some(id), kind: kind.into(), content: content.to_vec().into() }
}

/// Appends of the leader `me` in its term, each wrong in one thing.
fn bad_appends(me: u64, other: u64, term: u64) -> Vec<(&'static str, peer::AppendRequest)> {
    use peer::EntryKind::{Blank, Membership, Payload};
    let right = || peer::AppendRequest { ballot: Some(ballot(term, me, true)), ..Default::default() };
    let with_ballot = |ballot| peer::AppendRequest { ballot: Some(ballot), ..Default::default() };
    let with = |previous, entries| peer::AppendRequest { previous: Some(previous), entries, ..right() };
    let far = 1 << 63;
    vec![
        ("no ballot", peer::AppendRequest::default()),
        ("the highest term", with_ballot(ballot(u64::MAX, me, true))),
        ("a term too far", with_ballot(ballot(term + (1 << 31), me, true))),
        ("a ballot for another", with_ballot(ballot(term + 1, other, true))),
        ("a ballot for nobody", with_ballot(peer::Ballot { term: term + 1, voted_for: None, committed: true })),
        ("a candidate's ballot", with_ballot(ballot(term, me, false))),
        ("a position too far", with(at(term, u64::MAX), vec![])),
        ("a position of a later term", with(at(term + 1, 3), vec![])),
        ("a commit too far", peer::AppendRequest { committed: Some(at(term, far)), ..right() }),
        ("a first entry too far", with(at(term, far), vec![entry(at(term, far + 1), Blank, b"")])),
        ("a gap", with(at(term, 5), vec![entry(at(term, 7), Blank, b"")])),
        ("an entry without an id", with(at(term, 5), vec![peer::Entry::default()])),
        ("an entry of a later term", with(at(term, 5), vec![entry(at(term + 1, 6), Blank, b"")])),
        ("another first entry", peer::AppendRequest { entries: vec![entry(at(term, 9), Blank, b"")], ..right() }),
        ("a blank entry with content", with(at(term, 500), vec![entry(at(term, 501), Blank, b"x")])),
        ("a payload too large", with(at(term, 500), vec![entry(at(term, 501), Payload, &vec![0; 3 << 20])])),
        ("a membership of noise", with(at(term, 500), vec![entry(at(term, 501), Membership, b"noise")])),
        (
            "a membership without voters",
            with(
                at(term, 500),
                vec![entry(at(term, 501), Membership, br#"{"position":null,"voters":[],"members":{}}"#)],
            ),
        ),
        ("an unknown kind", with(at(term, 500), vec![peer::Entry { kind: 77, ..entry(at(term, 501), Blank, b"") }])),
    ]
}

#[test]
fn issue14_1_a_member_that_lies_ends_nobody() {
    let mut trio = Trio::start(&[]);
    let leader = trio.wait_leader();
    let epoch = trio.roles()[&leader]["leader_epoch"].clone();
    let follower = trio.standbys().remove(0);
    let sender = member(&trio.servers[&leader], &trio.servers[&follower]);
    let (me, other) = (sender.raft_id, sender.target);
    let mut speaker = Speaker::to(&trio.servers[&follower]);
    let probe = speaker.runtime.block_on(speaker.client.probe(shown(&sender, peer::ProbeRequest {})));
    let term = probe.expect("a member is answered").into_inner().term;
    for (what, request) in bad_appends(me, other, term) {
        let answer = speaker.append(&sender, request);
        assert_eq!(answer.map_err(|status| status.code()), Err(Code::InvalidArgument), "{what}");
    }
    let last = at(term, 3);
    for (what, ballot, last) in [
        ("the highest term", ballot(u64::MAX, me, false), last),
        ("a term too far", ballot(term + (1 << 31), me, false), last),
        ("a ballot for another", ballot(term + 1, other, false), last),
        ("a leader's ballot", ballot(term + 1, me, true), last),
        ("a log newer than the ballot", ballot(term + 1, me, false), at(term + 2, 3)),
        ("a log too long", ballot(term + 1, me, false), at(term, u64::MAX)),
    ] {
        let answer = speaker.vote(&sender, ballot, last);
        assert_eq!(answer.map_err(|status| status.code()), Err(Code::InvalidArgument), "{what}");
    }
    let right = peer::SnapshotHeader {
        ballot: Some(ballot(term, me, true)),
        last: Some(last),
        membership: None,
        snapshot_id: format!("{term}-3-{}", "0".repeat(64)),
    };
    for (what, header) in [
        ("no ballot", peer::SnapshotHeader { ballot: None, ..right.clone() }),
        ("no position", peer::SnapshotHeader { last: None, ..right.clone() }),
        ("a position too far", peer::SnapshotHeader { last: Some(at(term, u64::MAX)), ..right.clone() }),
        ("an id that is a path", peer::SnapshotHeader { snapshot_id: "../../x".into(), ..right.clone() }),
        ("an id of another position", peer::SnapshotHeader { last: Some(at(term, 4)), ..right.clone() }),
        ("a membership of noise", peer::SnapshotHeader { membership: Some(b"noise".to_vec().into()), ..right.clone() }),
        ("no membership", right.clone()),
    ] {
        let part = peer::SnapshotPart { part: Some(peer::snapshot_part::Part::Header(header)) };
        let stream = shown(&sender, tokio_stream::iter([part]));
        let answer = speaker.runtime.block_on(speaker.client.snapshot(stream));
        assert_eq!(answer.map(drop).map_err(|status| status.code()), Err(Code::InvalidArgument), "{what}");
    }
    for record in [r#"{"address":"a\nb"}"#.to_owned(), format!(r#"{{"address":"{}"}}"#, "x".repeat(5_000)), "{".into()]
    {
        let request = peer::AnnounceRequest { member: record.into(), wants_vote: false };
        let answer = speaker.runtime.block_on(speaker.client.announce(shown(&sender, request)));
        assert_eq!(answer.map(drop).map_err(|status| status.code()), Err(Code::InvalidArgument));
    }
    let large = peer::AppendRequest {
        ballot: Some(ballot(term, me, true)),
        entries: vec![entry(at(term, 0), peer::EntryKind::Payload, &vec![0; 5 << 20])],
        ..Default::default()
    };
    assert_eq!(speaker.append(&sender, large).map_err(|status| status.code()), Err(Code::OutOfRange));
    let api = trio.api(&follower);
    for kind in ["malformed", "forged_ballot", "term_too_high", "index_too_high", "out_of_bounds", "too_large"] {
        assert!(refused(&api, kind) > 0, "{kind}");
    }
    assert!(["c1", "c2", "c3"].iter().all(|id| trio.server(id).process().is_running()));
    trio.wait_equal();
    assert_eq!(trio.roles()[&leader]["leader_epoch"], epoch, "nothing of it changed anything");
}
