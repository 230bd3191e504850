//! Documents of jobs and their runs.

use std::collections::BTreeMap;

use grid_core::Tally;
use grid_store::{JobRow, ResultRow, RunRow};
use grid_types::Outcome;
use grid_types::api::{Counts, JobDoc, ResultDoc, RunDoc, StepDoc, target_doc, tasks_doc};

use super::results::result;
use crate::time::time_text;

/// Without the decision that it waits for, which only the state knows (`requests::waiting`).
pub fn job(row: JobRow) -> JobDoc {
    let steps = steps(&row);
    let spec = row.spec;
    let phase = usize::try_from(row.phase).unwrap_or(usize::MAX);
    JobDoc {
        id: row.id.to_string(),
        namespace: row.namespace.to_string(),
        labels: spec.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        target: target_doc(&spec.target),
        exclude: spec.exclude.as_ref().map(ToString::to_string),
        limit: spec.limit.as_ref().map(ToString::to_string),
        first: spec.first.as_ref().map(ToString::to_string),
        tasks: tasks_doc(&spec.phases),
        strategy: spec.strategy.word().to_owned(),
        timeout: spec.timeout.map(|timeout| timeout.to_string()),
        failure_tolerate: spec.tolerance().to_string(),
        offline: spec.offline.word().to_owned(),
        on_unknown: spec.on_unknown.word().to_owned(),
        concurrency: spec.concurrency.as_ref().map(ToString::to_string),
        status: row.status,
        reason: row.reason.as_ref().map(|reason| reason.text(row.id)),
        held: row.held,
        waiting_for: None,
        why: None,
        step: spec.first_step(phase).0,
        name: spec.name,
        expected: row.expected,
        expected_count: row.expected_count,
        skipped_offline: row.skipped_offline,
        owner: row.owner,
        job_epoch: row.epoch.0,
        leader_epoch: row.leader_epoch.wire(),
        counts: counts(&row.tallies),
        steps,
        results: row.results.map(by_step_and_node),
        run: row.run,
        runs: row.runs.map(|runs| runs.into_iter().map(run).collect()),
        created_at: time_text(row.created_wall_ms),
        updated_at: time_text(row.updated_wall_ms),
    }
}

pub fn run(row: RunRow) -> RunDoc {
    RunDoc {
        run: row.run,
        kind: row.kind,
        status: row.status,
        reason: row.reason.as_ref().map(|reason| reason.text(row.job)),
        counts: row.counts.into_iter().map(|(outcome, count)| (outcome.word().to_owned(), count)).collect(),
        started_at: row.started_wall_ms.map(time_text),
        ended_at: row.ended_wall_ms.map(time_text),
    }
}

fn steps(row: &JobRow) -> Vec<StepDoc> {
    // A job that has not started has no tallies yet.
    let tallies = row.tallies.chunks(1).chain(std::iter::repeat(&[] as &[Tally]));
    let steps = (0u32..).zip(row.spec.steps()).zip(tallies);
    let document = |((step, (phase, task)), tally): ((u32, (usize, &grid_types::job::Task)), &[Tally])| StepDoc {
        step,
        phase: u32::try_from(phase).unwrap_or(u32::MAX),
        backend: task.backend.clone(),
        action: task.action.clone(),
        counts: counts(tally),
    };
    steps.map(document).collect()
}

fn by_step_and_node(rows: Vec<ResultRow>) -> BTreeMap<String, BTreeMap<String, ResultDoc>> {
    let mut steps: BTreeMap<String, BTreeMap<String, ResultDoc>> = BTreeMap::new();
    for row in rows {
        steps.entry(row.step.to_string()).or_default().insert(row.node, result(row.result, row.job));
    }
    steps
}

/// Every word, zeros included.
fn counts(tallies: &[Tally]) -> Counts {
    let of = |outcome| tallies.iter().map(|tally| u64::from(tally.count(outcome))).sum();
    Outcome::ALL.into_iter().map(|outcome| (outcome.word().to_owned(), of(outcome))).collect()
}
