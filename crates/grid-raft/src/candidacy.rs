//! Whether this member may stand for election: only with a prospect of winning.
//!
//! ```text
//!   hears a leader ------------------------------------------> may not
//!   hears none --probe--> a majority hears none either,
//!                         and has no longer log -------------> may
//! ```
//!
//! openraft 0.9 has no pre-vote: a member that cannot hear the leader stands
//! again and again, and the higher term it comes back with deposes a leader
//! that everybody else was content with. So its elections are switched off, and
//! on only after asking around; the ask changes nothing anywhere.
//! Not here: the election itself, whose rules stay openraft's; the hand-over (E7),
//! which asks openraft directly.

use std::time::{Duration, Instant};

use openraft::ServerState;

use crate::contact::is_majority;
use crate::group::Member;
use crate::start::Started;
use grid_proto::peer;

const ROUND: Duration = Duration::from_millis(50);
const PROBE_LIMIT: Duration = Duration::from_millis(250);

impl Started {
    /// Runs until the member ends.
    pub async fn mind_elections(&self) {
        let mut closing = self.closing.subscribe();
        loop {
            let may = self.may_stand().await;
            self.raft.runtime_config().elect(may);
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
        }
    }

    /// It leads with a majority behind it, or hears whoever leads.
    pub fn has_leader(&self) -> bool {
        let leads = self.raft.server_metrics().borrow().state == ServerState::Leader;
        if leads {
            !self.is_handing_over() && self.has_majority()
        } else {
            self.peers.contact().has_heard_leader(self.lease)
        }
    }

    async fn may_stand(&self) -> bool {
        let (me, membership) = (self.peers.me().raft_id, self.membership());
        if membership.voter_ids().eq([me]) {
            return true;
        }
        if !membership.voter_ids().any(|id| id == me) || self.peers.contact().has_heard_leader(self.lease / 2) {
            return false;
        }
        if self.raft.server_metrics().borrow().state == ServerState::Leader {
            return false;
        }
        let last = self.raft.data_metrics().borrow().last_log;
        let replies = self.probe_all(&self.others()).await;
        is_majority(&membership, |id| {
            let supports =
                |reply: &peer::ProbeReply| !reply.has_leader && reply.last.map(crate::wire::from_log_id) <= last;
            id == me || replies.iter().any(|(from, reply)| *from == id && supports(reply))
        })
    }

    /// Those who answer in time.
    pub async fn probe_all(&self, members: &[(u64, Member)]) -> Vec<(u64, peer::ProbeReply)> {
        let mut asked = tokio::task::JoinSet::new();
        for (id, member) in members.iter().cloned() {
            let peers = self.peers.clone();
            asked.spawn(async move {
                let mut client = peers.client(id, &member.address, crate::peers::Lane::Log).ok()?;
                let sent = Instant::now();
                let request = peer::ProbeRequest { sender: Some(peers.sender(id)) };
                let answer = tokio::time::timeout(PROBE_LIMIT, client.probe(request)).await.ok()?;
                peers.note(id, sent, &answer);
                Some((id, answer.ok()?.into_inner()))
            });
        }
        let mut replies = Vec::new();
        while let Some(answer) = asked.join_next().await {
            replies.extend(answer.ok().flatten());
        }
        replies
    }
}
