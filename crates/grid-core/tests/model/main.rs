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
use grid_types::job::{JobSpec, Phase, Tolerance};

use dice::{Dice, Flavour};
use play::Player;
use share::Budget;

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
    for seed in seeds(1_000) {
        let mut dice = Dice::new(!seed);
        let flavour = Flavour {
            nodes: 1 + dice.roll(5),
            gates: dice.one_in(2),
            timeouts: dice.one_in(2),
            lacking: dice.one_in(3),
        };
        let mut player = Player::new(seed, flavour);
        player.submit();
        player.rig.agree();
        for _ in 0..5 + seed % 100 {
            player.step();
        }
        player.finish();
    }
}

/// A fan-out as wide as it gets here: windows, budgets and barriers over 300 nodes.
#[test]
fn model_agrees_on_wide_jobs() {
    for seed in seeds(3) {
        let mut player = Player::new(seed, Flavour { nodes: 300, gates: false, timeouts: false, lacking: false });
        player.submit();
        player.rig.agree();
        for _ in 0..12 {
            player.wide_step();
        }
        player.finish();
    }
}

/// Interrupted + resumed = one uninterrupted run.
#[test]
fn resume_runs_exactly_what_is_missing() {
    for seed in seeds(500) {
        resume::interrupted_and_resumed_is_one_uninterrupted_run(seed);
    }
}

#[test]
fn j1_tolerance_is_exact_whatever_the_share_and_the_size() {
    let mut dice = Dice::new(1);
    let exceeded = |text: &str, failed, expected| {
        let share = Tolerance::Share(text.parse().unwrap());
        assert_eq!(share.to_string(), text);
        let model = Budget::read(text).is_exceeded(failed, expected);
        assert_eq!(share.is_exceeded(failed, expected), model, "{failed} of {expected} with {text}");
        model
    };
    assert!(exceeded("0%", 1, 300) && exceeded("0", 1, 300) && exceeded("0.33%", 1, 300));
    assert!(!exceeded("33.3%", 333, 1_000) && exceeded("33.3%", 334, 1_000) && !exceeded("100%", 300, 300));
    assert!(!exceeded("0.1", 1, 10) && exceeded("0.1", 2, 10));
    for _ in 0..100_000 {
        let text = dice.share_text();
        let expected = 1 + dice.roll(2_000_000) as usize;
        // Around the border, where rounding would show.
        let Budget::Share { numerator, denominator } = Budget::read(&text) else { unreachable!() };
        let border = usize::try_from(numerator * expected as u128 / denominator).unwrap();
        for failed in border.saturating_sub(1)..=(border + 1).min(expected) {
            exceeded(&text, failed, expected);
        }
        let nodes = dice.roll(1_000);
        for failed in [nodes.saturating_sub(1), nodes, nodes + 1] {
            let tolerance = Tolerance::Nodes(nodes);
            assert_eq!(tolerance.is_exceeded(failed as usize, expected), failed > nodes);
        }
    }
}

/// A job in one line.
fn brief(spec: &JobSpec) -> String {
    let phase = |phase: &Phase| {
        let tasks = phase.tasks.iter().map(|task| {
            let retries = if task.max_retries > 0 { format!(" retries {}", task.max_retries) } else { String::new() };
            let rare = if task.action == dice::RARE { "rare " } else { "" };
            format!("{rare}{:?} {}{retries}", task.effect, task.condition.word())
        });
        let tasks: Vec<_> = tasks.collect();
        let window = phase.concurrency.as_ref().map_or(String::new(), |n| format!(" window {n}"));
        let confirm = if phase.confirm { " confirm" } else { "" };
        let atomic = if phase.atomic { " atomic" } else { "" };
        let first = phase.first.as_ref().map_or(String::new(), |n| format!(" first {n}"));
        let nodes = phase.nodes.map_or(String::new(), |nodes| format!(" nodes {nodes:?}"));
        format!("\n    {}{nodes}{atomic}{window}{first}{confirm} [{}]", phase.condition.word(), tasks.join(", "))
    };
    let phases: Vec<_> = spec.phases.iter().map(phase).collect();
    format!(
        "{} tolerate {} offline {} on_unknown {} window {:?} timeout {} ms{}",
        spec.strategy.word(),
        spec.tolerance(),
        spec.offline.word(),
        spec.on_unknown.word(),
        spec.concurrency.as_ref().map(ToString::to_string),
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
