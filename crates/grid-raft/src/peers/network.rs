//! openraft's calls to other members, over their peer port.
//!
//! L1: AppendEntries stays under 4 MiB, since the log store cuts it off. A
//! snapshot goes from file to file in chunks; at most [`CHUNKS_AHEAD`] of them
//! are in memory.
//! Not here: connections (`peers`), the layout of messages (`wire`).
//! An append runs on a task of its own, which its link owns: openraft drops the
//! call after one heartbeat interval, and an answer that a slow disk made late is
//! still proof that the member is there (E5), and often that it has the entries.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use grid_proto::{Foreign, causes, peer};
use openraft::error::{
    Fatal, InstallSnapshotError, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, SnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, RaftNetwork, RaftNetworkFactory, Vote};
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::group::{Group, Member, StorageIoError};
use crate::peers::wire;
use crate::peers::{Lane, Peers, refused};

const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS_AHEAD: usize = 4;
/// A receiver that takes no chunk for so long is given up.
const STALLED: Duration = Duration::from_secs(10);
/// For the receiver to check and install what it has got, from the last chunk on: how long the transfer may take depends
/// on the size, and is bounded chunk by chunk.
const INSTALL_LIMIT: Duration = Duration::from_secs(300);
/// For an answer to an append that openraft no longer waits for.
const LATE_LIMIT: Duration = Duration::from_secs(2);
/// Appends of one link that are not answered yet; further ones fail at once.
const MOST_LATE: usize = 64;
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What its leader says about such a member.
pub const ROLLED_BACK: &str = "it lacks entries that it has acknowledged: its folder was rolled back, and nothing is replicated \
     to it; start it in an empty folder with --join URL --replace";

pub struct Network(pub Peers);

impl RaftNetworkFactory<Group> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, member: &Member) -> Link {
        Link { peers: self.0.clone(), target, member: member.clone(), appends: JoinSet::new() }
    }
}

/// To one member.
pub struct Link {
    peers: Peers,
    target: u64,
    member: Member,
    /// Appends that are under way, also those that openraft no longer waits for.
    appends: JoinSet<()>,
}

impl RaftNetwork<Group> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Group>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        let mut message = wire::append(&request).map_err(|e| network_error(&e))?;
        if request.entries.is_empty() {
            message.floors = wire::floors(&self.peers.contact().floors());
        }
        let mut client = self.peers.client(self.target, &self.member, Lane::Log).map_err(rpc_error)?;
        let (peers, target) = (self.peers.clone(), self.target);
        let (term, previous, committed) = (request.vote.leader_id.term, request.prev_log_id, request.leader_commit);
        let last = request.entries.last().map(|entry| entry.log_id).or(previous);
        if self.appends_under_way() >= MOST_LATE {
            return Err(rpc_error(Status::unavailable("too many appends are not answered yet")));
        }
        let (answered, answer) = oneshot::channel();
        self.appends.spawn(async move {
            let sent = Instant::now();
            let answer = tokio::time::timeout(LATE_LIMIT, client.append(message)).await;
            let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
            peers.note(target, sent, &answer);
            if answer.as_ref().is_ok_and(|reply| !is_of_a_higher_term(reply.get_ref())) {
                peers.contact().supported(target, sent);
            }
            // Nobody listens if openraft has given it up.
            let _ = answered.send(answer);
        });
        let reply = answer.await.map_err(|e| network_error(&e))?.map_err(rpc_error)?;
        let reply = reply.into_inner();
        self.peers.known().append_reply(&reply).map_err(refused).map_err(rpc_error)?;
        let reply = wire::from_append_reply(reply).map_err(rpc_error)?;
        let contact = self.peers.contact();
        let acknowledged = match &reply {
            AppendEntriesResponse::Success => last,
            AppendEntriesResponse::PartialSuccess(matching) => *matching,
            AppendEntriesResponse::Conflict | AppendEntriesResponse::HigherVote(_) => None,
        };
        contact.acknowledged(target, term, acknowledged);
        contact.had(target, acknowledged, committed);
        let index = |id: Option<openraft::LogId<u64>>| id.map(|id| id.index);
        match &reply {
            // openraft takes this for a fault of its own, or replicates everything again as if nothing was lost.
            AppendEntriesResponse::Conflict
                if previous <= contact.acknowledged_in(target, term)
                    || index(previous) <= index(contact.floor(target)) =>
            {
                self.peers.note_not_replicated(target, ROLLED_BACK);
                return Err(RPCError::Unreachable(Unreachable::new(&AnyError::error(ROLLED_BACK))));
            }
            _ => {}
        }
        Ok(reply)
    }

    async fn install_snapshot(
        &mut self,
        _request: InstallSnapshotRequest<Group>,
        _option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RPCError<u64, Member, RaftError<u64, InstallSnapshotError>>> {
        // Never called: `full_snapshot` is implemented.
        Err(RPCError::Unreachable(Unreachable::new(&AnyError::error("snapshots are streamed"))))
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        let message = wire::vote(&request);
        let mut client = self.peers.client(self.target, &self.member, Lane::Log).map_err(rpc_error)?;
        let sent = Instant::now();
        let answer = tokio::time::timeout(option.hard_ttl(), client.vote(message)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        self.peers.note(self.target, sent, &answer);
        let reply = answer.map_err(rpc_error)?.into_inner();
        self.peers.known().vote_reply(&reply).map_err(refused).map_err(rpc_error)?;
        if reply.granted {
            self.peers.contact().supported(self.target, sent);
        }
        wire::from_vote_reply(&reply).map_err(rpc_error)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<u64>,
        snapshot: openraft::Snapshot<Group>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Group, Fatal<u64>>> {
        tokio::select! {
            sent = self.send_snapshot(vote, snapshot) => sent,
            closed = pin!(cancel) => Err(StreamingError::Closed(closed)),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(RETRY_PAUSE))
    }
}

impl Link {
    /// Takes the appends that have ended out of the set, and counts the others. A panic in one of them is this task's, too.
    fn appends_under_way(&mut self) -> usize {
        while let Some(ended) = self.appends.try_join_next() {
            if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                std::panic::resume_unwind(panic);
            }
        }
        self.appends.len()
    }

    async fn send_snapshot(
        &self,
        vote: Vote<u64>,
        snapshot: openraft::Snapshot<Group>,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Group, Fatal<u64>>> {
        let unreachable = |status: Status| StreamingError::Unreachable(unreachable(&status));
        let header = wire::snapshot_header(&vote, &snapshot.meta);
        let header = header
            .map_err(|e| StreamingError::StorageError(StorageIoError::read_snapshot(None, AnyError::new(&e)).into()))?;
        let mut client = self.peers.client(self.target, &self.member, Lane::Bulk).map_err(unreachable)?;
        tracing::info!(member = self.target, snapshot = snapshot.meta.snapshot_id, "sending a snapshot");

        let (parts, stream) = mpsc::channel(CHUNKS_AHEAD);
        let sent = read_parts(header, *snapshot.snapshot, parts);
        let answer = carried(sent, client.snapshot(ReceiverStream::new(stream)), INSTALL_LIMIT).await;
        if let Err(status) = &answer {
            tracing::warn!(member = self.target, "the snapshot did not arrive: {}", Foreign(&causes(status)));
        }
        let reply = answer.map_err(unreachable)?.into_inner();
        self.peers.known().reply(reply.ballot.as_ref()).map_err(refused).map_err(unreachable)?;
        Ok(SnapshotResponse::new(wire::from_ballot(reply.ballot).map_err(unreachable)?))
    }
}

/// The receiver's answer, which may come before everything was sent, or else within `limit` after that.
async fn carried<T>(
    sent: impl Future<Output = bool>,
    answer: impl Future<Output = Result<T, Status>>,
    limit: Duration,
) -> Result<T, Status> {
    let mut answer = pin!(answer);
    let is_whole = tokio::select! {
        answer = &mut answer => return answer,
        is_whole = sent => is_whole,
    };
    if !is_whole {
        return Err(Status::aborted("the snapshot could not be sent as a whole"));
    }
    let in_time = tokio::time::timeout(limit, answer).await;
    in_time.unwrap_or_else(|_| Err(Status::deadline_exceeded("the snapshot was not installed in time")))
}

/// `false`, with the stream cut off, if the file cannot be read or nobody takes the chunks.
async fn read_parts(
    header: peer::SnapshotHeader,
    mut file: tokio::fs::File,
    parts: mpsc::Sender<peer::SnapshotPart>,
) -> bool {
    use peer::snapshot_part::Part;
    let send = async |part| {
        let sent = tokio::time::timeout(STALLED, parts.send(peer::SnapshotPart { part: Some(part) })).await;
        matches!(sent, Ok(Ok(())))
    };
    if !send(Part::Header(header)).await {
        return false;
    }
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        match file.read(&mut chunk).await {
            Ok(0) => return true,
            Ok(n) => {
                chunk.truncate(n);
                if !send(Part::Chunk(Bytes::from(chunk))).await {
                    return false;
                }
            }
            Err(e) => {
                tracing::error!("the snapshot cannot be read: {e}");
                return false;
            }
        }
    }
}

/// E5: the member follows, or has voted for, another one.
fn is_of_a_higher_term(reply: &peer::AppendReply) -> bool {
    matches!(reply.result, None | Some(peer::append_reply::Result::Higher(_)))
}

fn unreachable(status: &Status) -> Unreachable {
    Unreachable::new(&AnyError::error(causes(status)))
}

fn network_error<E: std::error::Error>(e: &(impl std::error::Error + 'static)) -> RPCError<u64, Member, E> {
    RPCError::Network(NetworkError::new(e))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err passes")]
fn rpc_error<E: std::error::Error>(status: Status) -> RPCError<u64, Member, E> {
    match status.code() {
        // Down, or a member of something else: pause before the next attempt.
        Code::Unavailable | Code::FailedPrecondition | Code::InvalidArgument => {
            RPCError::Unreachable(unreachable(&status))
        }
        _ => RPCError::Network(NetworkError::new(&AnyError::error(causes(&status)))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tonic::{Code, Status};

    use super::carried;

    #[tokio::test]
    async fn the_limit_of_an_installation_begins_when_everything_was_sent() {
        let (at_end, ended) = oneshot::channel();
        let sent = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            at_end.send(()).is_ok()
        };
        let answer = async { ended.await.map_err(|_| Status::internal("not sent")) };
        // No time at all for the installation, which is done at once.
        assert!(carried(sent, answer, Duration::ZERO).await.is_ok());
        let never = std::future::pending::<Result<(), Status>>;
        let late = carried(std::future::ready(true), never(), Duration::ZERO).await;
        assert_eq!(late.map_err(|status| status.code()), Err(Code::DeadlineExceeded));
        let broken = carried(std::future::ready(false), never(), Duration::from_secs(60)).await;
        assert_eq!(broken.map_err(|status| status.code()), Err(Code::Aborted));
    }
}
