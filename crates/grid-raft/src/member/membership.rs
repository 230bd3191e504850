//! Changes who belongs to the group: one change at a time, in the order in
//! which they were asked for.
//!
//! Refused, with the reason: what would leave a group whose voters that answer
//! now are no majority, and what would take away the leader itself.
//! E3: an id comes with one folder; the name of a member under another folder
//! only to replace it ([`Namesake`]).
//! Not here: who may ask (the controller), addresses that changed (`announce`).
//! A change that a dead leader left half-way (a joint configuration) is finished
//! before the next one begins.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::error::{ClientWriteError, RaftError};

use crate::bounds::{self, MAX_MEMBERS};
use crate::error::ChangeError;
use crate::group::{Member, Membership};
use crate::member::RunningMember;
use crate::peers::contact::is_majority;

/// Without a majority a change waits for ever.
const LIMIT: Duration = Duration::from_secs(10);
/// A learner this close behind the leader may vote.
const CLOSE_ENTRIES: u64 = 64;

/// A member as the group knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub raft_id: u64,
    pub member: Member,
    pub is_voter: bool,
}

/// Everybody, in the order of their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    pub members: Vec<Listed>,
    /// No change of voters is under way.
    pub is_settled: bool,
}

impl Roster {
    /// Whether the member votes, whatever happens next.
    pub fn is_settled_voter(&self, raft_id: u64) -> bool {
        self.is_settled && self.members.iter().any(|listed| listed.raft_id == raft_id && listed.is_voter)
    }

    pub fn by_node_id(&self, node_id: &str) -> Option<&Listed> {
        self.members.iter().find(|listed| listed.member.node_id == node_id)
    }
}

pub type Change = ChangeMembers<u64, Member>;

/// What is done about a member that has the name of a new one, and another data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namesake {
    /// The new one is refused.
    Refuse,
    /// It is removed: its folder is lost.
    Replace,
}

/// What a voter is after it was taken out of the voters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormerVoter {
    StaysLearner,
    Leaves,
}

impl RunningMember {
    /// The newest membership in the log, committed or not.
    pub fn membership(&self) -> Membership {
        self.raft.server_metrics().borrow().membership_config.membership().clone()
    }

    pub async fn roster_changed(&self, seen: &Roster) {
        let mut server = self.raft.server_metrics();
        loop {
            server.borrow_and_update();
            if self.roster() != *seen {
                return;
            }
            if server.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    pub fn roster(&self) -> Roster {
        let membership = self.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let listed = |(id, member): (&u64, &Member)| Listed {
            raft_id: *id,
            member: member.clone(),
            is_voter: voters.contains(id),
        };
        Roster {
            members: membership.nodes().map(listed).collect(),
            is_settled: membership.get_joint_config().len() == 1,
        }
    }

    /// Every member but this one.
    pub fn others(&self) -> Vec<(u64, Member)> {
        let me = self.peers.me().raft_id;
        let membership = self.membership();
        membership.nodes().filter(|(id, _)| **id != me).map(|(id, member)| (*id, member.clone())).collect()
    }

    /// E5, for a leader: whether a majority has answered lately.
    pub fn has_majority(&self) -> bool {
        let server = self.raft.server_metrics();
        let server = server.borrow();
        let (membership, me) = (server.membership_config.membership(), self.peers.me().raft_id);
        self.peers.contact().has_majority(membership, me, self.lease)
    }

    /// Adds a learner, or brings the record of a member up to date.
    pub async fn admit(&self, raft_id: u64, member: Member, namesake: Namesake) -> Result<(), ChangeError> {
        // Before it is in the log: an entry that the other members refuse would stop every commit behind it.
        bounds::member(&member).map_err(|(_, what)| ChangeError::Refused(what.to_owned()))?;
        let _turn = self.begin_change().await?;
        let membership = self.membership();
        if let Some(known) = membership.get_node(&raft_id) {
            if !known.folder_id.is_empty() && known.folder_id != member.folder_id {
                let reason = format!("member {raft_id} is known with another data folder");
                return Err(ChangeError::Refused(reason));
            }
            if *known == member {
                return Ok(());
            }
            return self.change(Change::SetNodes(BTreeMap::from([(raft_id, member)])), FormerVoter::StaysLearner).await;
        }
        let other = self.roster().by_node_id(&member.node_id).map(|listed| listed.raft_id);
        match other {
            Some(_) if member.node_id.is_empty() => {}
            Some(other) if namesake == Namesake::Replace => self.take_out(other, FormerVoter::Leaves).await?,
            Some(_) => {
                let reason = format!(
                    "{name} is a member already, with another data folder; if that folder is lost, start this one with \
                     --replace, otherwise give it another --node-id",
                    name = member.node_id
                );
                return Err(ChangeError::Refused(reason));
            }
            None => {}
        }
        if self.membership().nodes().count() >= MAX_MEMBERS {
            return Err(ChangeError::Refused(format!(
                "the cluster has {MAX_MEMBERS} members, the most that there can be"
            )));
        }
        self.change(Change::AddNodes(BTreeMap::from([(raft_id, member)])), FormerVoter::StaysLearner).await
    }

    /// Makes a learner a voter, once it is close enough behind.
    pub async fn promote(&self, raft_id: u64) -> Result<(), ChangeError> {
        let _turn = self.begin_change().await?;
        let membership = self.membership();
        membership.get_node(&raft_id).ok_or(ChangeError::Unknown(raft_id))?;
        if membership.voter_ids().any(|id| id == raft_id) {
            return Ok(());
        }
        let there = self.answering().await.contains(&raft_id);
        match self.behind(raft_id) {
            Some(entries) if entries <= CLOSE_ENTRIES && there => {}
            Some(entries) if there => {
                let reason = format!("it is {entries} entries behind and would hold up the group; try again later");
                return Err(ChangeError::Refused(reason));
            }
            _ => return Err(ChangeError::Refused("it does not answer; start it, and try again".into())),
        }
        self.change(Change::AddVoterIds(BTreeSet::from([raft_id])), FormerVoter::StaysLearner).await
    }

    /// Makes a voter a learner.
    pub async fn demote(&self, raft_id: u64) -> Result<(), ChangeError> {
        let _turn = self.begin_change().await?;
        let membership = self.membership();
        membership.get_node(&raft_id).ok_or(ChangeError::Unknown(raft_id))?;
        if !membership.voter_ids().any(|id| id == raft_id) {
            return Ok(());
        }
        self.take_out(raft_id, FormerVoter::StaysLearner).await
    }

    pub async fn remove(&self, raft_id: u64) -> Result<(), ChangeError> {
        let _turn = self.begin_change().await?;
        self.membership().get_node(&raft_id).ok_or(ChangeError::Unknown(raft_id))?;
        self.take_out(raft_id, FormerVoter::Leaves).await
    }

    /// Entries that the leader has and the member is not known to have.
    pub fn behind(&self, raft_id: u64) -> Option<u64> {
        let metrics = self.raft.metrics().borrow().clone();
        let matched = metrics.replication?.get(&raft_id).copied()?;
        let last = metrics.last_log_index.unwrap_or(0);
        Some(last.saturating_sub(matched.map_or(0, |id| id.index)))
    }

    /// Asked now, not remembered: a change that counts on a member which has just died leaves the group between two
    /// configurations, unable to commit anything.
    async fn answering(&self) -> BTreeSet<u64> {
        let replies = self.probe_all(&self.others()).await;
        replies.into_iter().map(|(id, _)| id).chain([self.peers.me().raft_id]).collect()
    }

    async fn take_out(&self, raft_id: u64, former: FormerVoter) -> Result<(), ChangeError> {
        let membership = self.membership();
        if !membership.voter_ids().any(|id| id == raft_id) {
            return self.change(Change::RemoveNodes(BTreeSet::from([raft_id])), former).await;
        }
        let name = |id: &u64| match membership.get_node(id).map(|member| member.node_id.as_str()) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => id.to_string(),
        };
        if raft_id == self.peers.me().raft_id {
            let reason =
                format!("{} is the leader; hand leadership over first (gridc cluster step-down)", name(&raft_id));
            return Err(ChangeError::Refused(reason));
        }
        let left: BTreeSet<u64> = membership.voter_ids().filter(|id| *id != raft_id).collect();
        let silent: Vec<u64> = left.difference(&self.answering().await).copied().collect();
        if (left.len() - silent.len()) * 2 <= left.len() {
            let reason = format!(
                "without {} there would be {} voters, and {} of them cannot be reached ({}): no majority; bring them back first",
                name(&raft_id),
                left.len(),
                silent.len(),
                silent.iter().map(name).collect::<Vec<_>>().join(", ")
            );
            return Err(ChangeError::Refused(reason));
        }
        self.change(Change::RemoveVoters(BTreeSet::from([raft_id])), former).await
    }

    /// Waits for its turn; nothing is begun that could not be finished.
    async fn begin_change(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ChangeError> {
        let turn = self.change_turn.lock().await;
        self.see_newest_membership().await?;
        if !self.raft.server_metrics().borrow().state.is_leader() {
            return Err(ChangeError::NotLeader);
        }
        let membership = self.membership();
        let there = self.answering().await;
        if !is_majority(&membership, |id| there.contains(&id)) {
            return Err(ChangeError::NoMajority);
        }
        if let [_, .., newest] = membership.get_joint_config().as_slice() {
            self.change(Change::ReplaceAllVoters(newest.clone()), FormerVoter::StaysLearner).await?;
        }
        Ok(turn)
    }

    /// The metrics follow the log a moment later: without this a change right after another one would not know its outcome.
    async fn see_newest_membership(&self) -> Result<(), ChangeError> {
        let newest = self.raft.with_raft_state(|state| *state.membership_state.effective().log_id()).await;
        let newest = newest.map_err(|_| ChangeError::NotLeader)?;
        let mut server = self.raft.server_metrics();
        let seen = server.wait_for(|server| *server.membership_config.log_id() >= newest).await;
        seen.map(drop).map_err(|_| ChangeError::NotLeader)
    }

    /// E4: "not the leader" only if the change was never handed over. openraft says the same of one that was, when
    /// leadership is lost before it is committed, or between its two entries.
    pub async fn change(&self, change: Change, former: FormerVoter) -> Result<(), ChangeError> {
        let leads = self.raft.with_raft_state(|state| state.server_state.is_leader()).await;
        if !leads.map_err(|e| ChangeError::OutcomeUnknown(e.to_string()))? {
            return Err(ChangeError::NotLeader);
        }
        let changed =
            tokio::time::timeout(LIMIT, self.raft.change_membership(change, former == FormerVoter::StaysLearner)).await;
        match changed {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(change_error(&e)),
            Err(_) => Err(ChangeError::OutcomeUnknown("no majority agreed in time".into())),
        }
    }
}

fn change_error(e: &RaftError<u64, ClientWriteError<u64, Member>>) -> ChangeError {
    match e {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => {
            ChangeError::OutcomeUnknown("leadership was lost during the change".into())
        }
        RaftError::APIError(ClientWriteError::ChangeMembershipError(e)) => ChangeError::Refused(e.to_string()),
        RaftError::Fatal(e) => ChangeError::OutcomeUnknown(e.to_string()),
    }
}
