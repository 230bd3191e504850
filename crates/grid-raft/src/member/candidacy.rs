//! Decides whether this member may start an election: only if a majority would elect it.
//!
//! ```text
//!   hears a leader ------------------------------------------> may not
//!   hears none --probe--> a majority hears none either,
//!                         and has no longer log -------------> may, when openraft's time is over
//!                            and it is the first of them ----> may at once
//! ```
//!
//! openraft 0.9 has no pre-vote: a member that cannot hear the leader starts
//! elections again and again, and the higher term it comes back with deposes a leader
//! that everybody else was content with. So its elections are switched off, and
//! on only after the member has asked the others; asking changes nothing anywhere.
//!
//! A member that has asked the others need not wait as openraft does, which gives the leader one lease and each member a random
//! time after it: the lease is over for all who answered, and of them the one with the longest log, or of equals the
//! highest id, is the same for everybody. So it alone starts an election, and at once; the random time is for when it does not win.
//! Not here: the election itself, whose rules stay openraft's; the hand-over (E7),
//! which asks openraft directly.

use std::time::{Duration, Instant};

use openraft::ServerState;

use crate::group::{Member, Membership};
use crate::member::RunningMember;
use crate::peers::contact::is_majority;
use grid_proto::peer;

const ROUND: Duration = Duration::from_millis(50);
const PROBE_LIMIT: Duration = Duration::from_millis(250);
const STAND_AGAIN: Duration = Duration::from_secs(2);

/// The last entry of its log, and its id: who is first is greatest.
type Standing = (Option<openraft::LogId<u64>>, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prospect {
    None,
    /// It would be elected; perhaps another one is about to be.
    Fair,
    /// Everybody who answered leaves it to this one.
    First,
}

impl RunningMember {
    /// Runs until the member ends.
    pub async fn mind_elections(&self) {
        let mut closing = self.closing.subscribe();
        let mut stood: Option<Instant> = None;
        loop {
            let prospect = self.prospect().await;
            self.raft.runtime_config().elect(prospect != Prospect::None);
            // Once: each time raises the term, and the member that lost waits for openraft's random time.
            if prospect == Prospect::First && stood.is_none_or(|at| at.elapsed() > STAND_AGAIN) {
                stood = Some(Instant::now());
                let _ended = self.raft.trigger().elect().await;
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
        }
    }

    /// It leads with a majority behind it, or has contact with the leader.
    pub fn has_leader(&self) -> bool {
        let leads = self.raft.server_metrics().borrow().state == ServerState::Leader;
        if leads {
            !self.is_handing_over() && self.has_majority()
        } else {
            self.peers.contact().has_heard_leader(self.lease)
        }
    }

    async fn prospect(&self) -> Prospect {
        let (me, membership) = (self.peers.me().raft_id, self.membership());
        if membership.voter_ids().eq([me]) {
            return Prospect::Fair;
        }
        if !self.may_vote()
            || !membership.voter_ids().any(|id| id == me)
            || self.peers.contact().has_heard_leader(self.lease / 2)
        {
            return Prospect::None;
        }
        if self.raft.server_metrics().borrow().state == ServerState::Leader {
            return Prospect::None;
        }
        let replies = self.probe_all(&self.others()).await;
        let last = self.raft.data_metrics().borrow().last_log;
        match prospect(&membership, (last, me), &replies) {
            // Openraft asks others whether their lease is over, and not itself.
            Prospect::First if self.has_leader() => Prospect::Fair,
            prospect => prospect,
        }
    }

    /// Those who answer in time.
    pub async fn probe_all(&self, members: &[(u64, Member)]) -> Vec<(u64, peer::ProbeReply)> {
        let mut asked = tokio::task::JoinSet::new();
        for (id, member) in members.iter().cloned() {
            let peers = self.peers.clone();
            asked.spawn(async move {
                let mut client = peers.client(id, &member, crate::peers::Lane::Log).ok()?;
                let (sent, term) = (Instant::now(), peers.known().term);
                let request = peer::ProbeRequest {};
                let answer = tokio::time::timeout(PROBE_LIMIT, client.probe(request)).await.ok()?;
                peers.note(id, sent, &answer);
                let reply = answer.ok()?.into_inner();
                peers.known().probe_reply(&reply).map_err(crate::peers::refused).ok()?;
                if reply.term <= term {
                    peers.contact().supported(id, sent);
                }
                Some((id, reply))
            });
        }
        let mut replies = Vec::new();
        while let Some(answer) = asked.join_next().await {
            replies.extend(answer.ok().flatten());
        }
        replies
    }
}

fn prospect(membership: &Membership, me: Standing, replies: &[(u64, peer::ProbeReply)]) -> Prospect {
    let last = |reply: &peer::ProbeReply| reply.last.map(crate::peers::wire::from_log_id);
    let supports = |reply: &peer::ProbeReply| !reply.has_leader && last(reply) <= me.0;
    let has_majority =
        is_majority(membership, |id| id == me.1 || replies.iter().any(|(from, reply)| *from == id && supports(reply)));
    if !has_majority {
        return Prospect::None;
    }
    // One that leads is handing over, to whom it asks (E7), or only slow.
    let still_leads = |id: u64, reply: &peer::ProbeReply| reply.leader == Some(id);
    let leaves_it_to_me =
        |id: u64, reply: &peer::ProbeReply| !reply.has_leader && !still_leads(id, reply) && (last(reply), id) < me;
    let mut voters = replies.iter().filter(|(id, _)| membership.voter_ids().any(|voter| voter == *id));
    if voters.all(|(id, reply)| leaves_it_to_me(*id, reply)) { Prospect::First } else { Prospect::Fair }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use grid_proto::peer::{LogId, ProbeReply};

    use super::{Prospect, prospect};
    use crate::group::{Member, Membership};
    use crate::peers::wire::from_log_id;

    const LONG: LogId = LogId { term: 2, index: 20 };
    const SHORT: LogId = LogId { term: 2, index: 10 };

    /// Of member 2 of four, of which 4 does not vote.
    fn of_two(replies: &[(u64, ProbeReply)]) -> Prospect {
        let members: BTreeMap<u64, Member> = (1..=4).map(|id| (id, Member::default())).collect();
        let membership = Membership::new(vec![BTreeSet::from([1, 2, 3])], members);
        prospect(&membership, (Some(from_log_id(LONG)), 2), replies)
    }

    fn hears_none(last: LogId) -> ProbeReply {
        ProbeReply { last: Some(last), ..ProbeReply::default() }
    }

    fn hears_a_leader() -> ProbeReply {
        ProbeReply { has_leader: true, leader: Some(3), ..hears_none(LONG) }
    }

    #[test]
    fn alone_or_beside_those_who_hear_a_leader_nobody_stands() {
        assert_eq!(of_two(&[]), Prospect::None);
        assert_eq!(of_two(&[(1, hears_a_leader())]), Prospect::None);
        assert_eq!(of_two(&[(4, hears_none(SHORT))]), Prospect::None);
    }

    #[test]
    fn of_equals_the_highest_id_stands_at_once() {
        assert_eq!(of_two(&[(1, hears_none(LONG))]), Prospect::First);
        assert_eq!(of_two(&[(3, hears_none(LONG))]), Prospect::Fair);
    }

    #[test]
    fn the_longest_log_goes_before_the_highest_id() {
        assert_eq!(of_two(&[(3, hears_none(SHORT))]), Prospect::First);
        let longer = LogId { term: 3, index: 5 };
        assert_eq!(of_two(&[(1, hears_none(longer))]), Prospect::None);
    }

    #[test]
    fn one_that_hears_a_leader_is_left_time() {
        assert_eq!(of_two(&[(1, hears_none(LONG)), (3, hears_a_leader())]), Prospect::Fair);
    }

    #[test]
    fn e7_a_leader_that_hands_over_chooses() {
        let handing_over = ProbeReply { leader: Some(1), ..hears_none(LONG) };
        assert_eq!(of_two(&[(1, handing_over)]), Prospect::Fair);
    }

    #[test]
    fn who_does_not_vote_is_not_asked() {
        assert_eq!(of_two(&[(1, hears_none(LONG)), (4, hears_none(LONG))]), Prospect::First);
    }
}
