//! Phases for tests, in few words.

use std::collections::BTreeMap;

use grid_types::decl::builtin;
use grid_types::job::{Concurrency, Condition, Phase, Task};

pub(crate) fn leaf(backend: &str, action: &str) -> Phase {
    let decl = builtin().iter().find(|b| b.name == backend).unwrap().action(action).unwrap();
    Phase::leaf(Task {
        backend: backend.to_owned(),
        action: action.to_owned(),
        params: BTreeMap::new(),
        condition: Condition::Always,
        max_retries: 0,
        timeout: None,
        timeout_ms: 300_000,
        effect: decl.effect,
    })
}

pub(crate) fn retrying(backend: &str, action: &str, max_retries: u32) -> Phase {
    let mut phase = leaf(backend, action);
    phase.tasks[0].max_retries = max_retries;
    phase
}

pub(crate) fn when(condition: Condition, phase: Phase) -> Phase {
    Phase { condition, ..phase }
}

pub(crate) fn rolling(concurrency: u32, phase: Phase) -> Phase {
    Phase { concurrency: Some(Concurrency::Nodes(concurrency)), ..phase }
}

pub(crate) fn first(nodes: u32, phase: Phase) -> Phase {
    Phase { first: Some(Concurrency::Nodes(nodes)), ..phase }
}

pub(crate) fn confirmed(phase: Phase) -> Phase {
    Phase { confirm: true, ..phase }
}

/// The leaves' conditions become those of the sub-steps.
pub(crate) fn pipeline(phases: Vec<Phase>) -> Phase {
    let tasks = phases.into_iter().map(|mut phase| Task { condition: phase.condition, ..phase.tasks.remove(0) });
    Phase::pipeline(tasks.collect())
}

pub(crate) fn cleanup(phases: Vec<Phase>) -> Phase {
    when(Condition::OnFailure, pipeline(phases))
}
