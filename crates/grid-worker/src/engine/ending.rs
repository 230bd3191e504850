//! Decides how a worker ends.
//!
//! A worker that was asked to stop asks the leader to drain the node (DrainNode). Offers are taken until that is answered, because the leader may have
//! made them before it knew; then nothing new, and LeaveNode when nothing is outstanding any more. Without a leader it ends when only
//! answers are missing, after some patience: everything is in the journal, and is reported after the next start.

use grid_fabric::Leave;
use grid_types::SessionId;

use super::{Connection, Ending, Engine, Output};
use crate::engine::book::Now;

/// How long a worker that was asked to stop waits for answers to its reports, and if it was asked twice.
const ANSWER_PATIENCE_MS: u64 = 30_000;
const SHORT_PATIENCE_MS: u64 = 5_000;

/// What a worker was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    No,
    /// Finish what is outstanding, then leave.
    Drain,
    /// Stop what runs, report it, then leave.
    Now,
}

/// How far the leader knows that this node takes nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    No,
    Asked,
    Done,
    Leaving,
}

impl Engine {
    pub(super) fn stop(&mut self, stop: Stop, now: Now) {
        tracing::info!(?stop, outstanding = self.book.outstanding_count(), "asked to stop");
        self.stop = stop;
        if stop == Stop::Now {
            self.book.stop_all(now);
        }
    }

    pub(super) fn drained(&mut self, session: SessionId, problem: Option<&str>) {
        let Some(open) = self.open_session(session).filter(|open| open.drain == Drain::Asked) else { return };
        open.drain = Drain::Done;
        if let Some(problem) = problem {
            tracing::warn!("the controller did not drain this node: {problem}");
        }
        self.book.refuse_offers();
    }

    pub(super) fn left(&mut self, session: SessionId, problem: Option<&str>) {
        if self.open_session(session).is_none_or(|open| open.drain != Drain::Leaving) {
            return;
        }
        if let Some(problem) = problem {
            tracing::warn!("the controller did not record that this node leaves: {problem}");
        }
        self.end(Ending::Done);
    }

    pub(super) fn end_or_drain(&mut self, now: Now) {
        if self.stop == Stop::No {
            return;
        }
        let drain = match &mut self.connection {
            Connection::Open(open) => &mut open.drain,
            // A stream that is being opened is waited for: its leader has to be notified.
            Connection::Opening(_) | Connection::Ended => return,
            Connection::Pausing { .. } | Connection::Registering => {
                if self.book.outstanding_count() == 0 || self.is_out_of_patience(now) {
                    self.end(Ending::Done);
                }
                return;
            }
        };
        match drain {
            Drain::No => {
                *drain = Drain::Asked;
                self.outputs.push(Output::Drain);
            }
            Drain::Asked | Drain::Leaving => {}
            Drain::Done => {
                let leave = match self.book.outstanding_count() {
                    0 => Leave::NothingOutstanding,
                    _ => Leave::LeasesOutstanding,
                };
                if leave == Leave::LeasesOutstanding && !self.is_out_of_patience(now) {
                    return;
                }
                if let Connection::Open(open) = &mut self.connection {
                    open.drain = Drain::Leaving;
                    self.outputs.push(Output::Leave(leave));
                }
            }
        }
    }

    /// Nothing runs, and the answers do not come. They will after the next start: everything is in the journal.
    fn is_out_of_patience(&mut self, now: Now) -> bool {
        if self.book.running_count() > 0 {
            self.idle_since_ms = None;
            return false;
        }
        self.idle_since_ms.get_or_insert(now.mono_ms);
        let is_out = self.out_of_patience_at_ms().is_some_and(|at_ms| now.mono_ms >= at_ms);
        if is_out && self.book.active_count() > 0 {
            // No leader allows them to start (W3). That they did not is journalled before this process ends.
            self.book.stop_all(now);
            return false;
        }
        if is_out {
            tracing::warn!(
                outstanding = self.book.outstanding_count(),
                "ends without answers; they are reported after the next start"
            );
        }
        is_out
    }

    pub(super) fn out_of_patience_at_ms(&self) -> Option<u64> {
        let patience_ms = if self.stop == Stop::Now { SHORT_PATIENCE_MS } else { ANSWER_PATIENCE_MS };
        self.idle_since_ms.map(|since_ms| since_ms + patience_ms)
    }
}
