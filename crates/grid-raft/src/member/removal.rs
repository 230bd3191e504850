//! Notifies a member that it was removed, even if it was away when that happened.
//!
//! ```text
//!   hears a leader ------------------------------------------------------> is a member
//!   hears none --asks around--> one knows a committed membership without it,
//!                               no older than the newest it knows itself --> was removed
//! ```
//!
//! Nobody replicates to a member that is none any more, so it may never get the entry that removed it. What counts is a
//! *committed* membership: that is final, and ids are never used again. One that is older than the asker's own says
//! nothing: the member that answers may lag behind the entry that added the asker. Older is by term first, then by index: a leader that
//! was cut off may have a membership of its own at a higher index, in its old term, that was never committed.
//! Not here: the removal itself (`membership`), what the program does about it.
//! A member that joins has yet to hear of the entry that added it, so that it believes only a leader, who has them all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use grid_proto::peer;
use openraft::LogId;
use openraft::error::Fatal;

use crate::group::Member;
use crate::member::RunningMember;
use crate::peers::wire;

const ROUND: Duration = Duration::from_secs(1);

impl RunningMember {
    /// Runs until the member ends, or knows that it was removed.
    pub async fn mind_removal(&self) {
        let mut closing = self.closing.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
            if !self.has_leader() && self.was_removed().await {
                self.removed.send_replace(true);
                return;
            }
        }
    }

    /// The entry of the newest committed membership here, if neither it nor a newer one lists the member.
    pub async fn unlisted_at(&self, raft_id: u64) -> Result<Option<LogId<u64>>, Fatal<u64>> {
        let unlisted = move |state: &openraft::RaftState<u64, Member, _>| {
            let committed = state.membership_state.committed();
            // A group that never had a voter is none.
            let is_unlisted = committed.voter_ids().next().is_some() && committed.get_node(&raft_id).is_none();
            let is_unlisted = is_unlisted && state.membership_state.effective().get_node(&raft_id).is_none();
            committed.log_id().filter(|_| is_unlisted)
        };
        self.raft.with_raft_state(unlisted).await
    }

    async fn was_removed(&self) -> bool {
        let (me, has_joined) = (self.peers.me().raft_id, self.has_joined.load(Ordering::Acquire));
        if has_joined && matches!(self.unlisted_at(me).await, Ok(Some(_))) {
            return true;
        }
        let known = self.raft.server_metrics().borrow().membership_config.clone();
        let Some(newest) = *known.log_id() else { return false };
        let replies = self.probe_all(&self.others()).await;
        replies.iter().any(|(from, reply)| says_removed(*from, reply, newest, has_joined))
    }
}

/// Whether the answer of `from` shows that a member whose newest membership is that of `newest` was removed.
fn says_removed(from: u64, reply: &peer::ProbeReply, newest: LogId<u64>, has_joined: bool) -> bool {
    let leads = reply.has_leader && reply.leader == Some(from);
    reply.unlisted.map(wire::from_log_id).is_some_and(|at| at >= newest && (has_joined || leads))
}

#[cfg(test)]
mod tests {
    use grid_proto::peer::{LogId, ProbeReply};

    use super::says_removed;
    use crate::peers::wire::from_log_id;

    #[test]
    fn a_former_leader_with_a_longer_log_learns_that_it_was_removed() {
        let removed_at = |term, index| ProbeReply { unlisted: Some(LogId { term, index }), ..ProbeReply::default() };
        let own = |term, index| from_log_id(LogId { term, index });
        assert!(says_removed(2, &removed_at(6, 110), own(5, 120), true), "its own entry was never committed");
        assert!(!says_removed(2, &removed_at(5, 110), own(5, 120), true), "it was added later");
        assert!(!says_removed(2, &removed_at(5, 120), own(6, 110), true), "by a later leader");
        assert!(!says_removed(2, &removed_at(6, 110), own(5, 90), false), "it joins, and this one does not lead");
        let leads = ProbeReply { has_leader: true, leader: Some(2), ..removed_at(6, 110) };
        assert!(says_removed(2, &leads, own(5, 90), false));
        assert!(!says_removed(2, &ProbeReply::default(), own(5, 90), true));
    }
}
