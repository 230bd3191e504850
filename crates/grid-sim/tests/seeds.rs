//! Random jobs under random faults, seed by seed: every job ends, and nothing runs twice. `GRID_SIM_SEEDS=FROM..TO` chooses others.

use grid_sim::{Faults, Simulation};
use grid_testkit::Dice;
use grid_types::JobId;
use serde_json::{Value, json};

const MINUTE_MS: u64 = 60_000;
const SEEDS: std::ops::Range<u64> = 0..300;

/// What a seed did.
#[derive(Default)]
struct Done {
    jobs: usize,
    runs: usize,
    problem: Option<String>,
    trace: Vec<String>,
}

fn task(dice: &mut Dice) -> Value {
    let retries = dice.roll(3);
    match dice.roll(3) {
        0 => json!({"backend": "ping", "action": "echo", "max_retries": retries}),
        1 => json!({"backend": "test", "action": "succeed", "max_retries": retries}),
        _ => json!({"backend": "test", "action": "record", "params": {"path": "/x"}, "max_retries": retries}),
    }
}

fn phase(dice: &mut Dice) -> Value {
    let mut phase = match dice.roll(2) {
        0 => task(dice),
        _ => {
            let tasks: Vec<Value> = (0..=dice.roll(3)).map(|_| task(dice)).collect();
            let atomic = dice.roll(3) == 0;
            json!({"tasks": tasks, "atomic": atomic})
        }
    };
    if dice.roll(3) == 0 {
        phase["concurrency"] = json!(1 + dice.roll(2));
    }
    if dice.roll(5) == 0 {
        phase["condition"] = json!("on_failure");
    }
    phase
}

fn job(dice: &mut Dice) -> Value {
    let phases: Vec<Value> = (0..=dice.roll(3)).map(|_| phase(dice)).collect();
    let strategy = *dice.pick(&["continue", "fail-fast"]);
    let mut job = json!({"target": "all", "strategy": strategy, "tasks": phases});
    if dice.roll(4) == 0 {
        job["timeout"] = json!("20s");
    }
    if dice.roll(3) == 0 {
        job["failure_tolerate"] = json!(dice.roll(3));
    }
    if dice.roll(3) == 0 {
        job["offline"] = json!("wait");
    }
    job
}

fn run(seed: u64, keep_trace: bool) -> Done {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let mut sim = Simulation::new(seed, 3, Faults::all());
    sim.trace = keep_trace.then(Vec::new);
    sim.run_until(MINUTE_MS, Simulation::is_connected);
    let mut submitted: Vec<JobId> = Vec::new();
    for number in 0..=dice.roll(3) {
        submitted.push(sim.submit(10 + number, &job(&mut dice)));
        sim.run_for(dice.roll(6_000));
        if dice.roll(4) == 0 {
            let job = *dice.pick(&submitted);
            sim.cancel(job);
        }
    }
    sim.run_for(20_000 + dice.roll(20_000));
    // The faults are over (I15).
    sim.faults = Faults { failing: sim.faults.failing, ..Faults::default() };
    let is_over = sim.run_until(30 * MINUTE_MS, Simulation::is_settled);
    let mut problems = sim.violations();
    if !is_over {
        problems.push(format!("jobs that have not ended: {:?}", sim.unfinished()));
    }
    let jobs = submitted.iter().filter(|job| sim.ended(**job).is_some()).count();
    let problem = (!problems.is_empty()).then(|| problems.join("\n"));
    Done { jobs, runs: sim.check.runs.len(), problem, trace: sim.trace.unwrap_or_default() }
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("GRID_SIM_SEEDS") else { return SEEDS };
    let (from, to) = text.split_once("..").expect("GRID_SIM_SEEDS=FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn i7_i15_every_job_ends_and_nothing_runs_twice_whatever_goes_wrong() {
    let (mut jobs, mut runs) = (0, 0);
    for seed in seeds() {
        let done = run(seed, false);
        if let Some(problem) = done.problem {
            let trace = run(seed, true).trace;
            let last = &trace[trace.len().saturating_sub(200)..];
            panic!("seed {seed}: {problem}\nthe last of {} events:\n{}", trace.len(), last.join("\n"));
        }
        jobs += done.jobs;
        runs += done.runs;
    }
    let count = usize::try_from(seeds().count() as u64).unwrap_or(usize::MAX);
    assert!(jobs >= count && runs >= 3 * count, "{jobs} jobs and {runs} runs prove little");
}

#[test]
fn a_seed_repeats_itself() {
    assert_eq!(run(4, true).trace, run(4, true).trace);
}
