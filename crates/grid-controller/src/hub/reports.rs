//! Takes up what a worker reports: results, finished revokes, accepted offers.
//!
//! Bounds: a report goes into the log only if the state waits for it (`grid_core`, `concerns_result`), with its error and output cut to
//! what is stored. Everything else is answered at once; a lease that nobody can have granted is counted.

use std::sync::Arc;

use grid_core::{Answer, Command, ConfirmRevoke, RecordResult, Reply, Stale, State};
use grid_proto::refusals::{Kind, Port, refuse_many};
use grid_proto::v1;
use grid_types::limits::{MAX_ERROR_BYTES, OUTPUT_TAIL_BYTES};
use grid_types::{LeaseKey, NodeOrd, Outcome, SessionId};

use super::FabricHub;
use crate::dispatch::final_answer;
use crate::machine::reported;
use crate::proposer::NoReply;

impl FabricHub {
    /// A worker holds these leases. Only those that are out to it have a deadline that could begin (W6).
    pub(super) fn accepted(&self, node: NodeOrd, leases: &[v1::Lease]) {
        if leases.is_empty() {
            return;
        }
        let now = self.shared.clock.mono_ms();
        let state = self.shared.state();
        let mut soft = self.shared.soft();
        let mut invented = 0;
        for lease in leases.iter().copied().map(LeaseKey::from) {
            if !state.is_out(node, lease) {
                invented += u64::from(state.is_invented(node, lease));
                continue;
            }
            let timeout_ms = state.jobs.get(&lease.job).and_then(|job| {
                let step = usize::try_from(lease.step.0).ok()?;
                job.spec.steps().nth(step).map(|(_, task)| task.timeout_ms)
            });
            if let Some(timeout_ms) = timeout_ms {
                soft.backstop.accepted(node, lease, timeout_ms, now);
            }
        }
        drop(soft);
        drop(state);
        count_invented(node, invented);
    }

    /// Notes what a worker reports, and leaves out what it has reported before: that is on its way into the log and will
    /// be answered. Under load a worker may lose patience, and load must not make more of itself. What the state does not
    /// wait for is answered here. One look at the state for all of them.
    pub(super) fn take_up(
        &self,
        node: NodeOrd,
        session: SessionId,
        results: Vec<v1::LeaseResult>,
        revokes_done: Vec<v1::RevokeDone>,
    ) -> Vec<Command> {
        if results.is_empty() && revokes_done.is_empty() {
            return Vec::new();
        }
        let results = results.into_iter().filter_map(|result| result_command(node, session, result));
        let revokes = revokes_done.into_iter().filter_map(|done| revoke_command(node, session, done));
        let reports = results.map(Command::RecordResult).chain(revokes.map(Command::ConfirmRevoke));
        let state = self.shared.state();
        let mut sessions = self.shared.sessions();
        let Some(known) = sessions.get_mut(session) else { return Vec::new() };
        let (mut taken, mut message, mut invented) = (Vec::new(), v1::ToWorker::default(), 0);
        for report in reports {
            if known.is_repeated(&report) {
                continue;
            }
            match concerns(&state, &report) {
                Ok(()) if known.take_up(&report) => taken.push(report),
                Ok(()) => {}
                Err((lease, stale)) => {
                    invented += u64::from(state.is_invented(node, lease));
                    final_answer(&state, &mut message, lease, Answer::Superseded(stale));
                }
            }
        }
        if message != v1::ToWorker::default() {
            known.send(message);
        }
        drop(sessions);
        drop(state);
        count_invented(node, invented);
        taken
    }

    /// Proposes what a worker reported. A final answer goes out when it is stored, together with whatever else that
    /// entry has for the worker (`dispatch`); only what is to be said again is answered from here (W4).
    pub(super) async fn record(&self, session: SessionId, reports: &[Command]) {
        let shared = Arc::clone(&self.shared);
        let leases: Vec<_> = reports.iter().filter_map(|report| Some(reported(report)?.1)).collect();
        let then = move |replies: Vec<Result<Reply, NoReply>>| {
            // A stale session, a lost leadership, a fate unknown: keep it and say it again.
            let is_open = |reply: &Result<Reply, NoReply>| !matches!(reply, Ok(Reply::Answered(_)));
            let open = leases.into_iter().zip(&replies).filter(|(_, reply)| is_open(reply));
            let open: Vec<LeaseKey> = open.map(|(lease, _)| lease).collect();
            if open.is_empty() {
                return;
            }
            let mut sessions = shared.sessions();
            let Some(session) = sessions.get_mut(session) else { return };
            open.iter().for_each(|lease| session.put_down(*lease));
            let retry = |lease: LeaseKey| v1::Answer { lease: Some(lease.into()), kind: v1::AnswerKind::Retry.into() };
            let answers = open.into_iter().map(retry).collect();
            session.send(v1::ToWorker { answers, ..v1::ToWorker::default() });
        };
        self.shared.proposer.propose_together(reports, then).await;
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

pub(super) fn count_invented(node: NodeOrd, leases: u64) {
    let what = format_args!("leases that were never granted, from the worker of node number {node}");
    refuse_many(Port::Grpc, Kind::InventedLease, leases, what);
}

fn result_command(node: NodeOrd, session: SessionId, result: v1::LeaseResult) -> Option<RecordResult> {
    let outcome = result.status().outcome()?;
    Some(RecordResult {
        node,
        session,
        lease: result.lease?.into(),
        outcome,
        error: error_of(result.error),
        output_tail: end_of(result.output_tail),
        output_bytes: result.output_bytes,
        output_truncated: result.output_truncated,
        duration_ms: result.duration_ms,
        started_wall_ms: result.started_at_ms,
    })
}

fn revoke_command(node: NodeOrd, session: SessionId, done: v1::RevokeDone) -> Option<ConfirmRevoke> {
    let ended: Option<Outcome> = done.ended().outcome();
    Some(ConfirmRevoke {
        node,
        session,
        lease: done.lease?.into(),
        ended,
        duration_ms: done.duration_ms,
        started_wall_ms: done.started_at_ms,
        output_tail: end_of(done.output_tail),
        output_bytes: done.output_bytes,
        error: error_of(done.error),
    })
}

/// Never more of an output than the log should carry, whatever a worker sends.
pub(crate) fn end_of(mut output: Vec<u8>) -> Vec<u8> {
    output.split_off(output.len().saturating_sub(OUTPUT_TAIL_BYTES))
}

/// The beginning of an error, as much of it as is stored; none of an empty one.
pub(crate) fn error_of(mut error: String) -> Option<String> {
    error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
    Some(error).filter(|error| !error.is_empty())
}
