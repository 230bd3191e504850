//! Feeds changed and made-up messages of every peer call to the decoders and the checks behind them: nothing panics, and what passes
//! is within the bounds.
//!
//! A few thousand rounds by default; `GRID_FUZZ_SECONDS=600` goes on for so long, `GRID_FUZZ_SEED=N` repeats a seed. A failure
//! prints its seed.

use std::time::{Duration, Instant};

use grid_proto::peer;
use prost::Message;
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::bounds::{self, Known, MAX_INDEX, MAX_TERM};
use crate::group::{Member, position_of};
use crate::machine::LogPosition;
use crate::peers::sender::{SENDER_KEY, epoch_in, refusal, shown_in};
use crate::peers::wire;

const ROUNDS: u64 = 20_000;
const ME: u64 = 7;
const LEADER: u64 = 9;
const KNOWN: Known = Known { me: ME, term: 5, last_index: 40, applied: Some(LogPosition { term: 4, index: 30 }) };

/// xorshift64*
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.roll() % (n.max(1) as u64)).unwrap_or(0)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Mostly what is right, now and then a number at an edge.
    fn number(&mut self, right: u64) -> u64 {
        let edges = [0, 1, right.wrapping_sub(1), right.wrapping_add(1), 1 << 31, MAX_TERM, MAX_TERM + 1];
        let more = [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, right, right, right, right, right, right];
        let all = [&edges[..], &more[..]].concat();
        if self.chance(40) { self.roll() } else { all[self.below(all.len())] }
    }

    fn id(&mut self, term: u64, index: u64) -> peer::LogId {
        peer::LogId { term: self.number(term), index: self.number(index) }
    }

    fn ballot(&mut self, committed: bool) -> Option<peer::Ballot> {
        let voted_for = (!self.chance(12)).then(|| self.number(LEADER));
        let committed = committed != self.chance(12);
        (!self.chance(20)).then(|| peer::Ballot { term: self.number(5), voted_for, committed })
    }

    fn bytes(&mut self) -> Vec<u8> {
        let members = br#"{"position":{"term":4,"index":20},"voters":[[7,9]],"members":{"7":{"address":"h:1"},"9":{"address":"h:2"}}}"#;
        let huge = br#"{"position":{"term":18446744073709551615,"index":18446744073709551615},"voters":[[],[1],[2]],"members":{}}"#;
        let choices: [&[u8]; 4] = [b"", members, huge, b"\xff\x00{"];
        choices[self.below(choices.len())].to_vec()
    }

    fn append(&mut self) -> peer::AppendRequest {
        let first = 41;
        let count = self.below(4) as u64;
        let entry = |dice: &mut Self, at: u64| peer::Entry {
            id: (!dice.chance(20)).then(|| dice.id(5, at)),
            kind: i32::try_from(dice.below(4)).unwrap_or(0),
            content: dice.bytes().into(),
        };
        let entries = (0..count).map(|n| entry(self, first + n)).collect();
        let previous = (!self.chance(10)).then(|| self.id(4, first - 1));
        let committed = (!self.chance(4)).then(|| self.id(4, 30));
        let floors = (0..self.below(2)).map(|_| peer::Floor { raft_id: ME, at: Some(self.id(4, 20)) }).collect();
        peer::AppendRequest { ballot: self.ballot(true), previous, entries, committed, floors }
    }

    fn header(&mut self) -> peer::SnapshotHeader {
        let last = (!self.chance(10)).then(|| self.id(4, 35));
        let named = last.unwrap_or_default();
        let ids = [format!("{}-{}-{}", named.term, named.index, "a".repeat(64)), "../../x".into(), String::new()];
        let snapshot_id = ids[self.below(5).saturating_sub(2)].clone();
        let membership = (!self.chance(8)).then(|| self.bytes().into());
        peer::SnapshotHeader { ballot: self.ballot(true), last, membership, snapshot_id }
    }

    fn probe_reply(&mut self) -> peer::ProbeReply {
        peer::ProbeReply {
            term: self.number(5),
            last_index: self.number(40),
            applied_index: self.number(30),
            leader: Some(self.number(LEADER)),
            last: Some(self.id(5, 40)),
            unlisted: Some(self.id(4, 3)),
            acknowledged: Some(self.id(5, 40)),
            floor: Some(self.id(4, 20)),
            about: self.bytes().into(),
            ..peer::ProbeReply::default()
        }
    }

    fn sender(&mut self) -> peer::Sender {
        let text = |dice: &mut Self| ["", "abc", "\n\u{202e}"][dice.below(3)].to_owned();
        peer::Sender {
            cluster_id: text(self),
            raft_id: self.number(LEADER),
            folder_id: text(self),
            target: self.number(ME),
            leader_epoch: self.roll(),
            target_folder: text(self),
            members: Some(self.id(4, 3)),
            had: Some(self.id(4, 20)),
        }
    }

    /// Flips, cuts, doubles or inserts bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => bytes.truncate(at),
                2 => bytes.splice(at..at, [0xff; 9]).for_each(drop),
                3 if at < bytes.len() => drop(bytes.remove(at)),
                _ => {
                    let copied: Vec<u8> = bytes[at..].iter().take(32).copied().collect();
                    bytes.extend(copied);
                }
            }
        }
    }

    /// The message as it would arrive, damaged half of the time; none if it cannot be read.
    fn sent<M: Message + Default>(&mut self, message: &M) -> Option<M> {
        let mut bytes = message.encode_to_vec();
        if self.chance(2) {
            self.damage(&mut bytes);
        }
        M::decode(&bytes[..]).ok()
    }
}

fn is_within(id: Option<&openraft::LogId<u64>>) -> bool {
    id.is_none_or(|id| id.leader_id.term <= MAX_TERM && id.index <= MAX_INDEX)
}

/// What passed, so that the test can tell that it tests something.
#[derive(Debug, Default)]
struct Passed {
    appends: u64,
    votes: u64,
    snapshots: u64,
    replies: u64,
}

fn requests(dice: &mut Dice, passed: &mut Passed) {
    let append = dice.append();
    let sent = dice.sent(&append);
    let floors = sent.as_ref().map(|request| request.floors.clone()).unwrap_or_default();
    if let Some(request) = sent
        && KNOWN.append(LEADER, &request).is_ok()
        && let Ok(request) = wire::from_append(request)
    {
        passed.appends += 1;
        assert!(floors.iter().all(|floor| is_within(floor.at.map(wire::from_log_id).as_ref())));
        assert_eq!(request.vote.leader_id.voted_for, Some(LEADER));
        assert!(request.vote.committed && request.vote.leader_id.term <= MAX_TERM);
        assert!(is_within(request.prev_log_id.as_ref()) && is_within(request.leader_commit.as_ref()));
        let first = request.prev_log_id.map_or(0, |id| id.index + 1);
        for (at, entry) in (first..).zip(&request.entries) {
            assert!(entry.log_id.index == at && is_within(Some(&entry.log_id)));
            if let openraft::EntryPayload::Membership(membership) = &entry.payload {
                let _ = bounds::membership(membership);
            }
        }
    }
    let vote = peer::VoteRequest { ballot: dice.ballot(false), last: Some(dice.id(4, 40)) };
    if let Some(request) = dice.sent(&vote)
        && KNOWN.vote(LEADER, &request).is_ok()
    {
        passed.votes += 1;
        let request = wire::from_vote(&request).expect("it has a ballot");
        assert!(!request.vote.committed && request.vote.leader_id.term <= MAX_TERM);
        assert!(is_within(request.last_log_id.as_ref()));
    }
    let header = dice.header();
    let part = peer::SnapshotPart { part: Some(peer::snapshot_part::Part::Header(header)) };
    if let Some(peer::snapshot_part::Part::Header(header)) = dice.sent(&part).and_then(|part| part.part)
        && KNOWN.snapshot(LEADER, &header).is_ok()
        && let Ok((_, meta)) = wire::from_snapshot_header(&header)
        && bounds::membership(meta.last_membership.membership()).is_ok()
        && KNOWN.membership_at(meta.last_membership.log_id().as_ref().map(position_of), header.last).is_ok()
    {
        passed.snapshots += 1;
        assert!(is_within(meta.last_log_id.as_ref()) && is_within(meta.last_membership.log_id().as_ref()));
        assert!(meta.snapshot_id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'));
    }
    let announce = peer::AnnounceRequest { member: dice.bytes().into(), wants_vote: true };
    if let Some(request) = dice.sent(&announce)
        && let Ok(member) = serde_json::from_slice::<Member>(&request.member)
    {
        let _ = bounds::member(&member);
    }
}

fn replies(dice: &mut Dice, passed: &mut Passed) {
    use peer::append_reply::Result;
    let result = match dice.below(3) {
        0 => dice.ballot(false).map(Result::Higher),
        1 => Some(Result::Partial(peer::PartialSuccess { matching: Some(dice.id(5, 40)) })),
        _ => Some(Result::Success(peer::Empty {})),
    };
    if let Some(reply) = dice.sent(&peer::AppendReply { result })
        && KNOWN.append_reply(&reply).is_ok()
        && let Ok(reply) = wire::from_append_reply(reply)
    {
        passed.replies += 1;
        if let openraft::raft::AppendEntriesResponse::HigherVote(vote) = reply {
            assert!(vote.leader_id.term <= MAX_TERM);
        }
    }
    let vote = peer::VoteReply { ballot: dice.ballot(false), granted: true, last: Some(dice.id(5, 40)) };
    if let Some(reply) = dice.sent(&vote)
        && KNOWN.vote_reply(&reply).is_ok()
    {
        wire::from_vote_reply(&reply).expect("it has a ballot");
    }
    let probe = dice.probe_reply();
    if let Some(reply) = dice.sent(&probe)
        && KNOWN.probe_reply(&reply).is_ok()
    {
        assert!(is_within(reply.acknowledged.map(wire::from_log_id).as_ref()));
        assert!(is_within(reply.floor.map(wire::from_log_id).as_ref()));
    }
    let read = peer::ReadIndexReply { at: Some(dice.id(5, 40)) };
    if let Some(reply) = dice.sent(&read) {
        let _ = KNOWN.read_index_reply(&reply);
    }
    let snapshot = peer::SnapshotReply { ballot: dice.ballot(true) };
    if let Some(reply) = dice.sent(&snapshot) {
        let _ = KNOWN.reply(reply.ballot.as_ref());
    }
}

fn headers(dice: &mut Dice) {
    let mut bytes = dice.sender().encode_to_vec();
    if dice.chance(2) {
        dice.damage(&mut bytes);
    }
    let mut headers = MetadataMap::new();
    headers.insert_bin(SENDER_KEY, MetadataValue::from_bytes(&bytes));
    let _ = shown_in(&headers);
    let mut status = refusal("abc", 3, LEADER);
    if let Ok(noise) = format!("{}", dice.number(3)).parse() {
        status.metadata_mut().insert("grid-epoch", noise);
    }
    assert!(epoch_in(&status, "abc", LEADER).is_none_or(|epoch| epoch == 3));
}

#[test]
fn issue14_1_no_peer_message_panics_a_decoder_or_passes_its_bounds() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let limit = setting("GRID_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = setting("GRID_FUZZ_SEED").unwrap_or(14).max(1);
    let begun = Instant::now();
    let mut passed = Passed::default();
    for round in 0.. {
        if limit.map_or(round >= ROUNDS, |limit| begun.elapsed() >= limit) {
            break;
        }
        let seed = seed.wrapping_add(round);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1));
            requests(&mut dice, &mut passed);
            replies(&mut dice, &mut passed);
            headers(&mut dice);
        }));
        assert!(tried.is_ok(), "GRID_FUZZ_SEED={seed}");
    }
    let Passed { appends, votes, snapshots, replies } = passed;
    assert!(appends.min(votes).min(snapshots).min(replies) > 0, "each kind passes now and then: {passed:?}");
}
