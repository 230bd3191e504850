//! Handles one message of a worker: its journal first, then accepted offers, reports and requests, then its outstanding leases.
//!
//! Bounds: every list of a message has one. What is beyond it counts as not said, and is said again.

use std::collections::BTreeSet;

use grid_core::Command;
use grid_fabric::CloseReason;
use grid_proto::v1;
use grid_types::{JobEpoch, JobId, LeaseKey, NodeOrd, SessionId};

use super::journals::Page;
use super::reconcile::{agrees, reconcile};
use super::wire::forget;
use super::{Backlog, Leader, Mandate, Now, Origin, Out, Proposal, journals};
use crate::reply::Replied;

/// Leases of one outstanding list. A worker has at most its slots, as many again that wait, and what it still reports.
const MAX_OUTSTANDING: usize = 20_000;
/// Jobs of which a journal still has settled leases; it keeps at most so many leases (W2).
const MAX_SETTLED_JOBS: usize = 50_000;

impl Leader {
    pub fn on_message(
        &mut self,
        now: &Now<'_>,
        session: SessionId,
        mut message: v1::FromWorker,
        backlog: Backlog,
    ) -> Vec<Out> {
        let mut outs = Vec::new();
        let is_cut_off = now.mandate == Mandate::CutOff;
        let node = self.hear(now, session).filter(|_| !is_cut_off && message.leader_epoch == self.epoch.wire());
        let Some(node) = node else {
            let reason = if is_cut_off { CloseReason::NotLeader } else { CloseReason::StaleSession };
            self.end_session(session, reason, &mut outs);
            return outs;
        };
        match message.journal.take() {
            // First: it says which of the leases that follow are to be adopted.
            Some(report) => {
                let page = Page::of(&report);
                if let Some(command) = self.journal_page(now, node, session, report) {
                    let origin = Origin::Journal { session, page, rest: Box::new(message) };
                    outs.push(Proposal::out(vec![command], origin));
                    return self.stamped(outs);
                }
            }
            None => self.ask_journal(now, node, session, &mut outs),
        }
        self.take_in(now, (node, session), message, backlog, &mut outs);
        self.stamped(outs)
    }

    /// The page was recorded, or not; either way the rest of its message counts.
    pub(super) fn journal_replied(
        &mut self,
        now: &Now<'_>,
        (session, page): (SessionId, Page),
        replies: &[Replied],
        rest: v1::FromWorker,
        outs: &mut Vec<Out>,
    ) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let node = known.node;
        if let Some(Err(no_reply)) = replies.first() {
            tracing::warn!(%node, "the answer of a journal was not recorded and is asked for again: {no_reply}");
            journals::lost_page(known, page);
        }
        self.take_in(now, (node, session), rest, Backlog::Empty, outs);
    }

    fn take_in(
        &mut self,
        now: &Now<'_>,
        (node, session): (NodeOrd, SessionId),
        message: v1::FromWorker,
        backlog: Backlog,
        outs: &mut Vec<Out>,
    ) {
        self.accepted(now, node, &message.accepted, outs);
        if !(message.results.is_empty() && message.revokes_done.is_empty()) {
            self.take_up(now, (node, session), message.results, message.revokes_done, outs);
        }
        if !message.begins.is_empty() {
            self.begin(now, (node, session), message.begins, outs);
        }
        if let Some(outstanding) = message.outstanding {
            self.forget_ended(now, session, &outstanding.settled_jobs, outs);
            // What is beyond the bound counts as not outstanding: it is offered again, and the worker answers from its journal.
            let leases = outstanding.leases.into_iter().take(MAX_OUTSTANDING).map(LeaseKey::from).collect();
            self.compare(now, (node, session), &leases, outs);
        } else if let Some(heartbeat) = message.heartbeat.filter(|_| backlog == Backlog::Empty) {
            // Otherwise what waits may well be the reason why its list would differ; the next heartbeat shows it.
            let differs = |known| !agrees(now.state, known, heartbeat.outstanding_digest);
            if now.state.nodes.get(&node).is_some_and(differs)
                && let Some(known) = self.sessions.get_mut(session)
            {
                outs.extend(known.ask_outstanding(session, now.mono_ms));
            }
        }
    }

    fn compare(
        &mut self,
        now: &Now<'_>,
        (node, session): (NodeOrd, SessionId),
        outstanding: &BTreeSet<LeaseKey>,
        outs: &mut Vec<Out>,
    ) {
        let Some(known) = now.state.nodes.get(&node) else { return };
        let Some(in_session) = self.sessions.get_mut(session) else { return };
        let (message, accepted) = reconcile(now, known, in_session, outstanding);
        if message != v1::ToWorker::default() {
            outs.extend(in_session.send(session, message));
        }
        for (lease, timeout_ms) in accepted {
            self.backstop.accepted(node, lease, timeout_ms, now.mono_ms);
        }
    }

    /// A `Forget` may have been sent while the worker was away.
    fn forget_ended(&mut self, now: &Now<'_>, session: SessionId, jobs: &[u64], outs: &mut Vec<Out>) {
        let state = now.state;
        let ended =
            jobs.iter().take(MAX_SETTLED_JOBS).map(|job| JobId(*job)).filter(|job| !state.jobs.contains_key(job));
        // One of which not even a stub is left cannot be resumed: all of it may go.
        let epoch = |job: &JobId| state.stubs.get(job).map_or(JobEpoch(u32::MAX), |stub| stub.epoch);
        let forgets: Vec<_> = ended.map(|job| forget(job, epoch(&job))).collect();
        if !forgets.is_empty()
            && let Some(known) = self.sessions.get_mut(session)
        {
            outs.extend(known.send(session, v1::ToWorker { forgets, ..v1::ToWorker::default() }));
        }
    }

    fn journal_page(
        &mut self,
        now: &Now<'_>,
        node: NodeOrd,
        session: SessionId,
        report: v1::JournalReport,
    ) -> Option<Command> {
        let page = Page::of(&report);
        let command = journals::command(now.state, node, session, report)?;
        let known = self.sessions.get_mut(session)?;
        journals::takes_page(known, page).then_some(Command::ReportJournal(command))
    }

    fn ask_journal(&mut self, now: &Now<'_>, node: NodeOrd, session: SessionId, outs: &mut Vec<Out>) {
        let Some(known) = now.state.nodes.get(&node) else { return };
        let Some(in_session) = self.sessions.get_mut(session) else { return };
        let ask_journal = journals::to_ask(now.state, known, in_session, now.mono_ms);
        if !ask_journal.is_empty() {
            outs.extend(in_session.send(session, v1::ToWorker { ask_journal, ..v1::ToWorker::default() }));
        }
    }
}
