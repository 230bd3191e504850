//! Pauses dispatch (E8): under `grid node` a leader dispatches nothing while a worker runs on its own machine.
//!
//! ```text
//!   paused <--pause------------------------- open
//!     \--the local worker is gone: LeaveNode through the log--^
//! ```
//!
//! A paused leader is LEADER in everything else: it accepts submits, registers workers and commits results, also those of its own
//! worker, which has to report what it finished. What `apply` decides meanwhile is in the state and is offered when the gate
//! opens: every worker is asked which leases it has (W5).
//! Not here: who ends the worker and knows that it is gone (the supervisor, in `grid`); what a leader does that stays paused because
//! the worker's folder is refused (`refused_folder`).
//! The controller leaves in the worker's place, because a worker that is asked to end just when its leader has died knows
//! no leader to report to, and jobs would wait for it until it counts as dead.

use std::sync::atomic::{AtomicBool, Ordering};

use grid_types::NodeId;
use tokio::sync::watch;

/// A worker that has ended on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalWorker {
    pub node: NodeId,
    /// Its journal says that nothing ran, or waited for an answer, when it ended.
    pub nothing_outstanding: bool,
}

#[derive(Debug, Clone)]
pub enum Wish {
    /// With the reason, if it is another than that a worker may run on this machine.
    Paused(Option<String>),
    Open(Option<LocalWorker>),
}

pub struct Gate {
    is_open: AtomicBool,
    wish: watch::Sender<Wish>,
}

impl Gate {
    /// Offers go out at once.
    pub fn opened() -> Self {
        Self { is_open: AtomicBool::new(true), wish: watch::Sender::new(Wish::Open(None)) }
    }

    /// A worker may run on this machine.
    pub fn paused() -> Self {
        Self { is_open: AtomicBool::new(false), wish: watch::Sender::new(Wish::Paused(None)) }
    }

    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Nothing goes out any more when this returns.
    pub fn pause(&self, problem: Option<String>) {
        self.wish.send_modify(|wish| {
            *wish = Wish::Paused(problem);
            self.is_open.store(false, Ordering::Release);
        });
    }

    /// What is wanted of it, now and at every change.
    pub fn wishes(&self) -> watch::Receiver<Wish> {
        self.wish.subscribe()
    }

    /// Why it is not known whether a worker runs on this machine.
    pub fn problem(&self) -> Option<String> {
        match &*self.wish.borrow() {
            Wish::Paused(problem) => problem.clone(),
            Wish::Open(_) => None,
        }
    }

    /// It opens when the state knows that the worker is gone.
    pub fn release(&self, gone: LocalWorker) {
        self.wish.send_replace(Wish::Open(Some(gone)));
    }

    /// Whether this opened it: it may have been paused again meanwhile, or be open.
    pub fn open(&self) -> bool {
        let mut opened = false;
        // Under the lock of the wish, so that no `pause` is undone.
        self.wish.send_if_modified(|wish| {
            opened = matches!(wish, Wish::Open(_)) && !self.is_open.swap(true, Ordering::AcqRel);
            false
        });
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, LocalWorker};

    fn gone() -> LocalWorker {
        LocalWorker { node: "c1-worker".parse().unwrap(), nothing_outstanding: true }
    }

    #[test]
    fn e8_a_gate_that_is_paused_again_before_it_opened_stays_shut() {
        let gate = Gate::paused();
        assert!(!gate.open() && !gate.is_open(), "nobody released it");
        gate.release(gone());
        assert!(!gate.is_open(), "the log does not know yet");
        gate.pause(None);
        assert!(!gate.open() && !gate.is_open());
        gate.release(gone());
        assert!(gate.open() && gate.is_open());
        assert!(!gate.open(), "opened once");
        gate.pause(Some("refused".to_owned()));
        assert_eq!((gate.is_open(), gate.problem().as_deref()), (false, Some("refused")));
    }

    #[test]
    fn a_controller_without_a_supervisor_dispatches_at_once() {
        assert!(Gate::opened().is_open());
    }
}
