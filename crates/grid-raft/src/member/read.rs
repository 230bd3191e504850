//! Provides current reads, and asks the other members for their state.
//!
//! E6: the leader confirms with a majority that it still is the leader; a member that
//! asked then waits until its own machine has applied up to that point. The
//! leader answers only in a term that is open for reading, which the program
//! around it says ([`RunningMember::open_reads`]).
//! Not here: reading; the caller does that afterwards.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use grid_proto::{causes, peer};
use openraft::LogId;

use crate::error::ReadError;
use crate::group::Metrics;
use crate::member::RunningMember;
use crate::peers::Lane;
use crate::peers::wire;

/// Long enough for a fail-over in between.
const LIMIT: Duration = Duration::from_secs(5);
const CALL_LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(30);

/// How a member stood a moment ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerState {
    pub raft_id: u64,
    pub term: u64,
    pub last_index: u64,
    pub applied_index: u64,
    pub snapshot_index: u64,
    /// As its program described itself.
    pub about: Vec<u8>,
}

impl RunningMember {
    /// From now on reads of this term may be confirmed; 0: of none.
    pub fn open_reads(&self, term: u64) {
        self.open_term.store(term, Ordering::Release);
    }

    /// Returns when this member has applied everything that was acknowledged
    /// anywhere before the call.
    pub async fn read_barrier(&self) -> Result<(), ReadError> {
        let begun = Instant::now();
        let at = loop {
            match self.read_index().await {
                Ok(at) => break at,
                Err(why) if begun.elapsed() > LIMIT => return Err(ReadError(why)),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        let mut metrics = self.raft.metrics();
        let applied = metrics.wait_for(|m: &Metrics| m.last_applied >= at || m.running_state.is_err());
        match tokio::time::timeout(LIMIT, applied).await {
            Ok(Ok(m)) if m.running_state.is_ok() => Ok(()),
            _ => Err(ReadError("this member has not caught up in time".into())),
        }
    }

    async fn read_index(&self) -> Result<Option<LogId<u64>>, String> {
        let leadership = self.raft.server_metrics().borrow().clone();
        let me = self.peers.me().raft_id;
        let leader = leadership.current_leader.ok_or("no leader is known")?;
        if leader == me {
            return self.own_read_index().await;
        }
        let membership = leadership.membership_config.membership();
        let member = membership.get_node(&leader).ok_or("the leader is not known")?;
        let mut client = self.peers.client(leader, member, Lane::Log).map_err(|status| causes(&status))?;
        let request = peer::ReadIndexRequest {};
        let answer = tokio::time::timeout(CALL_LIMIT, client.read_index(request)).await;
        let answer = answer.map_err(|_| "the leader does not answer")?.map_err(|status| causes(&status))?;
        let reply = answer.into_inner();
        self.peers.known().read_index_reply(&reply).map_err(|(_, what)| what)?;
        Ok(reply.at.map(wire::from_log_id))
    }

    /// As the leader.
    pub async fn own_read_index(&self) -> Result<Option<LogId<u64>>, String> {
        let term = self.raft.metrics().borrow().current_term;
        if self.open_term.load(Ordering::Acquire) != term {
            return Err("the leader has not begun its term yet".into());
        }
        let (at, _) = self.raft.get_read_log_id().await.map_err(|e| e.to_string())?;
        Ok(at)
    }

    /// The other members that answer now.
    pub async fn peer_states(&self) -> Vec<PeerState> {
        let replies = self.probe_all(&self.others()).await;
        let state = |(raft_id, reply): (u64, peer::ProbeReply)| PeerState {
            raft_id,
            term: reply.term,
            last_index: reply.last_index,
            applied_index: reply.applied_index,
            snapshot_index: reply.snapshot_index,
            about: reply.about.to_vec(),
        };
        replies.into_iter().map(state).collect()
    }

    pub fn own_state(&self) -> PeerState {
        let metrics = self.raft.metrics().borrow().clone();
        let index = |id: Option<LogId<u64>>| id.map_or(0, |id| id.index);
        PeerState {
            raft_id: self.peers.me().raft_id,
            term: metrics.current_term,
            last_index: metrics.last_log_index.unwrap_or(0),
            applied_index: index(metrics.last_applied),
            snapshot_index: index(metrics.snapshot),
            about: self.about(),
        }
    }
}
