//! The controllers' own port, spoken to by what is no member of the cluster, and by members that lie.
//!
//! Nothing of it may end a controller, now or at its next start, depose a leader, or tell an id.

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

/// What everybody who can ask the API knows of a controller.
fn public_ids(api: &Api, id: &str) -> (String, u64) {
    let cluster = api.get("/api/v1/cluster").json();
    let members = cluster["members"].as_array().expect("members");
    let member = members.iter().find(|member| member["id"] == id).expect("the controller");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (text(&cluster["cluster_id"]), member["raft_id"].as_u64().expect("a number"))
}

/// A sender that knows all public ids, and is no member.
fn stranger(api: &Api, target: &str) -> peer::Sender {
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
    let sender = stranger(&api, "c1");
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
        // Under an id of its own, and under a member's.
        for raft_id in [4_711, leader_id] {
            let sender = peer::Sender { raft_id, ..stranger(&api, id) };
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
    let right = stranger(&api, "c1");
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
