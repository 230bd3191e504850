//! Defines how an attempt ended, as it will be stored.

use grid_types::{Detail, Outcome, Reason, Revoked};

/// How an attempt ended, as it will be stored.
pub(crate) struct Report {
    pub outcome: Outcome,
    pub reason: Option<Reason>,
    pub error: Option<String>,
    pub duration_ms: u64,
    pub started_wall_ms: u64,
    pub output_tail: Vec<u8>,
    pub output_bytes: u64,
    pub detail: Option<Detail>,
}

/// What a worker can tell of a run.
#[derive(Default)]
pub(crate) struct Facts {
    pub duration_ms: u64,
    pub started_wall_ms: u64,
    pub output_tail: Vec<u8>,
    pub output_bytes: u64,
    pub error: Option<String>,
}

impl Report {
    /// Of a lease that was taken back. `ended`: `Cancelled` by that, otherwise before it; none if it never started. A
    /// definite outcome from before it is kept (W9): what was done need not be done again.
    pub fn revoked(why: Revoked, ended: Option<Outcome>, facts: Facts) -> Self {
        match ended {
            Some(before @ (Outcome::Success | Outcome::Failed | Outcome::TimedOut)) => Self::said(before, None, facts),
            _ => Self::revoked_at_agent(why, ended, facts),
        }
    }

    /// The same of an agent. It keeps no journal and is answered STALE_EPOCH, so its outcome changes nothing (I3): the
    /// reason names it, and a `once` step is not run again without `--rerun-once`.
    pub fn revoked_at_agent(why: Revoked, ended: Option<Outcome>, facts: Facts) -> Self {
        let outcome = match (ended, why) {
            // The worker died while it ran: that it is over does not tell how it ended (W9).
            (Some(Outcome::Unknown), _) => Outcome::Unknown,
            (_, Revoked::Cancel) => Outcome::Cancelled,
            (_, Revoked::JobTimeout) => Outcome::TimedOut,
        };
        Self::said(outcome, Some(Reason::Revoked { why, ended }), facts)
    }

    /// As somebody other than the task itself tells it.
    pub fn said(outcome: Outcome, reason: Option<Reason>, facts: Facts) -> Self {
        Self {
            outcome,
            reason,
            error: facts.error,
            duration_ms: facts.duration_ms,
            started_wall_ms: facts.started_wall_ms,
            output_tail: facts.output_tail,
            output_bytes: facts.output_bytes,
            detail: None,
        }
    }
}

/// The beginning of a text, at most so many bytes of it.
pub(crate) fn cut(mut text: String, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
