//! Answers what other members ask on the peer port.
//!
//! Every request comes from a member (`gate`), and is within its bounds (`bounds`) before openraft sees it.
//! Not here: calls of this member (`peers::network`, `member`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grid_proto::listen::{Counted, Incoming, Places};
use grid_proto::peer;
use grid_proto::peer::peer_server::Peer;
use grid_proto::refusals::{Kind, Port};
use openraft::raft::AppendEntriesResponse;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::bounds;
use crate::group::{Member, Metrics, position_of};
use crate::member::RunningMember;
use crate::peer_port::gate::Gate;
use crate::peers::sender::Caller;
use crate::peers::wire;
use crate::peers::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, WINDOW_BYTES, refused};

/// A sender that goes silent in the middle of a snapshot is given up.
const STALLED: Duration = Duration::from_secs(15);

/// Members that do not lead ask each other for little; a caller that is disconnected here connects again.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// Appends that are late, probes, and reads that ask the leader; more wait at the member that calls.
const STREAMS_PER_CONNECTION: u32 = 128;
const MAX_HEADER_BYTES: u32 = 8 << 10;

/// Serves until the member ends, at most `most` connections at once.
pub async fn serve(
    listener: TcpListener,
    most: usize,
    member: Arc<RunningMember>,
) -> Result<(), tonic::transport::Error> {
    let mut closing = member.closing.subscribe();
    let service = Counted::new(Port::Raft, Gate::new(member));
    let places = Places::new(Port::Raft, Kind::TooManyConnections, most);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .serve_with_incoming(service, Incoming::new(listener, places, IDLE_LIMIT));
    tokio::select! {
        ended = server => ended,
        // Requests under way are cut off: the caller treats this member as down, which it is.
        _ = closing.wait_for(|closing| *closing) => Ok(()),
    }
}

pub struct PeerService {
    pub member: Arc<RunningMember>,
}

impl PeerService {
    fn metrics(&self) -> Metrics {
        self.member.raft.metrics().borrow().clone()
    }

    /// Of a leader: up to where the member's log matched its own.
    fn acknowledged_by(&self, member: u64) -> Option<peer::LogId> {
        let metrics = self.metrics();
        if metrics.current_leader != Some(metrics.id) {
            return None;
        }
        let acknowledged = self.member.peers.contact().acknowledged_in(member, metrics.current_term);
        acknowledged.as_ref().map(wire::log_id)
    }

    async fn receive(
        &self,
        from: u64,
        mut parts: Streaming<peer::SnapshotPart>,
    ) -> Result<peer::SnapshotReply, Status> {
        use peer::snapshot_part::Part;
        let Some(Part::Header(header)) = next(&mut parts).await? else {
            return Err(wire::missing("header"));
        };
        let known = self.member.peers.known();
        known.snapshot(from, &header).map_err(refused)?;
        let (vote, meta) = wire::from_snapshot_header(&header)?;
        bounds::membership(meta.last_membership.membership()).map_err(refused)?;
        known.membership_at(meta.last_membership.log_id().as_ref().map(position_of), header.last).map_err(refused)?;
        let _turn = self.member.receiving.try_lock().map_err(|_| Status::resource_exhausted("one at a time"))?;
        let mine = self.member.raft.with_raft_state(|state| *state.vote_ref()).await.map_err(ended)?;
        if vote < mine {
            return Ok(peer::SnapshotReply { ballot: Some(wire::ballot(&mine)) });
        }
        tracing::info!(snapshot = meta.snapshot_id, "receiving a snapshot");
        // Not by openraft, which takes a failure for the end of the disk.
        let snapshots = self.member.snapshots.clone();
        let received = tokio::task::spawn_blocking(move || snapshots.receiving()).await.map_err(ended)?;
        let failed = |e: std::io::Error| Status::internal(format!("cannot keep the snapshot: {e}"));
        let mut file = Box::new(tokio::fs::File::from_std(received.map_err(failed)?));
        let mut hasher = blake3::Hasher::new();
        let mut bytes: u64 = 0;
        while let Some(part) = next(&mut parts).await? {
            let Part::Chunk(chunk) = part else {
                return Err(Status::invalid_argument("a snapshot has one header"));
            };
            bytes = bytes.saturating_add(chunk.len() as u64);
            if bytes > bounds::MAX_SNAPSHOT_BYTES {
                return Err(refused((Kind::TooLarge, "a snapshot is too large")));
            }
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(failed)?;
        }
        // Installing less than was sent would end this member: openraft takes it for a broken disk.
        if !meta.snapshot_id.ends_with(hasher.finalize().to_hex().as_str()) {
            return Err(Status::data_loss("the snapshot that arrived is not the one that was sent"));
        }
        file.flush().await.map_err(failed)?;
        file.rewind().await.map_err(failed)?;
        let snapshot = openraft::Snapshot { meta, snapshot: file };
        self.member.compared().await.map_err(Status::unavailable)?;
        let response = self.member.raft.install_full_snapshot(vote, snapshot).await.map_err(ended)?;
        Ok(peer::SnapshotReply { ballot: Some(wire::ballot(&response.vote)) })
    }
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn append(&self, request: Request<peer::AppendRequest>) -> Result<Response<peer::AppendReply>, Status> {
        let from = caller(&request)?;
        let request = request.into_inner();
        self.member.peers.known().append(from, &request).map_err(refused)?;
        let (floors, committed) = (request.floors.clone(), request.committed.map(wire::from_log_id));
        let request = wire::from_append(request)?;
        for entry in &request.entries {
            if let openraft::EntryPayload::Membership(membership) = &entry.payload {
                bounds::membership(membership).map_err(refused)?;
            }
        }
        self.member.compared().await.map_err(Status::unavailable)?;
        let response = self.member.raft.append_entries(request).await.map_err(ended)?;
        if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
            let contact = self.member.peers.contact();
            contact.followed_a_leader();
            floors.iter().for_each(|floor| contact.had(floor.raft_id, floor.at.map(wire::from_log_id), committed));
        }
        Ok(Response::new(wire::append_reply(&response)))
    }

    async fn vote(&self, request: Request<peer::VoteRequest>) -> Result<Response<peer::VoteReply>, Status> {
        let from = caller(&request)?;
        let request = request.into_inner();
        self.member.peers.known().vote(from, &request).map_err(refused)?;
        if !self.member.may_vote() {
            return Err(Status::unavailable(
                "it has just started, and compares its log with the others' before it votes",
            ));
        }
        let response = self.member.raft.vote(wire::from_vote(&request)?).await.map_err(ended)?;
        Ok(Response::new(wire::vote_reply(&response)))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<peer::SnapshotPart>>,
    ) -> Result<Response<peer::SnapshotReply>, Status> {
        let from = caller(&request)?;
        self.receive(from, request.into_inner()).await.map(Response::new)
    }

    async fn probe(&self, request: Request<peer::ProbeRequest>) -> Result<Response<peer::ProbeReply>, Status> {
        let sender = caller(&request)?;
        let unlisted = self.member.unlisted_at(sender).await.map_err(ended)?;
        let metrics = self.metrics();
        let last = self.member.raft.data_metrics().borrow().last_log;
        let index = |id: Option<openraft::LogId<u64>>| id.map_or(0, |id| id.index);
        Ok(Response::new(peer::ProbeReply {
            has_leader: self.member.has_leader(),
            term: metrics.current_term,
            last_index: index(last),
            applied_index: index(metrics.last_applied),
            snapshot_index: index(metrics.snapshot),
            leader: metrics.current_leader,
            about: Bytes::from(self.member.about()),
            last: last.as_ref().map(wire::log_id),
            acknowledged: self.acknowledged_by(sender),
            floor: self.member.peers.contact().floor(sender).as_ref().map(wire::log_id),
            unlisted: unlisted.as_ref().map(wire::log_id),
        }))
    }

    async fn read_index(
        &self,
        request: Request<peer::ReadIndexRequest>,
    ) -> Result<Response<peer::ReadIndexReply>, Status> {
        caller(&request)?;
        let at = self.member.own_read_index().await.map_err(Status::unavailable)?;
        Ok(Response::new(peer::ReadIndexReply { at: at.as_ref().map(wire::log_id) }))
    }

    async fn elect(&self, request: Request<peer::ElectRequest>) -> Result<Response<peer::Empty>, Status> {
        let sender = caller(&request)?;
        if self.metrics().current_leader != Some(sender) {
            return Err(Status::aborted("only its leader may ask a member to stand for election"));
        }
        self.member.raft.trigger().elect().await.map_err(ended)?;
        Ok(Response::new(peer::Empty {}))
    }

    async fn announce(&self, request: Request<peer::AnnounceRequest>) -> Result<Response<peer::Empty>, Status> {
        let sender = caller(&request)?;
        let request = request.into_inner();
        let member: Member = serde_json::from_slice(&request.member)
            .map_err(|_| refused((Kind::Malformed, "the record of a member cannot be read")))?;
        bounds::member(&member).map_err(refused)?;
        self.member.announced(sender, member, request.wants_vote).await.map_err(|e| Status::aborted(e.to_string()))?;
        Ok(Response::new(peer::Empty {}))
    }
}

/// The member that calls, as the gate has found it.
fn caller<T>(request: &Request<T>) -> Result<u64, Status> {
    let caller = request.extensions().get::<Caller>().map(|caller| caller.0);
    caller.ok_or_else(|| Status::internal("a call that did not pass the gate"))
}

async fn next(parts: &mut Streaming<peer::SnapshotPart>) -> Result<Option<peer::snapshot_part::Part>, Status> {
    let message = tokio::time::timeout(STALLED, parts.message()).await;
    let message = message.map_err(|_| Status::deadline_exceeded("the snapshot stopped coming"))??;
    message.map(|message| message.part.ok_or_else(|| wire::missing("part"))).transpose()
}

fn ended(e: impl std::fmt::Display) -> Status {
    Status::unavailable(e.to_string())
}
