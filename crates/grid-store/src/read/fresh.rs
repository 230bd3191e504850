//! Builds the row of a job of which nothing has ended yet, from the state in memory.
//!
//! A submit is answered with the whole job, and at that moment everything about it is in the state: reading it
//! back from SQLite cost as much as storing it. As soon as a step has ended anywhere the rows say more than the state;
//! then there is no row here, and the caller reads it (`job`). A test compares the two.

use grid_core::{Job, State, Tally};
use grid_types::{JobRef, Name, NodeOrd, Outcome};

use super::job::StoredJob;
use super::view::of_cell;
use crate::rows::{JobRow, ResultRow, StepResult};
use crate::runs;

/// `None`: it is not there, or its rows are needed.
#[must_use]
pub fn fresh_job(state: &State, wanted: &JobRef) -> Option<JobRow> {
    let job = state.jobs.get(&wanted.id);
    let job = job.filter(|job| job.head.namespace == *wanted.namespace.name() && nothing_ended(job))?;
    // The owner of an older one is the leader that wrote it.
    if job.head.leader_epoch != state.meta.leadership.epoch {
        return None;
    }
    let stored = StoredJob {
        head: job.head.clone(),
        spec: job.spec.as_ref().clone(),
        expected: job.expected.clone(),
        scope: job.scope.clone(),
        live: true,
        owner: state.meta.leadership.leader.as_ref().map(Name::to_string),
        last_epoch: u32::MAX,
    };
    let name = |(position, node): (usize, &NodeOrd)| Some((state.nodes.get(node)?.id.to_string(), position));
    let mut named: Vec<(String, usize)> = job.expected.iter().enumerate().filter_map(name).collect();
    named.sort_unstable();
    let shows_rows = stored.shows_rows();
    let mut row = stored.into_row(Some(named.iter().map(|(name, _)| name.clone()).collect()));
    row.runs = Some(vec![runs::row(&job.head)]);
    if shows_rows {
        let offset_ms = state.meta.wall_ms.cast_signed().saturating_sub(state.meta.now_ms.cast_signed());
        row.results = Some(results(job, &named, offset_ms));
    }
    Some(row)
}

/// Of this run and of any before it.
fn nothing_ended(job: &Job) -> bool {
    let open = |tally: &Tally| {
        u64::from(tally.count(Outcome::Pending)) + u64::from(tally.count(Outcome::Running)) == tally.total()
    };
    job.head.run == 1
        && job.head.epoch == job.head.run_epoch
        && job.scope.done.is_empty()
        && job.head.tallies.iter().all(open)
}

fn results(job: &Job, named: &[(String, usize)], offset_ms: i64) -> Vec<ResultRow> {
    let mut rows = Vec::new();
    for (step, _) in (0u32..).zip(job.spec.steps()) {
        rows.extend(named.iter().map(|(name, position)| {
            let cell = job.cells.get(*position).filter(|cell| job.step_of(cell).0 == step);
            let result = cell.and_then(|cell| of_cell(cell, &job.head, offset_ms));
            let result = result.unwrap_or_else(|| StepResult::bare(Outcome::Pending, None));
            ResultRow { job: job.head.id, step, node: name.clone(), result }
        }));
    }
    rows
}
