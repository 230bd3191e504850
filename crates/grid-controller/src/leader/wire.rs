//! Converts between commands and wire messages: builds commands from reports, and messages from offers and answers.

use grid_core::{Answer, Command, ConfirmRevoke, Offer, RecordResult, Reply, Stale, State};
use grid_proto::v1;
use grid_types::job::Task;
use grid_types::limits::{MAX_ERROR_BYTES, OUTPUT_TAIL_BYTES};
use grid_types::{Detail, JobEpoch, JobId, LeaseKey, NodeOrd, Outcome, SessionId};
use prost::Message;

use crate::reply::NoReply;

/// An offer as the wire carries it.
pub fn offer_message(offer: &Offer) -> Option<v1::Offer> {
    let task = offer.task()?;
    Some(v1::Offer {
        lease: Some(offer.lease.into()),
        session: offer.session.0,
        backend: task.backend.clone(),
        action: task.action.clone(),
        params: v1::Offer::params_of(&task.params),
        effect: v1::EffectClass::of(task.effect).into(),
        timeout_ms: task.timeout_ms,
        restored: offer.restored,
        run: offer.run,
    })
}

/// The size of an offer of this task, whatever its lease.
pub fn offer_bytes(task: &Task) -> usize {
    let lease = Some(v1::Lease { job_id: u64::MAX, job_epoch: u32::MAX, step: u32::MAX, attempt: u32::MAX });
    let offer = v1::Offer {
        lease,
        session: u64::MAX,
        backend: task.backend.clone(),
        action: task.action.clone(),
        params: v1::Offer::params_of(&task.params),
        effect: v1::EffectClass::of(task.effect).into(),
        timeout_ms: task.timeout_ms,
        restored: true,
        run: u32::MAX,
    };
    offer.encoded_len()
}

/// Adds a final answer (W4) to a message.
pub fn final_answer(state: &State, message: &mut v1::ToWorker, lease: LeaseKey, answer: Answer) {
    let job = lease.job;
    message.answers.push(v1::Answer { lease: Some(lease.into()), kind: kind_of(answer).into() });
    // The job has ended, and its own Forget may have gone out before this answer.
    if !state.jobs.contains_key(&job) && message.forgets.last().is_none_or(|forget| forget.job_id != job.0) {
        let epoch = state.stubs.get(&job).map_or(lease.job_epoch, |stub| stub.epoch);
        message.forgets.push(forget(job, epoch));
    }
}

/// Names the epoch in which the job ended: if it is resumed before this arrives, its new leases are not meant.
pub fn forget(job: JobId, epoch: JobEpoch) -> v1::Forget {
    v1::Forget { job_id: job.0, job_epoch: epoch.0 }
}

fn kind_of(answer: Answer) -> v1::AnswerKind {
    match answer {
        Answer::Committed => v1::AnswerKind::Committed,
        Answer::Superseded(Stale::Job) => v1::AnswerKind::SupersededJob,
        Answer::Superseded(Stale::Attempt) => v1::AnswerKind::SupersededAttempt,
        Answer::Superseded(Stale::Settled) => v1::AnswerKind::SupersededSettled,
    }
}

pub fn begin_kind(reply: Result<&Reply, &NoReply>) -> v1::BeginKind {
    match reply {
        Ok(Reply::Begun { granted: true }) => v1::BeginKind::Granted,
        Ok(Reply::Begun { granted: false }) => v1::BeginKind::Refused,
        Ok(Reply::Withdrawn) => v1::BeginKind::Withdrawn,
        // A stale session, a lost leadership, a fate unknown: nothing is decided.
        Ok(_) | Err(_) => v1::BeginKind::AskAgain,
    }
}

/// What a worker's report is about.
pub fn reported(command: &Command) -> Option<(NodeOrd, LeaseKey)> {
    match command {
        Command::RecordResult(result) => Some((result.node, result.lease)),
        Command::ConfirmRevoke(done) => Some((done.node, done.lease)),
        Command::Fenced(fenced) => reported(&fenced.command),
        _ => None,
    }
}

pub fn result_command(node: NodeOrd, session: SessionId, result: v1::LeaseResult) -> Option<RecordResult> {
    let outcome = result.status().outcome()?;
    let detail = Detail { exit_code: result.exit_code, signal: result.signal, changed: result.changed };
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
        detail: detail.known(),
    })
}

pub fn revoke_command(node: NodeOrd, session: SessionId, done: v1::RevokeDone) -> Option<ConfirmRevoke> {
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
pub fn end_of(mut output: Vec<u8>) -> Vec<u8> {
    output.split_off(output.len().saturating_sub(OUTPUT_TAIL_BYTES))
}

/// The beginning of an error, as much of it as is stored; none of an empty one.
pub fn error_of(mut error: String) -> Option<String> {
    error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
    Some(error).filter(|error| !error.is_empty())
}
