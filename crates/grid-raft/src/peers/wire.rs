//! openraft's types as messages between members, and back.
//!
//! The messages are this project's own (`grid.peer.v1`), field by field: no
//! layout of openraft's is on the wire, and members of two versions understand
//! each other as long as the numbers keep their meaning.
//! Not here: sending and serving them (`network`, `peer_port::service`).
//! What a peer sends is input from outside: a message that lacks a part is
//! refused with the name of that part.

use bytes::Bytes;
use grid_proto::peer;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use openraft::{Entry, LeaderId, LogId, Vote};
use tonic::Status;

use crate::group::{Group, SnapshotMeta, StoredMembership, log_id_of, position_of};
use crate::log::record::{Record, decode_membership, encode_stored};
use crate::machine::LogPosition;

pub fn log_id(id: &LogId<u64>) -> peer::LogId {
    let LogPosition { term, index } = position_of(id);
    peer::LogId { term, index }
}

pub fn from_log_id(id: peer::LogId) -> LogId<u64> {
    log_id_of(LogPosition { term: id.term, index: id.index })
}

pub fn ballot(vote: &Vote<u64>) -> peer::Ballot {
    peer::Ballot { term: vote.leader_id.term, voted_for: vote.leader_id.voted_for, committed: vote.committed }
}

pub fn from_ballot(ballot: Option<peer::Ballot>) -> Result<Vote<u64>, Status> {
    let ballot = ballot.ok_or_else(|| missing("ballot"))?;
    let leader_id = LeaderId { term: ballot.term, voted_for: ballot.voted_for };
    Ok(Vote { leader_id, committed: ballot.committed })
}

pub fn append(request: &AppendEntriesRequest<Group>) -> std::io::Result<peer::AppendRequest> {
    let entries: std::io::Result<Vec<_>> = request.entries.iter().map(entry).collect();
    Ok(peer::AppendRequest {
        ballot: Some(ballot(&request.vote)),
        previous: request.prev_log_id.as_ref().map(log_id),
        entries: entries?,
        committed: request.leader_commit.as_ref().map(log_id),
        floors: Vec::new(),
    })
}

pub fn floors(floors: &[(u64, LogId<u64>)]) -> Vec<peer::Floor> {
    floors.iter().map(|(raft_id, at)| peer::Floor { raft_id: *raft_id, at: Some(log_id(at)) }).collect()
}

pub fn from_append(request: peer::AppendRequest) -> Result<AppendEntriesRequest<Group>, Status> {
    Ok(AppendEntriesRequest {
        vote: from_ballot(request.ballot)?,
        prev_log_id: request.previous.map(from_log_id),
        entries: request.entries.into_iter().map(from_entry).collect::<Result<_, _>>()?,
        leader_commit: request.committed.map(from_log_id),
    })
}

fn entry(entry: &Entry<Group>) -> std::io::Result<peer::Entry> {
    let (kind, content) = match Record::from_payload(&entry.payload)? {
        Record::Blank => (peer::EntryKind::Blank, Bytes::new()),
        Record::Payload(bytes) => (peer::EntryKind::Payload, bytes),
        Record::Membership(bytes) => (peer::EntryKind::Membership, bytes),
    };
    Ok(peer::Entry { id: Some(log_id(&entry.log_id)), kind: kind.into(), content })
}

fn from_entry(entry: peer::Entry) -> Result<Entry<Group>, Status> {
    let id = entry.id.ok_or_else(|| missing("entry id"))?;
    let kind = peer::EntryKind::try_from(entry.kind)
        .map_err(|_| Status::invalid_argument(format!("unknown kind of entry {}", entry.kind)))?;
    let record = match kind {
        peer::EntryKind::Blank => Record::Blank,
        // Copied: it is a part of the message's buffer, and would keep all of it for as long as the log's cache has the entry.
        peer::EntryKind::Payload => Record::Payload(Bytes::copy_from_slice(&entry.content)),
        peer::EntryKind::Membership => Record::Membership(entry.content),
    };
    let payload = record.into_payload().map_err(|e| Status::invalid_argument(e.to_string()))?;
    Ok(Entry { log_id: from_log_id(id), payload })
}

pub fn append_reply(response: &AppendEntriesResponse<u64>) -> peer::AppendReply {
    use peer::append_reply::Result;
    let result = match response {
        AppendEntriesResponse::Success => Result::Success(peer::Empty {}),
        AppendEntriesResponse::PartialSuccess(matching) => {
            Result::Partial(peer::PartialSuccess { matching: matching.as_ref().map(log_id) })
        }
        AppendEntriesResponse::Conflict => Result::Conflict(peer::Empty {}),
        AppendEntriesResponse::HigherVote(vote) => Result::Higher(ballot(vote)),
    };
    peer::AppendReply { result: Some(result) }
}

pub fn from_append_reply(reply: peer::AppendReply) -> Result<AppendEntriesResponse<u64>, Status> {
    use peer::append_reply::Result;
    Ok(match reply.result.ok_or_else(|| missing("result"))? {
        Result::Success(_) => AppendEntriesResponse::Success,
        Result::Partial(partial) => AppendEntriesResponse::PartialSuccess(partial.matching.map(from_log_id)),
        Result::Conflict(_) => AppendEntriesResponse::Conflict,
        Result::Higher(higher) => AppendEntriesResponse::HigherVote(from_ballot(Some(higher))?),
    })
}

pub fn vote(request: &VoteRequest<u64>) -> peer::VoteRequest {
    peer::VoteRequest { ballot: Some(ballot(&request.vote)), last: request.last_log_id.as_ref().map(log_id) }
}

pub fn from_vote(request: &peer::VoteRequest) -> Result<VoteRequest<u64>, Status> {
    Ok(VoteRequest { vote: from_ballot(request.ballot)?, last_log_id: request.last.map(from_log_id) })
}

pub fn vote_reply(response: &VoteResponse<u64>) -> peer::VoteReply {
    peer::VoteReply {
        ballot: Some(ballot(&response.vote)),
        granted: response.vote_granted,
        last: response.last_log_id.as_ref().map(log_id),
    }
}

pub fn from_vote_reply(reply: &peer::VoteReply) -> Result<VoteResponse<u64>, Status> {
    Ok(VoteResponse {
        vote: from_ballot(reply.ballot)?,
        vote_granted: reply.granted,
        last_log_id: reply.last.map(from_log_id),
    })
}

pub fn snapshot_header(vote: &Vote<u64>, meta: &SnapshotMeta) -> std::io::Result<peer::SnapshotHeader> {
    Ok(peer::SnapshotHeader {
        ballot: Some(ballot(vote)),
        last: meta.last_log_id.as_ref().map(log_id),
        membership: encode_stored(&meta.last_membership)?.map(Bytes::from),
        snapshot_id: meta.snapshot_id.clone(),
    })
}

pub fn from_snapshot_header(header: &peer::SnapshotHeader) -> Result<(Vote<u64>, SnapshotMeta), Status> {
    let last_membership = match &header.membership {
        Some(bytes) => decode_membership(bytes).map_err(|e| Status::invalid_argument(e.to_string()))?,
        None => StoredMembership::default(),
    };
    let meta = SnapshotMeta {
        last_log_id: header.last.map(from_log_id),
        last_membership,
        snapshot_id: header.snapshot_id.clone(),
    };
    Ok((from_ballot(header.ballot)?, meta))
}

pub fn missing(part: &str) -> Status {
    Status::invalid_argument(format!("the message has no {part}"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bytes::Bytes;
    use grid_proto::peer;
    use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
    use openraft::{Entry, EntryPayload, Vote};
    use prost::Message;

    use super::{append, append_reply, from_append, from_append_reply};
    use crate::group::{Member, Membership, Proposal, log_id_of};
    use crate::machine::LogPosition;

    #[test]
    fn what_members_tell_each_other_comes_back_as_it_was() {
        let at = |index| log_id_of(LogPosition { term: 3, index });
        let member = Member { address: "h:1".into(), node_id: "c1".into(), ..Member::default() };
        let membership = Membership::new(vec![BTreeSet::from([7])], BTreeMap::from([(7, member)]));
        let request = AppendEntriesRequest {
            vote: Vote::new_committed(3, 7),
            prev_log_id: Some(at(4)),
            entries: vec![
                Entry { log_id: at(5), payload: EntryPayload::Blank },
                Entry { log_id: at(6), payload: EntryPayload::Normal(Proposal::stored("abc".into())) },
                Entry { log_id: at(7), payload: EntryPayload::Membership(membership.clone()) },
            ],
            leader_commit: None,
        };
        let back = from_append(append(&request).expect("encodes")).expect("decodes");
        assert_eq!((back.vote, back.prev_log_id, back.leader_commit), (request.vote, request.prev_log_id, None));
        assert!(matches!(back.entries[0].payload, EntryPayload::Blank));
        assert!(matches!(&back.entries[1].payload, EntryPayload::Normal(p) if p.payload == "abc"));
        assert!(matches!(&back.entries[2].payload, EntryPayload::Membership(m) if *m == membership));
        assert_eq!(back.entries[2].log_id, at(7));

        for response in [
            AppendEntriesResponse::Success,
            AppendEntriesResponse::PartialSuccess(Some(at(2))),
            AppendEntriesResponse::PartialSuccess(None),
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::HigherVote(Vote::new(9, 2)),
        ] {
            let text = format!("{response:?}");
            let back = from_append_reply(append_reply(&response)).expect("decodes");
            assert_eq!(format!("{back:?}"), text);
        }
        assert!(from_append(peer::AppendRequest::default()).is_err(), "a message without a ballot is refused");
    }

    /// The log's cache counts the bytes of entries: one of a hundred bytes must not keep the message that brought it.
    #[test]
    fn an_entry_keeps_nothing_else_of_the_message_that_brought_it() {
        let at = |index| log_id_of(LogPosition { term: 3, index });
        let entry = |index, payload: &'static str| Entry {
            log_id: at(index),
            payload: EntryPayload::Normal(Proposal::stored(payload.into())),
        };
        let request = AppendEntriesRequest {
            vote: Vote::new_committed(3, 7),
            prev_log_id: Some(at(4)),
            entries: vec![entry(5, "abc"), entry(6, "defg")],
            leader_commit: None,
        };
        let message = Bytes::from(append(&request).expect("encodes").encode_to_vec());
        let received = from_append(peer::AppendRequest::decode(message).expect("a message")).expect("an append");
        let payloads = received.entries.into_iter().filter_map(|entry| match entry.payload {
            EntryPayload::Normal(proposal) => Some(proposal.payload),
            EntryPayload::Blank | EntryPayload::Membership(_) => None,
        });
        let payloads: Vec<_> = payloads.collect();
        assert_eq!(payloads, ["abc", "defg"]);
        assert!(payloads.iter().all(Bytes::is_unique));
    }
}
