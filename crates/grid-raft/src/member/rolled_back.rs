//! Ends a member whose log was rolled back (an older copy of its folder was put back).
//!
//! ```text
//!   starts --asks all others--> one knows that it had more than its log has ---------> was rolled back: it ends
//!                               enough others have answered or called, none knows ---> votes and takes entries; asks again
//!                               a leader answers and knows of none ------------------> its log is whole: done
//!                               it leads, and every other voter has answered since --> done
//! ```
//!
//! What a member acknowledged was counted for a majority. If it votes without those entries, a leader without them can
//! be elected, and what was acknowledged to clients is lost (L3). So it neither votes nor starts elections nor takes entries before it has
//! compared, and its leader does not replicate to it as if it had only lagged behind (`peers::network`).
//!
//! *Enough* are a majority of the voters with this one: any member that commits or elects with its help is among them or overlaps with
//! them. After [`PATIENCE`] one other member is enough, since members may be down for good, or reach some of the others only. Nobody is
//! never enough, and needs not be: a call says what its sender knows ([`RunningMember::compare_with_caller`]), so that the member that
//! asks for a vote, or replicates, is one that was compared with, even if this member cannot dial it. So all members
//! may start at once, in any order, and a member that reaches nobody waits without harm: nobody can use its vote.
//!
//! Of what was acknowledged two things are believed: what the leader got in its own term, since nobody else can have
//! truncated that, and the floor of each member: up to where it has had every entry and they were committed, which no later
//! leader takes back. Leaders send the floors with their heartbeats, so that every member remembers them. Both are compared by
//! term first: terms never fall along a log, so that an older copy may be longer than what replaced its uncommitted end.
//! Not here: a log that was cut within one file or folder (`start::checked_folder`).
//! Floors are in memory only: nobody notices a rollback if no other member has run since the rolled-back entries were
//! acknowledged. So it is when all members were down at once, and with a folder that is rolled back on every member.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grid_proto::peer;
use openraft::ServerState;

use crate::group::Membership;
use crate::machine::LogPosition;
use crate::member::RunningMember;
use crate::peers::contact::is_majority;
use crate::peers::refused;

const ROUND: Duration = Duration::from_millis(200);
/// A leader waits for a voter that has not answered yet, which may be down for days.
const ROUND_OF_A_LEADER: Duration = Duration::from_secs(2);
/// So long after the start a majority is wanted, then one other member is enough.
const PATIENCE: Duration = Duration::from_secs(1);
/// An append waits this long for the comparison after a start; its sender tries again.
const COMPARE_LIMIT: Duration = Duration::from_secs(1);

/// With whom a member has compared its log since it started.
#[derive(Debug)]
pub struct Comparison {
    begun: Instant,
    /// Everybody was asked once, and had time to answer.
    has_asked: bool,
    with: BTreeSet<u64>,
}

impl Comparison {
    pub fn begin() -> Self {
        Self { begun: Instant::now(), has_asked: false, with: BTreeSet::new() }
    }

    /// Whether the member may vote and take entries.
    fn suffices(&self, membership: &Membership, me: u64, patience: Duration) -> bool {
        let is_alone = !membership.voter_ids().any(|id| id != me);
        let has_majority = is_majority(membership, |id| id == me || self.with.contains(&id));
        let has_waited = !self.with.is_empty() && self.begun.elapsed() >= patience;
        self.has_asked && (is_alone || has_majority || has_waited)
    }
}

impl RunningMember {
    /// Runs until it is confirmed that the log is whole, until it is known that it is not, or until the end.
    pub async fn mind_log(&self) {
        let mut closing = self.closing.subscribe();
        let mut answered = (0, BTreeSet::new());
        while self.rolled_back.borrow().is_none() {
            let replies = self.probe_all(&self.others()).await;
            if let Some(missing) = self.missing(&replies).await {
                self.rolled_back.send_replace(Some(missing));
                break;
            }
            let is_whole = self.is_confirmed(&replies, &mut answered);
            if let Some(comparison) = self.comparison().as_mut() {
                comparison.has_asked = true;
                comparison.with.extend(replies.iter().map(|(from, _)| *from));
                self.conclude(comparison, is_whole);
            }
            if is_whole {
                break;
            }
            let leads = self.raft.server_metrics().borrow().state == ServerState::Leader;
            tokio::select! {
                () = tokio::time::sleep(if leads { ROUND_OF_A_LEADER } else { ROUND }) => {}
                _ = closing.wait_for(|closing| *closing) => break,
            }
        }
        *self.comparison() = None;
    }

    /// Every call but a probe says up to where its sender knows that this member has had entries.
    pub fn compare_with_caller(&self, from: u64, had: Option<peer::LogId>) {
        let mut comparison = self.comparison();
        let Some(comparison) = comparison.as_mut() else { return };
        if self.peers.known().had(had.as_ref()).map_err(refused).is_err() {
            return;
        }
        let last = self.log_size.last();
        if let Some(acknowledged) = had.map(position).filter(|had| last < Some(*had)) {
            self.rolled_back.send_replace(Some(Missing { acknowledged, last }));
            return;
        }
        comparison.with.insert(from);
        self.conclude(comparison, false);
    }

    fn conclude(&self, comparison: &Comparison, is_whole: bool) {
        if is_whole || comparison.suffices(&self.membership(), self.peers.me().raft_id, PATIENCE) {
            self.has_compared.send_replace(true);
        }
    }

    fn comparison(&self) -> MutexGuard<'_, Option<Comparison>> {
        self.comparison.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a leader has answered, or this member leads and every other voter has answered in its term, over several rounds.
    fn is_confirmed(&self, replies: &[(u64, peer::ProbeReply)], answered: &mut (u64, BTreeSet<u64>)) -> bool {
        if replies.iter().any(|(from, reply)| reply.has_leader && reply.leader == Some(*from)) {
            return true;
        }
        let server = self.raft.server_metrics();
        let server = server.borrow();
        if server.state != ServerState::Leader {
            return false;
        }
        // In its term the others take nothing from an earlier leader any more.
        let term = server.vote.leader_id.term;
        if answered.0 != term {
            *answered = (term, BTreeSet::new());
        }
        answered.1.extend(replies.iter().filter(|(_, reply)| reply.term == term).map(|(from, _)| *from));
        let me = self.peers.me().raft_id;
        server.membership_config.voter_ids().all(|id| id == me || answered.1.contains(&id))
    }

    /// Whether it may take part in elections.
    pub fn may_vote(&self) -> bool {
        *self.has_compared.borrow() && self.rolled_back.borrow().is_none()
    }

    /// Waits until its log was compared. Before, nothing is replicated to it: entries that arrive first would hide what it lacks.
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
            let acknowledged = acknowledged.into_iter().chain(reply.floor).map(position).max()?;
            (last < Some(acknowledged)).then_some(Missing { acknowledged, last })
        })
    }
}

fn position(id: peer::LogId) -> LogPosition {
    LogPosition { term: id.term, index: id.index }
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use grid_proto::peer::LogId;

    use super::Comparison;
    use crate::config::Start;
    use crate::file_machine::{Home, Receipt, lead, propose};
    use crate::group::{Member, Membership};
    use crate::machine::LogPosition;
    use crate::raft::Raft;

    fn compared(with: &[u64], has_asked: bool) -> Comparison {
        Comparison { has_asked, with: with.iter().copied().collect(), ..Comparison::begin() }
    }

    #[test]
    fn l3_a_majority_was_compared_with_or_after_a_while_one_other() {
        let members = |count| (1..=count).map(|id| (id, Member::default())).collect::<BTreeMap<_, _>>();
        let group = |count| Membership::new(vec![(1..=count).collect::<BTreeSet<u64>>()], members(count));
        let (never, at_once) = (Duration::MAX, Duration::ZERO);
        assert!(compared(&[], true).suffices(&group(1), 1, never), "it votes alone");
        assert!(compared(&[], true).suffices(&Membership::default(), 1, never), "it joins");
        assert!(!compared(&[], true).suffices(&group(3), 1, at_once), "nobody has answered");
        assert!(!compared(&[2, 3], false).suffices(&group(3), 1, at_once), "the others had no time to answer");
        assert!(compared(&[2], true).suffices(&group(3), 1, never));
        assert!(!compared(&[2], true).suffices(&group(5), 1, never));
        assert!(compared(&[2], true).suffices(&group(5), 1, at_once));
        assert!(compared(&[2, 4], true).suffices(&group(5), 1, never));
    }

    #[test]
    fn a_lone_leader_stops_comparing() {
        Home::new().run(Start::Bootstrap, async |raft| {
            lead(&raft).await;
            raft.member.mind_log().await;
            assert!(raft.member.may_vote());
        });
    }

    /// A member of two, started again, whose peer does not answer.
    fn alone_of_two(work: impl AsyncFnOnce(Raft<Receipt>, LogPosition)) {
        let home = Home::new();
        home.run(Start::Bootstrap, async |raft| {
            propose(&raft, "kept").await;
            let core = raft.member.raft.clone();
            let peer = Member { address: "127.0.0.1:9".into(), folder_id: "f2".into(), ..Member::default() };
            let added = core.add_learner(2, peer, false).await.expect("learner");
            tokio::spawn({
                let core = core.clone();
                async move { core.change_membership(BTreeSet::from([1, 2]), false).await }
            });
            core.wait(None).log_index_at_least(Some(added.log_id.index + 1), "begun").await.expect("in the log");
        });
        home.run(Start::Existing, async |raft| {
            let asked = || raft.member.comparison().as_ref().is_none_or(|comparison| comparison.has_asked);
            while !asked() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(!raft.member.may_vote(), "nobody was compared with");
            assert!(raft.member.compared().await.is_err());
            let last = raft.member.log_size.last().expect("entries");
            work(raft, last).await;
        });
    }

    #[test]
    fn l3_whoever_calls_was_compared_with_although_nobody_answers() {
        alone_of_two(async |raft, last| {
            raft.member.compare_with_caller(2, Some(LogId { term: last.term, index: u64::MAX }));
            assert!(!raft.member.may_vote(), "what is out of bounds does not count");
            raft.member.compare_with_caller(2, Some(LogId { term: last.term, index: last.index }));
            assert!(raft.member.may_vote() && raft.member.compared().await.is_ok());
        });
    }

    #[test]
    fn l3_a_caller_that_knows_of_more_shows_that_the_log_was_rolled_back() {
        alone_of_two(async |raft, last| {
            // Shorter than the log, and in a later term: what the log ends with was never committed.
            raft.member.compare_with_caller(2, Some(LogId { term: last.term + 1, index: last.index - 1 }));
            assert!(!raft.member.may_vote());
            assert!(raft.rolled_back().await.contains("the raft log was rolled back"));
        });
    }
}
