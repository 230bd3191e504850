//! A model of the job semantics, written from the documents alone, walks beside the state machine: random jobs, random
//! nodes, random events in a random order. They have to agree after every single entry about what is out, what is decided and
//! how, and nothing may wait without a reason.
//!
//! A failure prints its seed and what happened. `MODEL_SEED=N` runs one seed, `MODEL_RUNS=N` more of them.
//! Not here: what the invariants of the state alone can show (`grid-core::random_walk`), anything outside `apply`.

mod cluster;
mod dice;
mod job;
mod play;
mod resume;
mod rig;
mod share;

use grid_core::Command;
use grid_types::job::{JobSpec, Phase};

use dice::{Dice, Flavour};
use play::Player;

/// The seeds to run, or the one that was asked for.
fn seeds(runs: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MODEL_RUNS").unwrap_or(runs),
    }
}

#[test]
fn model_agrees_on_random_jobs_and_random_events() {
    for seed in seeds(3_000) {
        let mut dice = Dice::new(!seed);
        let flavour = Flavour { nodes: 1 + dice.roll(5), gates: dice.one_in(2), timeouts: dice.one_in(2) };
        let mut player = Player::new(seed, flavour);
        player.submit();
        player.rig.agree();
        for _ in 0..5 + seed % 100 {
            player.step();
        }
        player.finish();
    }
}

/// A job in one line.
fn brief(spec: &JobSpec) -> String {
    let phase = |phase: &Phase| {
        let tasks = phase.tasks.iter().map(|task| {
            let retries = if task.max_retries > 0 { format!(" retries {}", task.max_retries) } else { String::new() };
            format!("{:?} {}{retries}", task.effect, task.condition.word())
        });
        let tasks: Vec<_> = tasks.collect();
        let window = phase.concurrency.map_or(String::new(), |n| format!(" window {n}"));
        let confirm = if phase.confirm { " confirm" } else { "" };
        format!("\n    {}{window}{confirm} [{}]", phase.condition.word(), tasks.join(", "))
    };
    let phases: Vec<_> = spec.phases.iter().map(phase).collect();
    format!(
        "{} tolerate {} offline {} on_unknown {} timeout {} ms{}",
        spec.strategy.word(),
        spec.tolerance(),
        spec.offline.word(),
        spec.on_unknown.word(),
        spec.timeout_ms(),
        phases.concat()
    )
}

fn short(command: &Command) -> String {
    match command {
        Command::RecordResult(r) => format!("result {} of {} {} session {}", r.lease, r.node, r.outcome, r.session),
        Command::ConfirmRevoke(r) => format!("revoke confirmed {} of {}", r.lease, r.node),
        other => format!("{other:?}"),
    }
}
