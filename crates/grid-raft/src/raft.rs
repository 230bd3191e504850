//! Offers a running member to the rest of Grid.
//!
//! L3: [`Raft::propose`] resolves after commit, fsync and the machine's
//! transaction. E4: it says "not the leader" only if the payload never reached
//! the log.
//! Not here: merging of commands (the proposer in the controller), starting
//! (`start`), roles and epochs.
//! There is no timeout on a proposal: without a majority it waits for its fate,
//! and only the caller knows how long an answer is of use.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grid_tasks::Tasks;
use openraft::error::{ClientWriteError, RaftError};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::{Config, MAX_PAYLOAD_BYTES, Start};
use crate::data_dir::local_member::LocalMember;
use crate::error::{ChangeError, HandOverError, OpenError, PeerPortError, ProposeError, ReadError, Stopped};
use crate::group::{Member, Metrics, Proposal};
use crate::leadership::{LeaderInfo, Leadership, observe};
use crate::machine::{LogPosition, Machine};
use crate::member::RunningMember;
use crate::member::membership::{Namesake, Roster};
use crate::member::read::PeerState;
use crate::peer_port::service::serve;
use crate::peers::epochs::PlausibleEpochs;
use crate::start::checked_folder::{CheckedFolder, MachineKnown};
use crate::start::start;

/// Election timeouts without a message after which a leader is not named any more.
const LEADER_HEARD_LEASES: u32 = 4;

/// A handle to a running member; clones share it. `R` is what its machine
/// replies. Dropping every handle does not end the member: use
/// [`Raft::shutdown`].
pub struct Raft<R> {
    pub(crate) member: Arc<RunningMember>,
    leadership: watch::Receiver<Leadership>,
    reason: watch::Receiver<Option<String>>,
    reply: PhantomData<fn() -> R>,
}

impl<R> Clone for Raft<R> {
    fn clone(&self) -> Self {
        Self {
            member: self.member.clone(),
            leadership: self.leadership.clone(),
            reason: self.reason.clone(),
            reply: PhantomData,
        }
    }
}

impl<R: Send + 'static> Raft<R> {
    /// Starts a member on its data folder and brings `machine` up to date with
    /// what is known to be committed (L5). It runs on the current runtime.
    pub async fn open<M: Machine<Reply = R>>(config: Config, how: Start, machine: M) -> Result<Self, OpenError> {
        Self::run(CheckedFolder::open(config, how, MachineKnown::SOUND)?, machine, &Tasks::default()).await
    }

    /// The same on a folder that was taken before: for a machine that may have to be rebuilt from it.
    /// Its background tasks are started in `tasks`; they end when the member does.
    pub async fn run<M: Machine<Reply = R>>(
        folder: CheckedFolder,
        machine: M,
        tasks: &Tasks,
    ) -> Result<Self, OpenError> {
        let member = Arc::new(start(folder, machine).await?);
        let (leadership, reason) = observe(&member.raft, tasks);
        let (elections, record, mark) = (Arc::clone(&member), Arc::clone(&member), Arc::clone(&member));
        let (removal, log) = (Arc::clone(&member), Arc::clone(&member));
        tasks.start("elections", async move { elections.mind_elections().await });
        tasks.start("member-record", async move { record.keep_record_current().await });
        tasks.start_finite("folder-mark", async move { mark.mark_when_it_holds_something().await });
        tasks.start_finite("removal", async move { removal.mind_removal().await });
        tasks.start_finite("log-floor", async move { log.mind_log().await });
        Ok(Self { member, leadership, reason, reply: PhantomData })
    }

    /// Answers other members on `listener` until this one ends, at most `most` connections at once.
    pub async fn serve_peers(&self, listener: TcpListener, most: usize) -> Result<(), PeerPortError> {
        serve(listener, most, Arc::clone(&self.member)).await.map_err(|e| PeerPortError(e.to_string()))
    }

    /// Ids of member, folder and cluster.
    pub fn local_member(&self) -> &LocalMember {
        self.member.peers.me()
    }

    /// What other members receive when they ask for the status of this one.
    pub fn set_about(&self, about: impl Fn() -> Vec<u8> + Send + Sync + 'static) {
        self.member.set_about(Box::new(about));
    }

    /// E2: the leader epoch that was applied here, shown to other members in every request; and which epochs of theirs are
    /// believed.
    pub fn set_epoch(&self, epoch: u64, plausible: PlausibleEpochs) {
        self.member.peers.set_epoch(epoch, plausible);
    }

    /// E2: the highest leader epoch above its own that another member of the cluster has shown, and who did; 0: none.
    pub fn shown_epoch(&self) -> tokio::sync::watch::Receiver<(u64, String)> {
        self.member.peers.shown_epoch()
    }

    pub fn roster(&self) -> Roster {
        self.member.roster()
    }

    /// Resolves when the members are others than `seen`, or have other records; never after the member has ended.
    pub async fn roster_changed(&self, seen: &Roster) {
        self.member.roster_changed(seen).await;
    }

    /// E5, for a leader: whether a majority of voters has answered within one
    /// election timeout.
    pub fn has_majority(&self) -> bool {
        self.member.has_majority()
    }

    /// It leads with a majority behind it, or hears the leader.
    pub fn has_leader(&self) -> bool {
        self.member.has_leader()
    }

    /// Whether the leader that this member follows was heard lately. Longer than one election timeout: a leader whose disk is
    /// slow is still the one to turn to.
    pub fn hears_leader(&self) -> bool {
        self.member.peers.contact().has_heard_leader(LEADER_HEARD_LEASES * self.member.lease)
    }

    /// Since when a member has not been heard; `None` if it never was. A leader is heard by what it sends, too.
    pub fn silence(&self, raft_id: u64) -> Option<Duration> {
        let contact = self.member.peers.contact();
        let leads = self.leadership.borrow().leader.as_ref().is_some_and(|leader| leader.raft_id == raft_id);
        let heard = contact.leader_silence().filter(|_| leads);
        contact.silence(raft_id).into_iter().chain(heard).min()
    }

    /// This member and the others that answer now, in the order of their ids.
    pub async fn states(&self) -> Vec<PeerState> {
        let mut states = self.member.peer_states().await;
        states.push(self.member.own_state());
        states.sort_by_key(|state| state.raft_id);
        states
    }

    /// Adds a learner, or brings the record of a member up to date.
    pub async fn admit(&self, raft_id: u64, member: Member, namesake: Namesake) -> Result<(), ChangeError> {
        self.member.admit(raft_id, member, namesake).await
    }

    pub async fn promote(&self, raft_id: u64) -> Result<(), ChangeError> {
        self.member.promote(raft_id).await
    }

    pub async fn demote(&self, raft_id: u64) -> Result<(), ChangeError> {
        self.member.demote(raft_id).await
    }

    pub async fn remove(&self, raft_id: u64) -> Result<(), ChangeError> {
        self.member.remove(raft_id).await
    }

    /// E7: returns when a follower that could take over is at most so many entries behind, and after `limit` at the latest.
    pub async fn follower_near(&self, to: Option<u64>, entries: u64, limit: Duration) {
        self.member.follower_near(to, entries, limit).await;
    }

    /// E7. Propose nothing meanwhile.
    pub async fn hand_over(&self, to: Option<u64>) -> Result<(), HandOverError> {
        self.member.hand_over(to).await
    }

    /// E6: the leader may confirm reads in this term; 0 closes them.
    pub fn open_reads(&self, term: u64) {
        self.member.open_reads(term);
    }

    /// E6: returns when everything acknowledged before the call is applied here.
    pub async fn read_barrier(&self) -> Result<(), ReadError> {
        self.member.read_barrier().await
    }

    /// Resolves after the entry is committed, fsynced and applied (L3).
    /// Dropping the future does not take the payload back.
    pub async fn propose(&self, payload: Bytes) -> Result<R, ProposeError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(ProposeError::TooLarge { len: payload.len() });
        }
        let (proposal, appended) = Proposal::new(payload);
        let unknown = |reason: &str| ProposeError::OutcomeUnknown { reason: reason.into() };
        match self.member.raft.client_write(proposal).await {
            Ok(written) => {
                let reply = written.data.into_reply();
                reply.ok_or_else(|| unknown("it was applied, but its reply is lost"))
            }
            Err(RaftError::Fatal(_)) if appended.get() => Err(unknown("this member stopped before it was applied")),
            Err(_) if appended.get() => Err(unknown("another leader may or may not keep the entry")),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                let leader = forward.leader_id.zip(forward.leader_node);
                Err(ProposeError::NotLeader {
                    leader: leader.map(|(raft_id, member)| Box::new(LeaderInfo { raft_id, member })),
                })
            }
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(e))) => Err(unknown(&e.to_string())),
            Err(RaftError::Fatal(_)) => Err(self.stopped_error().await.into()),
        }
    }

    /// Who leads; closes when this member ends.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Bytes of log on disk.
    pub fn log_bytes(&self) -> u64 {
        self.member.log_size.bytes()
    }

    /// Takes a snapshot of at least what is applied now, and returns when it is
    /// on disk. The log is purged up to the snapshot before, which is kept: should this one turn out damaged, the two
    /// of them are as good.
    pub async fn trigger_snapshot(&self) -> Result<(), Stopped> {
        if self.snapshot_of_committed().await.is_none() {
            return Err(self.stopped_error().await);
        }
        let purged = match self.member.snapshots.previous() {
            Ok(Some(previous)) => self.purge_to(previous.last).await,
            Ok(None) => Some(()),
            Err(e) => {
                tracing::error!("the log is not purged: {e}");
                Some(())
            }
        };
        match purged {
            Some(()) => Ok(()),
            None => Err(self.stopped_error().await),
        }
    }

    /// Why snapshots fail at present; they are tried again.
    pub fn snapshot_trouble(&self) -> Option<String> {
        self.member.persistence.trouble()
    }

    /// Ends the member; returns when its data folder is free again.
    pub async fn shutdown(&self) {
        self.member.end().await;
    }

    /// Resolves with the reason when this member has ended: an error of its
    /// disk or its machine, or a shutdown. The process should end, too (L2).
    pub async fn stopped(&self) -> String {
        let mut reason = self.reason.clone();
        let known = reason.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
        match known {
            Ok(reason) => reason,
            // The task that knows the reason has failed, and the task watcher names it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Resolves when it is certain that this member was removed from its group. It should end: it never hears of the
    /// group again.
    pub async fn removed(&self) {
        let mut removed = self.member.removed.subscribe();
        // The sender lives as long as this handle.
        let _ = removed.wait_for(|removed| *removed).await;
    }

    /// Resolves with the reason when it is certain that this member's log was rolled back. It should end: it must not
    /// vote, and its leader does not replicate to it.
    pub async fn rolled_back(&self) -> String {
        let mut rolled_back = self.member.rolled_back.subscribe();
        // The sender lives as long as this handle.
        match rolled_back.wait_for(Option::is_some).await.map(|missing| *missing) {
            Ok(Some(missing)) => missing.to_string(),
            _ => std::future::pending().await,
        }
    }

    /// `None` if the member ends first.
    async fn snapshot_of_committed(&self) -> Option<()> {
        let raft = &self.member.raft;
        let mut metrics = raft.metrics();
        // Not from the metrics: they lag behind the replies already given.
        let wanted = raft.with_raft_state(|state| state.committed).await.ok()?;
        let has_ended = |m: &Metrics| m.running_state.is_err();
        let applied = metrics.wait_for(|m| m.last_applied >= wanted || has_ended(m));
        applied.await.ok().filter(|m| !has_ended(m))?;

        let _turn = self.member.snapshot_turn.lock().await;
        loop {
            let current = metrics.borrow().snapshot;
            if current >= wanted {
                return Some(());
            }
            // Ignored while one is under way, whose caller gave up; it may fall
            // short, so this may take a second round.
            raft.trigger().snapshot().await.ok()?;
            let taken = metrics.wait_for(|m| m.snapshot != current || has_ended(m));
            taken.await.ok().filter(|m| !has_ended(m))?;
        }
    }

    /// `None` if the member ends first.
    async fn purge_to(&self, position: Option<LogPosition>) -> Option<()> {
        let Some(index) = position.map(|position| position.index) else { return Some(()) };
        self.member.raft.trigger().purge_log(index).await.ok()
    }

    async fn stopped_error(&self) -> Stopped {
        Stopped { reason: self.stopped().await }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use openraft::raft::AppendEntriesRequest;
    use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, Vote};

    use super::ProposeError;
    use crate::config::Start;
    use crate::error::ChangeError;
    use crate::file_machine::{Home, lead, propose};
    use crate::group::{Group, Member};
    use crate::member::membership::{Change, FormerVoter};

    /// What the leader of a later term would send to this member.
    fn from_another_leader(
        term: u64,
        after: Option<LogId<u64>>,
        entries: Vec<Entry<Group>>,
    ) -> AppendEntriesRequest<Group> {
        AppendEntriesRequest { vote: Vote::new_committed(term, 2), prev_log_id: after, entries, leader_commit: None }
    }

    #[test]
    fn e4_what_never_reached_the_log_is_answered_not_leader() {
        Home::new().run(Start::Bootstrap, async |raft| {
            propose(&raft, "mine").await;
            let term = lead(&raft).await;
            let core = &raft.member.raft;
            core.runtime_config().elect(false);
            let request = from_another_leader(term + 1, None, vec![]);
            core.append_entries(request).await.expect("followed");

            let before = core.metrics().borrow().last_log_index;
            let refused = raft.propose("yours".into()).await;
            assert_eq!(refused, Err(ProposeError::NotLeader { leader: None }));
            assert_eq!(core.metrics().borrow().last_log_index, before);
            let mut leadership = raft.leadership();
            let deposed = leadership.wait_for(|l| !l.is_leader && l.term > term);
            deposed.await.expect("still runs");
        });
    }

    #[test]
    fn e4_a_change_that_was_begun_is_never_answered_not_leader() {
        Home::new().run(Start::Bootstrap, async |raft| {
            let term = lead(&raft).await;
            let core = raft.member.raft.clone();
            let peer = Member { address: "127.0.0.1:9".into(), ..Member::default() };
            let added = core.add_learner(2, peer, false).await.expect("learner");
            let wish = || Change::AddVoterIds(BTreeSet::from([2]));

            // It stays half-way: the second voter never answers.
            let member = raft.member.clone();
            let changing = tokio::spawn(async move { member.change(wish(), FormerVoter::StaysLearner).await });
            let next = added.log_id.index + 1;
            core.wait(None).log_index_at_least(Some(next), "begun").await.expect("in the log");
            core.runtime_config().elect(false);
            let entry =
                Entry { log_id: LogId::new(CommittedLeaderId::new(term + 1, 2), next), payload: EntryPayload::Blank };
            let request = from_another_leader(term + 1, Some(added.log_id), vec![entry]);
            core.append_entries(request).await.expect("followed");

            let outcome = changing.await.expect("joined");
            assert!(
                matches!(&outcome, Err(ChangeError::OutcomeUnknown(why)) if why.contains("leadership")),
                "{outcome:?}"
            );
            assert_eq!(raft.member.change(wish(), FormerVoter::StaysLearner).await, Err(ChangeError::NotLeader));
        });
    }

    #[test]
    fn e4_what_another_leader_cuts_off_has_an_unknown_outcome() {
        Home::new().run(Start::Bootstrap, async |raft| {
            let term = lead(&raft).await;
            let core = raft.member.raft.clone();
            let peer = Member { address: "127.0.0.1:9".into(), ..Member::default() };
            let added = core.add_learner(2, peer, false).await.expect("learner");

            // From here on, nothing commits: the second voter never answers.
            let change = core.clone();
            tokio::spawn(async move { change.change_membership(BTreeSet::from([1, 2]), false).await });
            let next = added.log_id.index + 1;
            let wait = core.wait(None);
            let reached = |index| wait.log_index_at_least(Some(index), "appended");
            reached(next).await.expect("membership entry");
            let handle = raft.clone();
            let proposal = tokio::spawn(async move { handle.propose("lost?".into()).await });
            reached(next + 1).await.expect("proposed entry");

            core.runtime_config().elect(false);
            let entry =
                Entry { log_id: LogId::new(CommittedLeaderId::new(term + 1, 2), next), payload: EntryPayload::Blank };
            let request = from_another_leader(term + 1, Some(added.log_id), vec![entry]);
            core.append_entries(request).await.expect("followed");

            let outcome = proposal.await.expect("joined");
            assert!(matches!(outcome, Err(ProposeError::OutcomeUnknown { .. })), "{outcome:?}");
        });
    }
}
