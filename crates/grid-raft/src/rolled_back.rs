//! A member whose log was rolled back (an older copy of its folder was put back) notices it and ends.
//!
//! ```text
//!   starts --asks around--> somebody knows that it had more than its log has ---------> was rolled back: it ends
//!                           a leader answers and has none ----------------------------> its log is whole
//!                           nobody leads --------------------------------------------> asks again, and votes meanwhile
//! ```
//!
//! What a member acknowledged was counted for a majority. If it votes without those entries, a leader without them can
//! be elected, and what was acknowledged to clients is lost (L3). So it neither votes nor stands nor takes entries before it has
//! asked once, and its leader does not replicate to it as if it had only lagged behind (`network`).
//! Of what was acknowledged two things are believed: what the leader got in its own term, since nobody else can have
//! truncated that, and the floor of each member: up to where it has had every entry and they were committed, which no later
//! leader takes back. Leaders send the floors with their heartbeats, so that every member remembers them.
//! Not here: a log that was cut within one file or folder (`ground`).
//! Floors are in memory only: nobody notices a rollback if no other member has run since the rolled-back entries were
//! acknowledged. So it is when all members were down at once, and with a folder that is rolled back on every member.

use std::time::Duration;

use grid_proto::peer;

use crate::machine::LogPosition;
use crate::start::Started;

const ROUND: Duration = Duration::from_millis(200);
/// An append waits this long for the comparison after a start; its sender tries again.
const COMPARE_LIMIT: Duration = Duration::from_secs(1);

/// What its leader says about such a member.
pub const SAID: &str = "it lacks entries that it has acknowledged: its folder was rolled back, and nothing is replicated \
     to it; start it in an empty folder with --join URL --replace";

impl Started {
    /// Runs until a leader has confirmed that the log is whole, until it is known that it is not, or until the end.
    pub async fn mind_log(&self) {
        let mut closing = self.closing.subscribe();
        loop {
            let replies = self.probe_all(&self.others()).await;
            if let Some(acknowledged) = self.missing(&replies).await {
                self.rolled_back.send_replace(Some(acknowledged));
                return;
            }
            self.has_compared.send_replace(true);
            if replies.iter().any(|(from, reply)| reply.has_leader && reply.leader == Some(*from)) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
        }
    }

    /// Whether it may take part in elections.
    pub fn may_vote(&self) -> bool {
        *self.has_compared.borrow() && self.rolled_back.borrow().is_none()
    }

    /// Waits until its log was compared once. Before, nothing is replicated to it: entries that arrive first would hide what it lacks.
    pub async fn compared(&self) -> Result<(), &'static str> {
        let mut compared = self.has_compared.subscribe();
        let waited = tokio::time::timeout(COMPARE_LIMIT, compared.wait_for(|compared| *compared)).await;
        match waited {
            Ok(Ok(_)) if self.rolled_back.borrow().is_none() => Ok(()),
            _ => Err("it compares its log with the others' before it takes entries"),
        }
    }

    /// The entry that this member has acknowledged and does not have.
    async fn missing(&self, replies: &[(u64, peer::ProbeReply)]) -> Option<Missing> {
        // Asked after the replies: the log can only have grown since they were written. The term comes last: if it is still not
        // above that of a reply, no later leader has truncated the log before its end was looked at.
        let last = self.log_size.last();
        let term = self.raft.with_raft_state(|state| state.vote_ref().leader_id.term).await.ok()?;
        replies.iter().find_map(|(_, reply)| {
            // A later leader may have truncated it.
            let acknowledged = reply.acknowledged.filter(|_| reply.term >= term);
            let had = acknowledged.into_iter().chain(reply.floor).max_by_key(|id| id.index)?;
            let is_missing = last.is_none_or(|last| last.index < had.index);
            let acknowledged = LogPosition { term: had.term, index: had.index };
            is_missing.then_some(Missing { acknowledged, last })
        })
    }
}

/// How much a log was rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    pub acknowledged: LogPosition,
    pub last: Option<LogPosition>,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = self.last.map_or("is empty".to_owned(), |last| format!("ends at entry {last}"));
        write!(
            f,
            "the raft log was rolled back: this member has acknowledged entry {} and its log {last}, as if an older copy of \
             the folder had been put back; it must not vote without them: start in an empty folder with `--join URL \
             --replace`, or put the newest files back",
            self.acknowledged
        )
    }
}
