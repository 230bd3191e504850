//! Turns what a worker reports into commands.

use grid_core::{ConfirmRevoke, RecordResult};
use grid_proto::v1;
use grid_types::limits::OUTPUT_TAIL_BYTES;
use grid_types::{NodeOrd, Outcome, SessionId};

pub(super) fn result_command(node: NodeOrd, session: SessionId, result: v1::LeaseResult) -> Option<RecordResult> {
    let outcome = result.status().outcome()?;
    Some(RecordResult {
        node,
        session,
        lease: result.lease?.into(),
        outcome,
        error: (!result.error.is_empty()).then_some(result.error),
        output_tail: end_of(result.output_tail),
        output_bytes: result.output_bytes,
        output_truncated: result.output_truncated,
        duration_ms: result.duration_ms,
        started_wall_ms: result.started_at_ms,
    })
}

pub(super) fn revoke_command(node: NodeOrd, session: SessionId, done: v1::RevokeDone) -> Option<ConfirmRevoke> {
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
        error: (!done.error.is_empty()).then_some(done.error),
    })
}

/// Never more of an output than the log should carry, whatever a worker sends.
pub(crate) fn end_of(mut output: Vec<u8>) -> Vec<u8> {
    output.split_off(output.len().saturating_sub(OUTPUT_TAIL_BYTES))
}
