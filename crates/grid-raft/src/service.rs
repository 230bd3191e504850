//! The peer port: answers what other members ask.
//!
//! E3: a request of another cluster, for another member, or from a folder that
//! is not the one membership knows under that id is refused, and logged. A sender
//! that membership does not know is heard all the same: this member may lag
//! behind the entry that added it, and its vote may be the one that is needed.
//! Not here: calls of this member (`network`, `read`, `hand_over`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grid_proto::listen::{Counted, Incoming, Places};
use grid_proto::peer;
use grid_proto::peer::peer_server::{Peer, PeerServer};
use grid_proto::refusals::{Kind, Port};
use openraft::raft::AppendEntriesResponse;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::group::{Member, Metrics};
use crate::peers::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, MAX_MESSAGE_BYTES, WINDOW_BYTES};
use crate::start::Started;
use crate::wire;

/// A sender that goes silent in the middle of a snapshot is given up.
const STALLED: Duration = Duration::from_secs(15);

/// Members that do not lead ask each other for little; whoever is let go here connects again when it asks.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// Serves until the member ends, at most `most` connections at once.
pub async fn serve(listener: TcpListener, most: usize, member: Arc<Started>) -> Result<(), tonic::transport::Error> {
    let mut closing = member.closing.subscribe();
    let service = PeerServer::new(Desk { member }).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let places = Places::new(Port::Raft, Kind::TooManyConnections, most);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .serve_with_incoming(Counted(service), Incoming::new(listener, places, IDLE_LIMIT));
    tokio::select! {
        ended = server => ended,
        // Requests under way are cut off: whoever asked treats this member as down, which it is.
        _ = closing.wait_for(|closing| *closing) => Ok(()),
    }
}

struct Desk {
    member: Arc<Started>,
}

impl Desk {
    fn metrics(&self) -> Metrics {
        self.member.raft.metrics().borrow().clone()
    }

    /// Returns who asks.
    fn check(&self, sender: Option<&peer::Sender>) -> Result<u64, Status> {
        let sender = sender.ok_or_else(|| wire::missing("sender"))?;
        let me = self.member.peers.me();
        let refuse = |reason: String| {
            self.member.peers.note_refused(sender.raft_id, &reason);
            Err(Status::failed_precondition(reason))
        };
        let refuse_here = |reason: String| {
            self.member.peers.note_refused(sender.raft_id, &reason);
            Err(self.member.peers.refusal(reason))
        };
        if sender.cluster_id != me.cluster_id {
            return refuse(format!(
                "member {} is of cluster {}, this is cluster {}; correct its addresses, or give it an empty folder",
                sender.raft_id, sender.cluster_id, me.cluster_id
            ));
        }
        self.member.peers.note_generation(sender.generation, sender.raft_id);
        if sender.target != me.raft_id {
            // Of the same cluster: it may be a member from before a restore, which is to learn that.
            return refuse_here(format!(
                "member {} looks for member {} here, this is member {}; two members may have been given one address",
                sender.raft_id, sender.target, me.raft_id
            ));
        }
        let membership = self.member.membership();
        let known = membership.get_node(&sender.raft_id).map(|member| member.folder_id.as_str());
        match known {
            Some(folder) if !folder.is_empty() && folder != sender.folder_id => refuse(format!(
                "member {} has the folder {}, membership knows it with {folder}; put its own folder back",
                sender.raft_id, sender.folder_id
            )),
            _ => Ok(sender.raft_id),
        }
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

    async fn receive(&self, mut parts: Streaming<peer::SnapshotPart>) -> Result<peer::SnapshotReply, Status> {
        use peer::snapshot_part::Part;
        let Some(Part::Header(header)) = next(&mut parts).await? else {
            return Err(wire::missing("header"));
        };
        self.check(header.sender.as_ref())?;
        let (vote, meta) = wire::from_snapshot_header(&header)?;
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
        while let Some(part) = next(&mut parts).await? {
            let Part::Chunk(chunk) = part else {
                return Err(Status::invalid_argument("a snapshot has one header"));
            };
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
        let response = self.member.raft.install_full_snapshot(vote, snapshot).await.map_err(ended)?;
        Ok(peer::SnapshotReply { ballot: Some(wire::ballot(&response.vote)) })
    }
}

#[tonic::async_trait]
impl Peer for Desk {
    async fn append(&self, request: Request<peer::AppendRequest>) -> Result<Response<peer::AppendReply>, Status> {
        let request = request.into_inner();
        self.check(request.sender.as_ref())?;
        let response = self.member.raft.append_entries(wire::from_append(request)?).await.map_err(ended)?;
        if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
            self.member.peers.contact().followed_a_leader();
        }
        Ok(Response::new(wire::append_reply(&response)))
    }

    async fn vote(&self, request: Request<peer::VoteRequest>) -> Result<Response<peer::VoteReply>, Status> {
        let request = request.into_inner();
        self.check(request.sender.as_ref())?;
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
        self.receive(request.into_inner()).await.map(Response::new)
    }

    async fn probe(&self, request: Request<peer::ProbeRequest>) -> Result<Response<peer::ProbeReply>, Status> {
        let sender = self.check(request.into_inner().sender.as_ref())?;
        let unlisted_at = self.member.unlisted_at(sender).await.map_err(ended)?;
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
            unlisted_at,
            acknowledged: self.acknowledged_by(sender),
        }))
    }

    async fn read_index(
        &self,
        request: Request<peer::ReadIndexRequest>,
    ) -> Result<Response<peer::ReadIndexReply>, Status> {
        self.check(request.into_inner().sender.as_ref())?;
        let at = self.member.own_read_index().await.map_err(Status::unavailable)?;
        Ok(Response::new(peer::ReadIndexReply { at: at.as_ref().map(wire::log_id) }))
    }

    async fn elect(&self, request: Request<peer::ElectRequest>) -> Result<Response<peer::Empty>, Status> {
        let sender = self.check(request.into_inner().sender.as_ref())?;
        if self.metrics().current_leader != Some(sender) {
            return Err(Status::aborted("only its leader may ask a member to stand for election"));
        }
        self.member.raft.trigger().elect().await.map_err(ended)?;
        Ok(Response::new(peer::Empty {}))
    }

    async fn announce(&self, request: Request<peer::AnnounceRequest>) -> Result<Response<peer::Empty>, Status> {
        let request = request.into_inner();
        let sender = self.check(request.sender.as_ref())?;
        let member: Member = serde_json::from_slice(&request.member)
            .map_err(|e| Status::invalid_argument(format!("the member's record: {e}")))?;
        self.member.announced(sender, member, request.wants_vote).await.map_err(|e| Status::aborted(e.to_string()))?;
        Ok(Response::new(peer::Empty {}))
    }
}

async fn next(parts: &mut Streaming<peer::SnapshotPart>) -> Result<Option<peer::snapshot_part::Part>, Status> {
    let message = tokio::time::timeout(STALLED, parts.message()).await;
    let message = message.map_err(|_| Status::deadline_exceeded("the snapshot stopped coming"))??;
    message.map(|message| message.part.ok_or_else(|| wire::missing("part"))).transpose()
}

fn ended(e: impl std::fmt::Display) -> Status {
    Status::unavailable(e.to_string())
}
