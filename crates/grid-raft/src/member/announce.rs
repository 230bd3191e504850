//! Announces this member to the others: its addresses when they changed, its
//! wish to vote while it joins.
//!
//! Said to every other member until the leader among them has acted, or done
//! here if this member leads. Repeating it is harmless.
//! Not here: the change itself (`membership`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use grid_proto::peer;

use crate::error::ChangeError;
use crate::group::Member;
use crate::member::RunningMember;
use crate::member::membership::Namesake;
use crate::peers::Lane;

const ROUND: Duration = Duration::from_millis(200);
const CALL_LIMIT: Duration = Duration::from_secs(10);

impl RunningMember {
    /// Runs until the member ends.
    pub async fn keep_record_current(&self) {
        let mut closing = self.closing.subscribe();
        let mut joining = self.peers.me().joining;
        loop {
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
            let me = self.peers.me().raft_id;
            let membership = self.membership();
            let Some(known) = membership.get_node(&me) else { continue };
            if joining && self.roster().is_settled_voter(me) {
                joining = false;
                self.has_joined.store(true, Ordering::Release);
                if let Err(e) = self.peers.me().clone().joined(self.folder.root()) {
                    tracing::warn!("cannot note that this member has joined: {e}");
                }
            }
            if joining || *known != self.record {
                self.announce(joining).await;
            }
        }
    }

    /// What a member said of itself; only the leader can act on it.
    pub async fn announced(&self, from: u64, member: Member, wants_vote: bool) -> Result<(), ChangeError> {
        // A member that was removed and does not know it yet must not become a member again this way.
        self.membership().get_node(&from).ok_or(ChangeError::Unknown(from))?;
        self.admit(from, member, Namesake::Refuse).await?;
        if wants_vote { self.promote(from).await } else { Ok(()) }
    }

    async fn announce(&self, wants_vote: bool) {
        let me = self.peers.me().raft_id;
        match self.announced(me, self.record.clone(), false).await {
            Ok(()) => return,
            Err(ChangeError::NotLeader) => {}
            Err(e) => tracing::debug!("own record: {e}"),
        }
        let Ok(record) = serde_json::to_vec(&self.record) else { return };
        let record = Bytes::from(record);
        for (id, member) in self.others() {
            let Ok(mut client) = self.peers.client(id, &member, Lane::Log) else { continue };
            let request = peer::AnnounceRequest { member: record.clone(), wants_vote };
            let sent = Instant::now();
            let Ok(answer) = tokio::time::timeout(CALL_LIMIT, client.announce(request)).await else { continue };
            self.peers.note(id, sent, &answer);
            match answer {
                Ok(_) => return,
                Err(status) => tracing::debug!(member = id, "not announced: {}", status.message()),
            }
        }
    }
}
