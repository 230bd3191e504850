//! Hands leadership over to another member (E7). openraft 0.9 has no transfer, so:
//!
//! ```text
//!   wait for a follower with the whole log -> stop heartbeats -> wait out the lease -> ask it to stand
//!     -> another term: done
//!     -> none within LIMIT: heartbeats again, still the leader
//! ```
//!
//! Not here: refusing new work meanwhile; the caller proposes nothing from
//! before the call until it has returned.
//! The lease has to be waited out because every voter refuses candidates while
//! it believes in a leader; asking earlier would only raise the term.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use grid_proto::peer;

use crate::error::HandOverError;
use crate::group::Member;
use crate::member::RunningMember;
use crate::peers::Lane;

const LIMIT: Duration = Duration::from_secs(5);
/// Replication progress is signalled; that a member is silent is not.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// After the lease, so that no voter still believes in it.
const MARGIN: Duration = Duration::from_millis(10);
const ASK_AGAIN: Duration = Duration::from_millis(400);
const CALL_LIMIT: Duration = Duration::from_secs(1);

impl RunningMember {
    pub fn is_handing_over(&self) -> bool {
        self.handing_over.load(Ordering::Acquire)
    }

    /// Returns when `to`, or any voter, answers and is at most so many entries behind, and after `limit` at the latest.
    pub async fn follower_near(&self, to: Option<u64>, entries: u64, limit: Duration) {
        let me = self.peers.me().raft_id;
        let is_near = |id: u64| {
            let answers = self.peers.contact().hears(id, self.lease);
            answers && self.behind(id).is_some_and(|behind| behind <= entries)
        };
        let mut metrics = self.raft.metrics();
        let waiting = async {
            while !self.membership().voter_ids().any(|id| id != me && to.is_none_or(|to| to == id) && is_near(id)) {
                if let Ok(Err(_)) = tokio::time::timeout(LOOK_AGAIN, metrics.changed()).await {
                    // This member has ended.
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(limit, waiting).await;
    }

    /// To `to`, or to whichever voter has the whole log first.
    pub async fn hand_over(&self, to: Option<u64>) -> Result<(), HandOverError> {
        let begun = Instant::now();
        let (target, member) = self.whole_follower(to, begun).await?;
        if self.handing_over.swap(true, Ordering::AcqRel) {
            return Err(HandOverError::Refused("leadership is being handed over already".into()));
        }
        self.raft.runtime_config().heartbeat(false);
        let handed = self.hand_to(target, &member, begun).await;
        self.raft.runtime_config().heartbeat(true);
        self.handing_over.store(false, Ordering::Release);
        handed
    }

    async fn hand_to(&self, target: u64, member: &Member, begun: Instant) -> Result<(), HandOverError> {
        let mut server = self.raft.server_metrics();
        let term = server.borrow().vote.leader_id.term;
        let mut pause = self.lease + MARGIN;
        while begun.elapsed() < LIMIT {
            let moved = server.wait_for(|m| m.vote.leader_id.term > term || !m.state.is_leader());
            if let Ok(changed) = tokio::time::timeout(pause, moved).await {
                return changed.map(drop).map_err(|_| HandOverError::NotLeader);
            }
            pause = ASK_AGAIN;
            let Ok(mut client) = self.peers.client(target, member, Lane::Log) else { continue };
            let request = peer::ElectRequest {};
            if let Ok(Err(status)) = tokio::time::timeout(CALL_LIMIT, client.elect(request)).await {
                tracing::debug!(member = target, "does not stand for election: {}", status.message());
            }
        }
        Err(HandOverError::Refused(format!("nobody took over within {} s", LIMIT.as_secs())))
    }

    async fn whole_follower(&self, to: Option<u64>, begun: Instant) -> Result<(u64, Member), HandOverError> {
        let me = self.peers.me().raft_id;
        let mut metrics = self.raft.metrics();
        loop {
            if !self.raft.server_metrics().borrow().state.is_leader() {
                return Err(HandOverError::NotLeader);
            }
            let membership = self.membership();
            let mut others = membership.voter_ids().filter(|id| *id != me && to.is_none_or(|to| to == *id)).peekable();
            if others.peek().is_none() {
                let reason = match to {
                    Some(_) => "it is no voter, or leads already",
                    None => "there is no other voter; add one first (grid server --join)",
                };
                return Err(HandOverError::Refused(reason.into()));
            }
            let whole = others.find(|id| self.peers.contact().hears(*id, self.lease) && self.behind(*id) == Some(0));
            if let Some(member) = whole.and_then(|id| Some((id, membership.get_node(&id)?.clone()))) {
                return Ok(member);
            }
            if begun.elapsed() >= LIMIT {
                return Err(HandOverError::Refused("no other voter has the whole log; see gridc controllers".into()));
            }
            if let Ok(Err(_)) = tokio::time::timeout(LOOK_AGAIN, metrics.changed()).await {
                return Err(HandOverError::NotLeader);
            }
        }
    }
}
