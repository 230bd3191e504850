//! Answers `POST …/jobs/plan`: what a job would do if it were submitted now, and a hash that names exactly that.
//!
//! Not here: the hash itself and which nodes a target means (`grid-core`), which must be the same when the job starts.

use std::collections::BTreeMap;

use grid_core::{Rejection, State};
use grid_types::api::{PlanDoc, UnmatchedDoc, target_doc, tasks_doc};
use grid_types::job::JobSpec;

use crate::control::{PlanHash, Refusal, refused};
use crate::reply::NoReply;

pub(super) fn plan_doc(state: &State, spec: &JobSpec) -> Result<PlanDoc, Refusal> {
    let (nodes, hash) = grid_core::plan(state, spec, &declarations(spec));
    if nodes.is_empty() {
        let reason = format!("no known node matches {}", spec.aim());
        return Err(refused(NoReply::Rejected(Rejection::NoTarget(reason))));
    }
    let mut expected = Vec::with_capacity(nodes.len());
    let (mut offline, mut lacking) = (BTreeMap::new(), BTreeMap::<String, Vec<String>>::new());
    // A job may use one action in a thousand steps.
    let actions: BTreeMap<_, _> = spec
        .steps()
        .map(|(_, task)| ((&task.backend, &task.action), format!("{}/{}", task.backend, task.action)))
        .collect();
    for node in nodes.iter().filter_map(|node| state.nodes.get(node)) {
        expected.push(node.id.to_string());
        if !node.status.is_online() {
            // Nobody knows what it will offer when it is back.
            offline.insert(node.id.to_string(), node.status.to_string());
            continue;
        }
        for (_, name) in actions.iter().filter(|((backend, action), _)| !node.runs(backend, action)) {
            lacking.entry(name.clone()).or_default().push(node.id.to_string());
        }
    }
    let (unmatched, known) = grid_core::unmatched(state, spec, &nodes);
    expected.sort_unstable();
    lacking.values_mut().for_each(|nodes| nodes.sort_unstable());
    let rows = spec.step_count().saturating_mul(expected.len());
    Ok(PlanDoc {
        hash: PlanHash(hash).to_string(),
        target: target_doc(&spec.target),
        exclude: spec.exclude.as_ref().map(ToString::to_string),
        limit: spec.limit.as_ref().map(ToString::to_string),
        first: spec.first.as_ref().map(ToString::to_string),
        known: u64::try_from(known).unwrap_or(u64::MAX),
        unmatched: unmatched.into_iter().map(unmatched_doc).collect(),
        expected,
        offline,
        lacking,
        tasks: tasks_doc(&spec.phases),
        strategy: spec.strategy.word().to_owned(),
        failure_tolerate: spec.tolerance().to_string(),
        concurrency: spec.concurrency.as_ref().map(ToString::to_string),
        rows: u64::try_from(rows).unwrap_or(u64::MAX),
    })
}

fn unmatched_doc(group: grid_core::Unmatched) -> UnmatchedDoc {
    UnmatchedDoc {
        reason: group.reason,
        count: u64::try_from(group.count).unwrap_or(u64::MAX),
        nodes: group.examples.iter().map(ToString::to_string).collect(),
    }
}

/// Of the actions that a job uses, as this controller declares them.
pub(super) fn declarations(spec: &JobSpec) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for (_, task) in spec.steps() {
        let declared = grid_types::decl::backend(&task.backend).and_then(|backend| backend.action(&task.action));
        // A fixed table of plain values can always be written.
        hasher.update(&serde_json::to_vec(&declared).unwrap_or_default());
    }
    *hasher.finalize().as_bytes()
}
