//! Encodes what the log files contain, byte for byte.
//!
//! ```text
//!   entry  = tag u8 (0 blank, 1 payload, 2 membership), then for 1 and 2: length u32, bytes
//!   log id = term u64, index u64
//!   vote   = term u64, voted_for (0 | 1 u64), committed u8
//! ```
//!
//! `raft-log` frames each record and adds its checksum; integers are big-endian.
//! Memberships are JSON of this module's own structs, here and in the position a
//! machine keeps, so that fields can be added and nothing on disk depends on
//! openraft's layout.
//! Not here: the files themselves (`store`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use openraft::{EntryPayload, Vote};
use raft_log::codeq::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::group::{Group, Member, Membership, Proposal, StoredMembership, log_id_of, position_of};
use crate::log::mark::Mark;
use crate::machine::LogPosition;

/// Refuses a length field that can only be damage, before allocating it.
const MAX_RECORD_BYTES: u32 = 64 << 20;

const TAG_BLANK: u8 = 0;
const TAG_PAYLOAD: u8 = 1;
const TAG_MEMBERSHIP: u8 = 2;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LogTypes;

impl raft_log::Types for LogTypes {
    type LogId = (u64, u64);
    type LogPayload = Record;
    type Vote = StoredVote;
    type Callback = Flushed;
    type UserData = u64;

    fn log_index(id: &Self::LogId) -> u64 {
        id.1
    }

    fn payload_size(record: &Record) -> u64 {
        record.len() as u64
    }
}

/// The content of one log entry.
#[derive(Debug, Clone)]
pub enum Record {
    Blank,
    Payload(Bytes),
    Membership(Bytes),
}

impl Record {
    pub fn len(&self) -> usize {
        match self {
            Record::Blank => 0,
            Record::Payload(bytes) | Record::Membership(bytes) => bytes.len(),
        }
    }

    pub fn from_payload(payload: &EntryPayload<Group>) -> io::Result<Self> {
        Ok(match payload {
            EntryPayload::Blank => Record::Blank,
            EntryPayload::Normal(proposal) => Record::Payload(proposal.payload.clone()),
            EntryPayload::Membership(membership) => Record::Membership(encode_membership(None, membership)?.into()),
        })
    }

    pub fn into_payload(self) -> io::Result<EntryPayload<Group>> {
        Ok(match self {
            Record::Blank => EntryPayload::Blank,
            Record::Payload(bytes) => EntryPayload::Normal(Proposal::stored(bytes)),
            Record::Membership(bytes) => {
                let stored = decode_membership(&bytes)?;
                EntryPayload::Membership(stored.membership().clone())
            }
        })
    }
}

impl Encode for Record {
    fn encode<W: io::Write>(&self, mut w: W) -> io::Result<usize> {
        let (tag, bytes) = match self {
            Record::Blank => return TAG_BLANK.encode(&mut w),
            Record::Payload(bytes) => (TAG_PAYLOAD, bytes),
            Record::Membership(bytes) => (TAG_MEMBERSHIP, bytes),
        };
        let len = u32::try_from(bytes.len())
            .ok()
            .filter(|len| *len <= MAX_RECORD_BYTES)
            .ok_or_else(|| io::Error::other(format!("entry of {} bytes", bytes.len())))?;
        let head = tag.encode(&mut w)? + len.encode(&mut w)?;
        w.write_all(bytes)?;
        Ok(head + bytes.len())
    }
}

impl Decode for Record {
    fn decode<R: io::Read>(mut r: R) -> io::Result<Self> {
        let tag = u8::decode(&mut r)?;
        if tag == TAG_BLANK {
            return Ok(Record::Blank);
        }
        let len = u32::decode(&mut r)?;
        if len > MAX_RECORD_BYTES {
            return Err(invalid(format!("entry claims {len} bytes")));
        }
        let mut bytes = vec![0; len as usize];
        r.read_exact(&mut bytes)?;
        match tag {
            TAG_PAYLOAD => Ok(Record::Payload(bytes.into())),
            TAG_MEMBERSHIP => Ok(Record::Membership(bytes.into())),
            _ => Err(invalid(format!("unknown kind of entry {tag}"))),
        }
    }
}

/// openraft's vote, with its partial order: two candidates of one term are
/// not comparable, and the log refuses such a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct StoredVote(pub Vote<u64>);

impl Encode for StoredVote {
    fn encode<W: io::Write>(&self, mut w: W) -> io::Result<usize> {
        let Vote { leader_id, committed } = self.0;
        Ok(leader_id.term.encode(&mut w)? + leader_id.voted_for.encode(&mut w)? + u8::from(committed).encode(&mut w)?)
    }
}

impl Decode for StoredVote {
    fn decode<R: io::Read>(mut r: R) -> io::Result<Self> {
        let mut vote = Vote::default();
        vote.leader_id.term = u64::decode(&mut r)?;
        vote.leader_id.voted_for = Option::<u64>::decode(&mut r)?;
        vote.committed = u8::decode(&mut r)? != 0;
        Ok(Self(vote))
    }
}

/// What happens once a flush has reached the disk: it is marked, then somebody hears of it.
pub struct Flushed {
    pub mark: Arc<Mark>,
    pub upto: u64,
    pub heard_by: HeardBy,
}

pub enum HeardBy {
    Append(openraft::storage::LogFlushed<Group>),
    Waiting(oneshot::Sender<io::Result<()>>),
}

/// With what an operator can do about it: a log that cannot be written ends the process.
pub fn not_written(e: io::Error) -> io::Error {
    io::Error::new(e.kind(), NotWritten(e))
}

#[derive(Debug, thiserror::Error)]
#[error("the log in the data folder cannot be written ({0}); free space on its disk or repair it, then start again")]
struct NotWritten(io::Error);

impl raft_log::Callback for Flushed {
    fn send(self, result: io::Result<()>) {
        let result = result.map_err(not_written);
        if result.is_ok() {
            self.mark.set(self.upto);
        }
        match self.heard_by {
            HeardBy::Append(flushed) => flushed.log_io_completed(result),
            // The waiter may have been cancelled with its runtime.
            HeardBy::Waiting(tx) => drop(tx.send(result)),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct MembershipRecord {
    position: Option<LogPosition>,
    /// More than one while a change is under way (joint consensus).
    voters: Vec<BTreeSet<u64>>,
    members: BTreeMap<u64, Member>,
}

pub fn encode_membership(position: Option<LogPosition>, membership: &Membership) -> io::Result<Vec<u8>> {
    let record = MembershipRecord {
        position,
        voters: membership.get_joint_config().clone(),
        members: membership.nodes().map(|(id, member)| (*id, member.clone())).collect(),
    };
    serde_json::to_vec(&record).map_err(io::Error::from)
}

pub fn decode_membership(bytes: &[u8]) -> io::Result<StoredMembership> {
    let record: MembershipRecord = serde_json::from_slice(bytes).map_err(|e| invalid(format!("membership: {e}")))?;
    Ok(StoredMembership::new(record.position.map(log_id_of), Membership::new(record.voters, record.members)))
}

/// A stored membership as a machine keeps it; `None` before the first.
pub fn encode_stored(stored: &StoredMembership) -> io::Result<Option<Vec<u8>>> {
    let position = stored.log_id().as_ref().map(position_of);
    if position.is_none() {
        return Ok(None);
    }
    encode_membership(position, stored.membership()).map(Some)
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::{Record, StoredVote};
    use openraft::Vote;
    use raft_log::codeq::{Decode, Encode};

    fn encoded(value: &impl Encode) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = value.encode(&mut bytes).expect("encodes");
        assert_eq!(written, bytes.len());
        bytes
    }

    #[test]
    fn the_layout_on_disk_is_fixed() {
        assert_eq!(encoded(&Record::Blank), [0]);
        assert_eq!(encoded(&Record::Payload("ab".into())), [1, 0, 0, 0, 2, b'a', b'b']);
        assert_eq!(
            encoded(&StoredVote(Vote::new_committed(3, 7))),
            [0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 7, 1]
        );
    }

    #[test]
    fn votes_come_back() {
        for vote in [Vote::default(), Vote::new(1, 2), Vote::new_committed(3, 7)] {
            let bytes = encoded(&StoredVote(vote));
            assert_eq!(StoredVote::decode(&bytes[..]).expect("decodes").0, vote);
        }
    }

    #[test]
    fn a_damaged_length_is_refused_before_it_is_allocated() {
        let bytes = [1, 0xff, 0xff, 0xff, 0xff, 0];
        let error = Record::decode(&bytes[..]).expect_err("refused");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    }
}
