//! The sessions of workers that this leader knows: soft state, gone with the term.
//!
//! A session is made by a registration that went through the log and lives as long as its stream is open and heard.
//! Not here: what is said in it (`reconcile`, `dispatch`), whether its node is healthy (`grid-plan`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use grid_core::Command;
use grid_fabric::Outbox;
use grid_proto::v1;
use grid_types::{JobId, LeaseKey, NodeOrd, SessionId};
use prost::Message;

use crate::machine::reported;

/// Offers of one message, about: a message stays far below what a worker accepts.
const OFFER_BYTES: usize = 1024 * 1024;

/// Leases that were answered while a worker owes its held list.
const MAX_ANSWERED: usize = 16_384;

#[derive(Default)]
pub struct Sessions {
    by_id: HashMap<SessionId, Session>,
    by_node: HashMap<NodeOrd, SessionId>,
    /// When nodes whose session is over were last heard, for people.
    heard_wall_ms: HashMap<NodeOrd, u64>,
}

pub struct Session {
    pub node: NodeOrd,
    /// Of the leader that began it, as the wire carries it; in every message (W2).
    pub leader_epoch: u64,
    /// None until its stream opens.
    pub outbox: Option<Outbox>,
    /// Who opened it.
    pub peer: Option<SocketAddr>,
    pub heard_mono_ms: u64,
    pub heard_wall_ms: u64,
    /// When each lease was last offered in this session (W5).
    pub offered_mono_ms: BTreeMap<LeaseKey, u64>,
    /// Whose reports are on their way into the log.
    pub reported: BTreeSet<LeaseKey>,
    /// Leases that the worker asked to start (W3), while that is on its way into the log.
    pub beginning: BTreeSet<LeaseKey>,
    /// The question what it holds, until its list comes. One at a time, or nobody could tell which one a list answers.
    pub asked: Option<Asked>,
    /// When its journal was asked about restored jobs (E2).
    pub asked_journal_mono_ms: Option<u64>,
    /// A page of its answer was not recorded: the rest of that answer does not count either.
    pub journal_gap: bool,
    /// How many pages of answers it has sent.
    pub journal_pages: u32,
    /// Which list of controllers it was told; 0: none.
    pub told: u64,
}

/// A list that answers it was made after everything that was sent before it was read, whatever the delay.
#[derive(Debug, Default)]
pub struct Asked {
    pub at_mono_ms: u64,
    /// Answered since: the list may still have them.
    pub answered: Vec<LeaseKey>,
}

impl Sessions {
    /// A new registration; the node's earlier session, if any, ends.
    pub fn begin(&mut self, id: SessionId, node: NodeOrd, leader_epoch: u64, mono_ms: u64, wall_ms: u64) {
        // Two registrations of one worker may come here in the wrong order; sessions are numbered as they were applied.
        if self.by_node.get(&node).is_some_and(|current| *current > id) {
            return;
        }
        if let Some(old) = self.by_node.insert(node, id).filter(|old| *old != id) {
            self.end(old, grid_fabric::closing::STALE_SESSION);
        }
        let session = Session {
            node,
            leader_epoch,
            outbox: None,
            peer: None,
            heard_mono_ms: mono_ms,
            heard_wall_ms: wall_ms,
            offered_mono_ms: BTreeMap::new(),
            reported: BTreeSet::new(),
            beginning: BTreeSet::new(),
            asked: None,
            asked_journal_mono_ms: None,
            journal_gap: false,
            journal_pages: 0,
            told: 0,
        };
        self.by_id.insert(id, session);
    }

    pub fn end(&mut self, id: SessionId, reason: &str) {
        let Some(session) = self.by_id.remove(&id) else { return };
        self.heard_wall_ms.insert(session.node, session.heard_wall_ms);
        if self.by_node.get(&session.node) == Some(&id) {
            self.by_node.remove(&session.node);
        }
        if let Some(outbox) = session.outbox {
            outbox.close(v1::Closing { reason: reason.to_owned(), leader_url: String::new() });
        }
    }

    pub fn end_all(&mut self, reason: &str) {
        for id in self.by_id.keys().copied().collect::<Vec<_>>() {
            self.end(id, reason);
        }
    }

    /// Another leader receives the heartbeats from now on.
    pub fn forget_heard(&mut self) {
        self.heard_wall_ms.clear();
    }

    /// W5: whatever was not offered, or was lost, is offered to whoever answers.
    pub fn ask_all_what_they_hold(&mut self, now_mono_ms: u64) {
        for session in self.by_id.values_mut() {
            session.ask_what_it_holds(now_mono_ms);
        }
    }

    /// Tells `most` of the open sessions that have not been told this list.
    pub fn tell_controllers(&mut self, controllers: &[String], list: u64, most: usize) {
        let untold = |session: &&mut Session| session.outbox.is_some() && session.told != list;
        for session in self.by_id.values_mut().filter(untold).take(most) {
            session.told = list;
            let controllers = controllers.to_vec();
            session.send(v1::ToWorker { controllers, ..v1::ToWorker::default() });
        }
    }

    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id)
    }

    pub fn of_node(&mut self, node: NodeOrd) -> Option<&mut Session> {
        self.by_id.get_mut(self.by_node.get(&node)?)
    }

    pub fn heard_wall_ms(&self, node: NodeOrd) -> Option<u64> {
        let open = self.by_node.get(&node).and_then(|id| self.by_id.get(id));
        open.map(|session| session.heard_wall_ms).or_else(|| self.heard_wall_ms.get(&node).copied())
    }

    /// W1: whether the node's session is open and was heard not long ago.
    pub fn lives(&self, node: NodeOrd, now_mono_ms: u64, silent_limit_ms: u64) -> bool {
        let session = self.by_node.get(&node).and_then(|id| self.by_id.get(id));
        session.is_some_and(|session| {
            let open = session.outbox.as_ref().is_some_and(|outbox| !outbox.is_closed());
            open && now_mono_ms.saturating_sub(session.heard_mono_ms) < silent_limit_ms
        })
    }
}

impl Session {
    /// Whether it could be queued for the worker.
    pub fn send(&self, message: v1::ToWorker) -> bool {
        self.outbox.as_ref().is_some_and(|outbox| say(outbox, self.leader_epoch, message))
    }

    /// The same for what may wait for the next message; returns whom to hurry if none comes.
    pub fn send_with_next(&self, message: v1::ToWorker) -> Option<Outbox> {
        let outbox = self.outbox.as_ref()?;
        let message = v1::ToWorker { leader_epoch: self.leader_epoch, ..message };
        outbox.send_with_next(message).is_ok().then(|| outbox.clone())
    }

    /// A new stream: offers of an earlier one may never have arrived, nor its reports the log. It begins with a list. An
    /// earlier one that is still open is closed; returns who had opened it.
    pub fn open(&mut self, outbox: Outbox, peer: Option<SocketAddr>, now_mono_ms: u64) -> Option<Option<SocketAddr>> {
        let before = std::mem::replace(&mut self.peer, peer);
        let replaced = self.outbox.replace(outbox).filter(|earlier| !earlier.is_closed());
        self.offered_mono_ms.clear();
        self.reported.clear();
        self.beginning.clear();
        self.told = 0;
        self.asked = Some(Asked { at_mono_ms: now_mono_ms, ..Asked::default() });
        replaced.map(|earlier| {
            let reason = grid_fabric::closing::REPLACED.to_owned();
            earlier.close(v1::Closing { reason, leader_url: String::new() });
            before
        })
    }

    pub fn ask_what_it_holds(&mut self, now_mono_ms: u64) {
        if self.asked.is_none() && self.send(v1::ToWorker { ask_held: true, ..v1::ToWorker::default() }) {
            self.asked = Some(Asked { at_mono_ms: now_mono_ms, ..Asked::default() });
        }
    }

    /// Whether a report says what is on its way into the log already. The end of a revoke is news even then: the result may
    /// come too late.
    pub fn is_repeated(&self, report: &Command) -> bool {
        let is_known = reported(report).is_some_and(|(_, lease)| self.reported.contains(&lease));
        is_known && !matches!(report, Command::ConfirmRevoke(_))
    }

    /// A worker has reported; whether it says what is not on its way into the log already.
    pub fn take_up(&mut self, report: &Command) -> bool {
        let Some((_, lease)) = reported(report) else { return false };
        self.offered_mono_ms.remove(&lease);
        let is_first = self.reported.insert(lease);
        // The end of a revoke is news even while the result of its lease is on its way: that one may come too late.
        is_first || matches!(report, Command::ConfirmRevoke(_))
    }

    /// What became of a report is known.
    pub fn put_down(&mut self, lease: LeaseKey) {
        self.reported.remove(&lease);
        if let Some(asked) = &mut self.asked {
            asked.answered.push(lease);
            // A worker that never answers must not be waited for with a list that grows.
            if asked.answered.len() > MAX_ANSWERED {
                self.asked = None;
            }
        }
    }

    pub fn forget_offers(&mut self, job: JobId) {
        self.offered_mono_ms.retain(|lease, _| lease.job != job);
    }
}

/// Puts a message into an outbox, stamped with the leader's epoch.
///
/// Overflow closes the stream; the worker comes back and is told again what is still true (W5).
pub fn say(outbox: &Outbox, leader_epoch: u64, mut message: v1::ToWorker) -> bool {
    let mut offers = std::mem::take(&mut message.offers).into_iter();
    let mut size = 0;
    let mut sent = true;
    for offer in offers.by_ref() {
        size += offer.encoded_len();
        message.offers.push(offer);
        if size >= OFFER_BYTES {
            sent &= outbox.send(v1::ToWorker { leader_epoch, ..std::mem::take(&mut message) }).is_ok();
            size = 0;
        }
    }
    let rest = v1::ToWorker { leader_epoch, ..message };
    // A message that says nothing is not worth a frame.
    let empty = v1::ToWorker { leader_epoch, ..v1::ToWorker::default() };
    sent && (rest == empty || outbox.send(rest).is_ok())
}
