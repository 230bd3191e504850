//! The sessions of workers that this leader knows.
//!
//! A session is made by a registration that went through the log and lives as long as its stream is open and heard.
//! Not here: what is said in it (`reconcile`, `applied`), its queue (`leading`), whether its node is healthy (`grid-plan`).

use std::collections::BTreeMap;

use grid_core::Command;
use grid_proto::v1;
use grid_types::{JobId, LeaseKey, NodeOrd, SessionId};

use super::lease_map::LeaseMap;
use super::wire::reported;
use super::{Out, When};

/// Leases that were answered while a worker owes the list of what it holds.
const MAX_ANSWERED: usize = 16_384;

/// Through a broker a question or its answer may be lost, and is asked again after this. A connection loses neither while it lasts.
const LIST_LOST_MS: u64 = 10_000;

#[derive(Default)]
pub struct Sessions {
    by_id: BTreeMap<SessionId, Session>,
    by_node: BTreeMap<NodeOrd, SessionId>,
    /// When nodes whose session is over were last heard, for people.
    heard_wall_ms: BTreeMap<NodeOrd, u64>,
}

#[derive(Debug)]
pub struct Session {
    pub node: NodeOrd,
    /// It has a stream.
    pub is_open: bool,
    /// Its stream goes through a broker, which may lose single messages.
    pub has_broker: bool,
    pub heard_mono_ms: u64,
    pub heard_wall_ms: u64,
    /// When each lease was last offered in this session (W5).
    pub offered_mono_ms: LeaseMap<u64>,
    /// Whose reports are on their way into the log.
    pub reported: LeaseMap<()>,
    /// Leases that the worker asked to start (W3), while that is on its way into the log; and when it asked, by its own clock.
    pub beginning: LeaseMap<u64>,
    /// The question which leases it has, until its list arrives. One at a time: a list does not name the question that it answers.
    pub asked: Option<Asked>,
    /// When its journal was asked about restored jobs (E2).
    pub asked_journal_mono_ms: Option<u64>,
    /// A page of its answer was not recorded: the rest of that answer does not count either.
    pub journal_gap: bool,
    /// How many pages of answers it has sent.
    pub journal_pages: u32,
    /// Which list of controllers it was sent; 0: none.
    pub controllers_list: u64,
    /// The message to it while what was applied is worked off; `None` in between. Boxed: most sessions have none.
    pub draft: Option<Box<v1::ToWorker>>,
}

/// A list that answers it was made after everything that was sent before it was read, whatever the delay.
#[derive(Debug, Default)]
pub struct Asked {
    pub at_mono_ms: u64,
    /// Answered since: the list may still have them.
    pub answered: Vec<LeaseKey>,
}

impl Sessions {
    /// A new registration. Returns the node's earlier session, which is over.
    pub fn begin(&mut self, id: SessionId, node: NodeOrd, mono_ms: u64, wall_ms: u64) -> Option<SessionId> {
        // Two registrations of one worker may come here in the wrong order; sessions are numbered as they were applied.
        if self.by_node.get(&node).is_some_and(|current| *current > id) {
            return None;
        }
        let old = self.by_node.insert(node, id).filter(|old| *old != id);
        self.by_id.insert(id, Session::new(node, mono_ms, wall_ms));
        old
    }

    /// Whether it had a stream, which is to be closed.
    pub fn end(&mut self, id: SessionId) -> bool {
        let Some(session) = self.by_id.remove(&id) else { return false };
        self.heard_wall_ms.insert(session.node, session.heard_wall_ms);
        if self.by_node.get(&session.node) == Some(&id) {
            self.by_node.remove(&session.node);
        }
        session.is_open
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    pub fn ids(&self) -> Vec<SessionId> {
        self.by_id.keys().copied().collect()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&SessionId, &mut Session)> {
        self.by_id.iter_mut()
    }

    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id)
    }

    pub fn node_of(&self, id: SessionId) -> Option<NodeOrd> {
        self.by_id.get(&id).map(|session| session.node)
    }

    pub fn of_node(&mut self, node: NodeOrd) -> Option<(SessionId, &mut Session)> {
        let id = *self.by_node.get(&node)?;
        Some((id, self.by_id.get_mut(&id)?))
    }

    pub fn open_of(&self, node: NodeOrd) -> Option<SessionId> {
        self.by_node.get(&node).copied().filter(|id| self.by_id.get(id).is_some_and(|session| session.is_open))
    }

    /// Whether a node's session is open over a connection of its own.
    pub fn has_connection(&self, node: NodeOrd) -> bool {
        let session = self.by_node.get(&node).and_then(|id| self.by_id.get(id));
        session.is_some_and(|session| session.is_open && !session.has_broker)
    }

    pub fn heard_wall_ms(&self, node: NodeOrd) -> Option<u64> {
        let current = self.by_node.get(&node).and_then(|id| self.by_id.get(id));
        current.map(|session| session.heard_wall_ms).or_else(|| self.heard_wall_ms.get(&node).copied())
    }

    /// W1: whether the node's session is open and was heard not long ago.
    pub fn lives(&self, node: NodeOrd, now_mono_ms: u64, silent_limit_ms: u64) -> bool {
        let session = self.by_node.get(&node).and_then(|id| self.by_id.get(id));
        session.is_some_and(|session| {
            session.is_open && now_mono_ms.saturating_sub(session.heard_mono_ms) < silent_limit_ms
        })
    }
}

impl Session {
    pub fn new(node: NodeOrd, mono_ms: u64, wall_ms: u64) -> Self {
        Self {
            node,
            is_open: false,
            has_broker: false,
            heard_mono_ms: mono_ms,
            heard_wall_ms: wall_ms,
            offered_mono_ms: LeaseMap::default(),
            reported: LeaseMap::default(),
            beginning: LeaseMap::default(),
            asked: None,
            asked_journal_mono_ms: None,
            journal_gap: false,
            journal_pages: 0,
            controllers_list: 0,
            draft: None,
        }
    }

    /// A new stream: offers of an earlier one may never have arrived, nor its reports the log. It begins with a list. Returns
    /// whether an earlier one is still open.
    pub fn open(&mut self, now_mono_ms: u64) -> bool {
        self.offered_mono_ms.clear();
        self.reported.clear();
        self.beginning.clear();
        self.controllers_list = 0;
        self.asked = Some(Asked { at_mono_ms: now_mono_ms, ..Asked::default() });
        std::mem::replace(&mut self.is_open, true)
    }

    /// A message for the worker, if it has a stream.
    pub fn send(&self, id: SessionId, message: v1::ToWorker) -> Option<Out> {
        self.is_open.then_some(Out::Send { session: id, message, when: When::Now })
    }

    pub fn ask_outstanding(&mut self, id: SessionId, now_mono_ms: u64) -> Option<Out> {
        let question = v1::ToWorker { ask_outstanding: true, ..v1::ToWorker::default() };
        let is_lost = |asked: &Asked| self.has_broker && now_mono_ms.saturating_sub(asked.at_mono_ms) >= LIST_LOST_MS;
        if self.asked.as_ref().is_some_and(is_lost) {
            self.asked = None;
        }
        let sent = self.asked.is_none().then(|| self.send(id, question)).flatten()?;
        self.asked = Some(Asked { at_mono_ms: now_mono_ms, ..Asked::default() });
        Some(sent)
    }

    /// Whether a report says what is on its way into the log already. The end of a revoke is news even then: the result may
    /// come too late.
    pub fn is_repeated(&self, report: &Command) -> bool {
        let is_known = reported(report).is_some_and(|(_, lease)| self.reported.has(&lease));
        is_known && !matches!(report, Command::ConfirmRevoke(_))
    }

    /// A worker has reported; whether it says what is not on its way into the log already.
    pub fn take_up(&mut self, report: &Command) -> bool {
        let Some((_, lease)) = reported(report) else { return false };
        self.offered_mono_ms.remove(&lease);
        let is_first = self.reported.insert(lease, ()).is_none();
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
        self.offered_mono_ms.retain(|lease| lease.job != job);
    }
}
