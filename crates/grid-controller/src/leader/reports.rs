//! Handles the reports of workers: results, finished revokes, accepted offers.
//!
//! Bounds: a report goes into the log only if the state waits for it (`grid_core`, `concerns_result`), with its error and output cut to
//! what is stored. Everything else is answered at once; a lease that nobody can have granted is counted.

use grid_core::{Answer, Command, Reply, Stale, State};
use grid_proto::v1;
use grid_types::{LeaseKey, NodeOrd, SessionId};

use super::wire::{final_answer, reported, result_command, revoke_command};
use super::{Leader, Now, Origin, Out, Proposal};
use crate::reply::{Replied, TOGETHER};

impl Leader {
    /// A worker holds these leases. Only those that are out to it have a deadline that could begin (W6).
    pub(super) fn accepted(&mut self, now: &Now<'_>, node: NodeOrd, leases: &[v1::Lease], outs: &mut Vec<Out>) {
        let mut invented = 0;
        for lease in leases.iter().copied().map(LeaseKey::from) {
            if !now.state.is_out(node, lease) {
                invented += u64::from(now.state.is_invented(node, lease));
                continue;
            }
            let timeout_ms = now.state.jobs.get(&lease.job).and_then(|job| {
                let step = usize::try_from(lease.step.0).ok()?;
                job.spec.steps().nth(step).map(|(_, task)| task.timeout_ms)
            });
            if let Some(timeout_ms) = timeout_ms {
                self.backstop.accepted(node, lease, timeout_ms, now.mono_ms);
            }
        }
        count_invented(node, invented, outs);
    }

    /// Proposes what a worker reports, and leaves out what it has reported before: that is on its way into the log and will
    /// be answered. Under load a worker may lose patience, and load must not make more of itself. What the state does not
    /// wait for is answered here; everything else when it is stored, together with what else that entry has for the worker.
    pub(super) fn take_up(
        &mut self,
        now: &Now<'_>,
        (node, session): (NodeOrd, SessionId),
        results: Vec<v1::LeaseResult>,
        revokes_done: Vec<v1::RevokeDone>,
        outs: &mut Vec<Out>,
    ) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let results = results.into_iter().filter_map(|result| result_command(node, session, result));
        let revokes = revokes_done.into_iter().filter_map(|done| revoke_command(node, session, done));
        let reports = results.map(Command::RecordResult).chain(revokes.map(Command::ConfirmRevoke));
        let (mut taken, mut message, mut invented) = (Vec::new(), v1::ToWorker::default(), 0);
        for report in reports.collect::<Vec<_>>() {
            if known.is_repeated(&report) {
                continue;
            }
            match concerns(now.state, &report) {
                Ok(()) if known.take_up(&report) => taken.push(report),
                Ok(()) => {}
                Err((lease, stale)) => {
                    invented += u64::from(now.state.is_invented(node, lease));
                    final_answer(now.state, &mut message, lease, Answer::Superseded(stale));
                }
            }
        }
        if message != v1::ToWorker::default() {
            outs.extend(known.send(session, message));
        }
        count_invented(node, invented, outs);
        let mut taken = taken.into_iter();
        loop {
            let commands: Vec<Command> = taken.by_ref().take(TOGETHER).collect();
            if commands.is_empty() {
                return;
            }
            let leases = commands.iter().filter_map(|report| Some(reported(report)?.1)).collect();
            outs.push(Proposal::out(commands, Origin::Reports { session, leases }));
        }
    }

    /// A stale session, a lost leadership, a fate unknown: the worker keeps it and says it again (W4).
    pub(super) fn reports_refused(
        &mut self,
        session: SessionId,
        leases: &[LeaseKey],
        replies: &[Replied],
        outs: &mut Vec<Out>,
    ) {
        let is_open = |reply: &Replied| !matches!(reply, Ok(Reply::Answered(_)));
        let open = leases.iter().zip(replies).filter(|(_, reply)| is_open(reply)).map(|(lease, _)| *lease);
        let Some(known) = self.sessions.get_mut(session) else { return };
        let mut answers = Vec::new();
        for lease in open {
            known.put_down(lease);
            answers.push(v1::Answer { lease: Some(lease.into()), kind: v1::AnswerKind::Retry.into() });
        }
        if !answers.is_empty() {
            outs.extend(known.send(session, v1::ToWorker { answers, ..v1::ToWorker::default() }));
        }
    }
}

/// `Err`: it changes nothing; how `apply` would answer it.
fn concerns(state: &State, report: &Command) -> Result<(), (LeaseKey, Stale)> {
    match report {
        Command::RecordResult(result) => state.concerns_result(result).map_err(|stale| (result.lease, stale)),
        Command::ConfirmRevoke(done) => state.concerns_revoke(done).map_err(|stale| (done.lease, stale)),
        _ => Ok(()),
    }
}

pub(super) fn count_invented(node: NodeOrd, leases: u64, outs: &mut Vec<Out>) {
    if leases > 0 {
        outs.push(Out::Invented { node, leases });
    }
}
