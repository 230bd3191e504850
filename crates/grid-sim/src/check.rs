//! Checks what must hold over a whole simulation, from what ran and what was recorded alone.
//!
//! - I7: a `once` lease runs at most once; another attempt of its step only after one that ended `failed` (W8).
//! - Within one worker process no lease runs twice, whatever its effect class.
//! - W7: a worker runs one lease of a job at a time.
//! - I9: an attempt has one result; only `unknown` is replaced, once, by what the journal knows (W8). A result that says success
//!   or failed is that of a run that ended so.

use std::collections::BTreeMap;

use grid_core::{History, ResultRow};
use grid_types::{LeaseKey, NodeOrd, Outcome};
use grid_worker::engine::record::Status;

/// One start of a lease on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub machine: usize,
    /// Which process of the machine's worker started it.
    pub process: u64,
    pub lease: LeaseKey,
    pub is_once: bool,
    pub from_ms: u64,
    /// None: it still runs.
    pub to_ms: Option<u64>,
    /// None: it still runs, or its worker ended before it did.
    pub status: Option<Status>,
}

/// Everything that ran and was recorded, and what of it must not be.
#[derive(Debug, Default)]
pub struct Check {
    pub runs: Vec<Run>,
    pub results: Vec<ResultRow>,
    pub violations: Vec<String>,
}

impl Check {
    pub(crate) fn started(&mut self, run: Run) {
        for before in &self.runs {
            if before.machine != run.machine || before.lease.job != run.lease.job {
                continue;
            }
            let (old, new) = (before.lease, run.lease);
            if before.to_ms.is_none() {
                self.violations.push(format!("W7: {new:?} starts on machine {} while {old:?} runs", run.machine));
            }
            if old == new && (run.is_once || before.process == run.process) {
                self.violations.push(format!("I7: {new:?} runs a second time on machine {}", run.machine));
            }
            let is_same_step = old.step == new.step && old.job_epoch == new.job_epoch && old.attempt < new.attempt;
            if run.is_once && is_same_step && before.status != Some(Status::Failed) {
                let ended = before.status;
                self.violations.push(format!("W8: {new:?} runs after {old:?}, which ended {ended:?}"));
            }
        }
        self.runs.push(run);
    }

    pub(crate) fn ended(&mut self, machine: usize, lease: LeaseKey, at_ms: u64, status: Status) {
        let runs = self.runs.iter_mut();
        for run in runs.filter(|run| run.machine == machine && run.lease == lease && run.to_ms.is_none()) {
            (run.to_ms, run.status) = (Some(at_ms), Some(status));
        }
    }

    /// The worker's process is gone, and what it ran with it.
    pub(crate) fn killed(&mut self, machine: usize, at_ms: u64) {
        for run in self.runs.iter_mut().filter(|run| run.machine == machine && run.to_ms.is_none()) {
            run.to_ms = Some(at_ms);
        }
    }

    pub(crate) fn recorded(&mut self, history: &[History], machines: &BTreeMap<NodeOrd, usize>) {
        for row in history {
            let History::Result(row) = row else { continue };
            let lease = lease_of(row);
            let before = self.results.iter().rfind(|before| lease_of(before) == lease && before.node == row.node);
            if let Some(before) = before.filter(|before| before.outcome != Outcome::Unknown) {
                let (old, new) = (before.outcome, row.outcome);
                self.violations.push(format!("I9: {lease:?} of node {} is {old:?}, then {new:?}", row.node));
            }
            let status = match row.outcome {
                Outcome::Success => Some(Status::Success),
                // Also what was stopped, or could not be offered: then there is a reason.
                Outcome::Failed if row.reason.is_none() && row.error.as_deref() == Some(FAILED) => Some(Status::Failed),
                _ => None,
            };
            let ran =
                |run: &Run| Some(&run.machine) == machines.get(&row.node) && run.lease == lease && run.status == status;
            if status.is_some() && !self.runs.iter().any(ran) {
                self.violations.push(format!("a result without a run: {row:?}"));
            }
            self.results.push(row.clone());
        }
    }
}

/// The error of every lease that fails in a simulation.
pub(crate) const FAILED: &str = "it failed";

fn lease_of(row: &ResultRow) -> LeaseKey {
    LeaseKey { job: row.job, job_epoch: row.job_epoch, step: row.step, attempt: row.attempt }
}

#[cfg(test)]
mod tests {
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};
    use grid_worker::engine::record::Status;

    use super::{Check, Run};

    fn run(attempt: u32, process: u64, is_once: bool) -> Run {
        let lease = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(attempt) };
        Run { machine: 0, process, lease, is_once, from_ms: 0, to_ms: None, status: None }
    }

    /// The rule that a second run breaks after a first one that ended so.
    fn broken(first: Run, ended: Option<Status>, second: Run) -> Vec<String> {
        let mut check = Check::default();
        let lease = first.lease;
        check.started(first);
        match ended {
            Some(status) => check.ended(0, lease, 1, status),
            None => check.killed(0, 1),
        }
        check.started(second);
        check.violations.iter().map(|violation| violation[..2].to_owned()).collect()
    }

    #[test]
    fn i7_w7_w8_runs_that_must_not_be_are_found() {
        let nothing: [&str; 0] = [];
        assert_eq!(broken(run(1, 1, true), None, run(1, 2, true)), ["I7"]);
        assert_eq!(broken(run(1, 1, false), None, run(1, 2, false)), nothing, "another process, and not `once`");
        assert_eq!(broken(run(1, 1, false), Some(Status::Success), run(1, 1, false)), ["I7"]);
        assert_eq!(broken(run(1, 1, true), None, run(2, 2, true)), ["W8"]);
        assert_eq!(broken(run(1, 1, true), Some(Status::Failed), run(2, 1, true)), nothing);
        let mut check = Check::default();
        check.started(run(1, 1, false));
        check.started(run(2, 1, false));
        assert_eq!(check.violations.len(), 1, "W7: {:?}", check.violations);
    }
}
