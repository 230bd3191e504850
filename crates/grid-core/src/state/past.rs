//! Holds what a node's journal said about a job that a restore brought back (E2).
//!
//! A backup does not know what happened after it was taken. The workers' journals do, as far as they are whole. A node is
//! asked once per generation, and its answer is kept here until the job ends: the journal may be lost later, the answer is
//! not.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::{Attempt, JobEpoch, Outcome, StepIndex};
use minicbor::{Decode, Encode};

/// The answer of one node about one job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Past {
    /// A lease that is not named here has certainly not run on this node.
    #[n(0)]
    pub is_complete: bool,
    /// After this restore or an earlier one the journal could not tell. A later backup contains no more about it.
    #[n(3)]
    pub is_doubtful: bool,
    /// The newest known lease of each step.
    #[n(1)]
    pub ran: BTreeMap<StepIndex, Ran>,
    /// Steps that were decided since the restore. Their later attempts belong to this generation and need no journal.
    #[n(2)]
    pub decided: BTreeSet<StepIndex>,
}

/// A lease of the time after a backup, as a journal knows it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Ran {
    /// Its job epoch.
    #[n(0)]
    pub epoch: JobEpoch,
    /// Its attempt.
    #[n(1)]
    pub attempt: Attempt,
    /// What is known of it.
    #[n(2)]
    pub state: RanState,
}

/// What is known of a lease of the time after a backup.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RanState {
    /// It was outstanding in the backup, and no journal has said more.
    #[n(0)]
    Outstanding,
    /// The worker has it: it runs, or its result is still to be reported.
    #[n(1)]
    AtWorker,
    /// The worker has reported how it ended, or would have.
    #[n(2)]
    Ended(#[n(0)] RanEnd),
    /// The job has not reached the step, and its row says how it ended.
    #[n(3)]
    Recorded {
        /// How it ended.
        #[n(0)]
        outcome: Outcome,
        /// A failure that the job has counted (J1). It is counted when the job gets there.
        #[n(1)]
        is_counted: bool,
    },
}

/// How a lease ended, by the worker's journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RanEnd {
    /// How it ended.
    #[n(0)]
    pub outcome: Outcome,
    /// The error text of the task.
    #[n(1)]
    pub error: Option<String>,
    /// How long it ran.
    #[n(2)]
    pub duration_ms: u64,
    /// When it started, by the worker's wall clock.
    #[n(3)]
    pub started_wall_ms: u64,
    /// How many bytes of output there were.
    #[n(4)]
    pub output_bytes: u64,
}

impl Past {
    /// What is known of a lease of the time after the backup, as long as nothing of the step was decided since.
    pub(crate) fn known(&self, step: StepIndex) -> Option<&Ran> {
        self.ran.get(&step).filter(|_| !self.decided.contains(&step))
    }

    /// Whether everything that is known was decided since, or is in a row.
    pub(crate) fn is_used_up(&self) -> bool {
        let is_recorded = |ran: &Ran| matches!(ran.state, RanState::Recorded { .. });
        self.ran.iter().all(|(step, ran)| self.decided.contains(step) || is_recorded(ran))
    }

    /// How a step ended that the job has not reached, if its row says so.
    pub(crate) fn recorded(&self, step: StepIndex) -> Option<Outcome> {
        match self.known(step)?.state {
            RanState::Recorded { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    /// Keeps the newest lease of a step. A later report about the same lease replaces an earlier one.
    pub(crate) fn note(&mut self, step: StepIndex, ran: Ran) {
        let is_settled = |known: &Ran| {
            matches!(known.state, RanState::Recorded { .. }) || (known.epoch, known.attempt) > (ran.epoch, ran.attempt)
        };
        if !self.ran.get(&step).is_some_and(is_settled) {
            self.ran.insert(step, ran);
        }
    }
}
