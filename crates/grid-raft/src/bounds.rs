//! Bounds of everything that another member may send. openraft trusts its peers: a term near 2^64 overflows in it, entries with a
//! gap end the process. So every message is checked here first; what is refused reaches neither openraft nor the disk.
//!
//! | field | bound |
//! |---|---|
//! | header `grid-sender-bin` | 512 bytes (`peers::sender`) |
//! | message | Append 4 MiB, part of a snapshot 512 KiB, other requests 16 KiB, replies 256 KiB (`peer_port::gate`, `peers`) |
//! | term | at most [`TERM_STEP`] above one's own, never above [`MAX_TERM`] |
//! | ballot of a request | `voted_for` is the sender; `committed` in Append and Snapshot, not in Vote |
//! | ballot of a reply | not one that makes this member the leader |
//! | index | at most [`INDEX_STEP`] above the end of one's own log, never above [`MAX_INDEX`] |
//! | `previous`, `committed`, `last`, entries: term | not above the ballot's; below it for the log of a candidate |
//! | entries | [`MAX_ENTRIES`]; their indices follow `previous` without a gap, their terms never fall; none contradicts what is applied |
//! | floors | [`MAX_MEMBERS`], each a position as above; none counts above `committed` (`peers::contact`) |
//! | `had` of a sender | a position as above; one that is out of bounds is ignored (`rolled_back`) |
//! | content of an entry | empty for a blank one, else [`MAX_PAYLOAD_BYTES`] |
//! | membership | [`MAX_MEMBERSHIP_BYTES`], [`MAX_MEMBERS`] members, one or two sets of voters, each text [`MAX_TEXT_BYTES`] |
//! | snapshot id | `TERM-INDEX-HASH` of its own `last`; the hash has 64 hexadecimal digits |
//! | snapshot | [`MAX_SNAPSHOT_BYTES`] |
//! | leader epoch | as restores can explain it (`epochs`) |
//!
//! [`TERM_STEP`]: a member is a candidate only when a majority would elect it (`member::candidacy`), twice a second at most. Honest terms
//! differ by the elections that one member missed: 2^30 of them take 17 years, so that no absence and no empty log is too much.
//! Each ballot that is accepted is an fsync, so that it takes years of nothing else to come from 0 to [`MAX_TERM`] in such steps.
//! [`INDEX_STEP`]: 2^40 entries are three years of 10,000 a second.
//! Both maxima lie far below what is stored as a signed 64-bit integer, so that no step above them can overflow.
//! Not here: who sends (`member::callers`).

use grid_proto::peer;
use grid_proto::refusals::Kind;

use crate::config::MAX_PAYLOAD_BYTES;
use crate::group::{Member, Membership};
use crate::machine::LogPosition;

pub const MAX_TERM: u64 = 1 << 62;
pub const MAX_INDEX: u64 = 1 << 62;
pub const TERM_STEP: u64 = 1 << 30;
pub const INDEX_STEP: u64 = 1 << 40;
pub const MAX_ENTRIES: usize = 4_096;
/// With texts of the greatest length they still fit into [`MAX_MEMBERSHIP_BYTES`].
pub const MAX_MEMBERS: usize = 64;
pub const MAX_MEMBERSHIP_BYTES: usize = 256 << 10;
pub const MAX_TEXT_BYTES: usize = 512;
pub const MAX_SNAPSHOT_BYTES: u64 = 1 << 40;

/// What is wrong with a message; it names the field, never an id.
pub type OutOfBounds = (Kind, &'static str);

type Checked = Result<(), OutOfBounds>;

/// What this member knows of itself.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub me: u64,
    pub term: u64,
    /// The end of its log.
    pub last_index: u64,
    pub applied: Option<LogPosition>,
}

impl Known {
    pub fn vote(&self, from: u64, request: &peer::VoteRequest) -> Checked {
        let ballot = self.ballot(request.ballot.as_ref(), from, false)?;
        if request.last.is_some_and(|last| last.term >= ballot.term) {
            return Err((Kind::ForgedBallot, "the candidate's log is newer than its ballot"));
        }
        self.position(request.last.as_ref(), ballot.term)
    }

    pub fn append(&self, from: u64, request: &peer::AppendRequest) -> Checked {
        let ballot = self.ballot(request.ballot.as_ref(), from, true)?;
        self.position(request.previous.as_ref(), ballot.term)?;
        self.position(request.committed.as_ref(), ballot.term)?;
        if request.entries.len() > MAX_ENTRIES {
            return Err((Kind::OutOfBounds, "too many entries"));
        }
        if request.floors.len() > MAX_MEMBERS {
            return Err((Kind::OutOfBounds, "too many floors"));
        }
        request.floors.iter().try_for_each(|floor| self.position(floor.at.as_ref(), ballot.term))?;
        self.contradiction(request.previous.as_ref())?;
        let mut before = request.previous;
        for entry in &request.entries {
            let id = entry.id.ok_or((Kind::Malformed, "an entry has no id"))?;
            self.position(Some(&id), ballot.term)?;
            self.contradiction(Some(&id))?;
            // No overflow: both are below MAX_INDEX.
            if id.index != before.map_or(0, |before| before.index + 1) {
                return Err((Kind::OutOfBounds, "the entries have a gap"));
            }
            if before.is_some_and(|before| id.term < before.term) {
                return Err((Kind::OutOfBounds, "the terms of the entries fall"));
            }
            content(entry)?;
            before = Some(id);
        }
        Ok(())
    }

    pub fn snapshot(&self, from: u64, header: &peer::SnapshotHeader) -> Checked {
        let ballot = self.ballot(header.ballot.as_ref(), from, true)?;
        let last = header.last.ok_or((Kind::Malformed, "a snapshot has no position"))?;
        self.position(Some(&last), ballot.term)?;
        let hash = header.snapshot_id.strip_prefix(&format!("{}-{}-", last.term, last.index));
        if !hash.is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            return Err((Kind::OutOfBounds, "the id of a snapshot is invalid"));
        }
        if header.membership.as_ref().is_some_and(|bytes| bytes.len() > MAX_MEMBERSHIP_BYTES) {
            return Err((Kind::OutOfBounds, "a membership is too large"));
        }
        Ok(())
    }

    /// Where the membership of a snapshot was decided.
    pub fn membership_at(&self, at: Option<LogPosition>, last: Option<peer::LogId>) -> Checked {
        let is_within = match (at, last) {
            (None, _) => true,
            (Some(at), Some(last)) => at.index <= last.index && at.term <= last.term,
            (Some(_), None) => false,
        };
        if is_within { Ok(()) } else { Err((Kind::OutOfBounds, "the membership is newer than its snapshot")) }
    }

    pub fn append_reply(&self, reply: &peer::AppendReply) -> Checked {
        use peer::append_reply::Result;
        match &reply.result {
            Some(Result::Higher(ballot)) => self.reply(Some(ballot)),
            Some(Result::Partial(partial)) => self.position(partial.matching.as_ref(), MAX_TERM),
            Some(Result::Success(_) | Result::Conflict(_)) | None => Ok(()),
        }
    }

    pub fn vote_reply(&self, reply: &peer::VoteReply) -> Checked {
        self.reply(reply.ballot.as_ref())?;
        self.position(reply.last.as_ref(), MAX_TERM)
    }

    pub fn probe_reply(&self, reply: &peer::ProbeReply) -> Checked {
        self.term(reply.term)?;
        let indices = [reply.last_index, reply.applied_index, reply.snapshot_index];
        indices.iter().try_for_each(|index| self.position(Some(&peer::LogId { term: 0, index: *index }), MAX_TERM))?;
        self.position(reply.last.as_ref(), MAX_TERM)?;
        self.position(reply.floor.as_ref(), MAX_TERM)?;
        self.position(reply.unlisted.as_ref(), MAX_TERM)?;
        self.position(reply.acknowledged.as_ref(), reply.term)
    }

    /// What a caller knows that this member has had.
    pub fn had(&self, had: Option<&peer::LogId>) -> Checked {
        self.position(had, MAX_TERM)
    }

    pub fn read_index_reply(&self, reply: &peer::ReadIndexReply) -> Checked {
        self.position(reply.at.as_ref(), MAX_TERM)
    }

    /// The ballot of a reply, which may be for anybody but must not make this member the leader.
    pub fn reply(&self, ballot: Option<&peer::Ballot>) -> Checked {
        let ballot = ballot.ok_or((Kind::Malformed, "a reply has no ballot"))?;
        self.term(ballot.term)?;
        if ballot.committed && ballot.voted_for == Some(self.me) && ballot.term > self.term {
            return Err((Kind::ForgedBallot, "a reply names this member as the leader"));
        }
        Ok(())
    }

    fn ballot(&self, ballot: Option<&peer::Ballot>, from: u64, committed: bool) -> Result<peer::Ballot, OutOfBounds> {
        let ballot = ballot.ok_or((Kind::Malformed, "a request has no ballot"))?;
        self.term(ballot.term)?;
        if ballot.voted_for != Some(from) {
            return Err((Kind::ForgedBallot, "the ballot is not for its sender"));
        }
        if ballot.committed != committed {
            return Err((Kind::ForgedBallot, "the ballot does not fit the call"));
        }
        Ok(*ballot)
    }

    fn term(&self, term: u64) -> Checked {
        if term > self.term.saturating_add(TERM_STEP).min(MAX_TERM) {
            return Err((Kind::TermTooHigh, "the term is too far above this member's"));
        }
        Ok(())
    }

    fn position(&self, id: Option<&peer::LogId>, ballot_term: u64) -> Checked {
        let Some(id) = id else { return Ok(()) };
        if id.term > ballot_term {
            return Err((Kind::TermTooHigh, "a log position has a term above the ballot's"));
        }
        self.term(id.term)?;
        if id.index > self.last_index.saturating_add(INDEX_STEP).min(MAX_INDEX) {
            return Err((Kind::IndexTooHigh, "a log position is too far above this member's log"));
        }
        Ok(())
    }

    /// What is applied is final, and terms never fall along a log.
    fn contradiction(&self, id: Option<&peer::LogId>) -> Checked {
        let (Some(id), Some(applied)) = (id, self.applied) else { return Ok(()) };
        let is_other = id.index == applied.index && id.term != applied.term;
        if is_other || (id.index < applied.index && id.term > applied.term) {
            return Err((Kind::OutOfBounds, "an entry contradicts what is committed"));
        }
        Ok(())
    }
}

fn content(entry: &peer::Entry) -> Checked {
    let most = match peer::EntryKind::try_from(entry.kind) {
        Ok(peer::EntryKind::Blank) => 0,
        Ok(peer::EntryKind::Payload) => MAX_PAYLOAD_BYTES,
        Ok(peer::EntryKind::Membership) => MAX_MEMBERSHIP_BYTES,
        Err(_) => return Err((Kind::Malformed, "an entry has an unknown kind")),
    };
    if entry.content.len() > most { Err((Kind::OutOfBounds, "an entry is too large")) } else { Ok(()) }
}

/// A membership that came from a peer.
pub fn membership(membership: &Membership) -> Checked {
    let configs = membership.get_joint_config();
    if configs.is_empty() || configs.len() > 2 || configs.iter().any(std::collections::BTreeSet::is_empty) {
        return Err((Kind::OutOfBounds, "a membership has no voters"));
    }
    if membership.nodes().count() > MAX_MEMBERS {
        return Err((Kind::OutOfBounds, "a membership has too many members"));
    }
    membership.nodes().try_for_each(|(_, listed)| member(listed))
}

/// The record of a member that came from a peer.
pub fn member(member: &Member) -> Checked {
    let Member { address, node_id, api_url, grpc_addr, folder_id, feature_level: _ } = member;
    let texts = [address, node_id, api_url, grpc_addr, folder_id];
    if texts.iter().any(|text| text.len() > MAX_TEXT_BYTES || text.chars().any(char::is_control)) {
        return Err((Kind::OutOfBounds, "a text in the record of a member is too long or has control characters"));
    }
    Ok(())
}

/// Of a position or a vote on the disk: what is above was never written by a member that runs.
pub fn stored(term: u64, index: u64) -> Result<(), String> {
    if term > MAX_TERM {
        return Err(format!("the term {term} is above {MAX_TERM}, the highest that can be used"));
    }
    if index > MAX_INDEX {
        return Err(format!("the index {index} is above {MAX_INDEX}, the highest that can be used"));
    }
    Ok(())
}
