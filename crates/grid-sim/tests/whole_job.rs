//! The proof that the engines are pure: a whole job on one thread, twice with the same trace.

use grid_sim::{Faults, Restart, Simulation, Way};
use grid_types::{JobStatus, Outcome};
use serde_json::json;

const MINUTE_MS: u64 = 60_000;

/// Three workers; a lost offer, a repeated one, a worker that restarts while an idempotent step runs and one while a `once` step does,
/// and a change of leader while results are on their way. Returns everything that happened.
fn whole_job(seed: u64) -> Vec<String> {
    let mut sim = Simulation::new(seed, 3, Faults::default());
    sim.trace = Some(Vec::new());
    assert!(sim.run_until(MINUTE_MS, Simulation::is_connected), "three workers register");
    sim.lose_next(0, Way::Down);
    sim.repeat_next(1, Way::Down);
    let job = sim.submit(
        7,
        &json!({
            "target": "all",
            "strategy": "continue",
            "tasks": [
                {"backend": "ping", "action": "echo"},
                {"backend": "test", "action": "succeed"},
                {"backend": "test", "action": "record", "params": {"path": "/x"}},
                {"backend": "ping", "action": "echo"},
            ],
        }),
    );
    assert!(sim.run_until(MINUTE_MS, |sim| sim.runs(job, 1, 2)), "the idempotent step runs on w3");
    sim.restart(2, Restart::Process);
    assert!(sim.run_until(MINUTE_MS, |sim| sim.runs(job, 2, 1)), "the once step runs on w2");
    sim.restart(1, Restart::Process);
    // Its message is lost, and the result is reported again.
    sim.lose_next(0, Way::Up);
    let in_flight =
        |sim: &Simulation| sim.uncommitted() > 0 && (sim.starts(job, 2, 0) > 0 || sim.starts(job, 2, 2) > 0);
    assert!(sim.run_until(MINUTE_MS, in_flight), "a result is on its way");
    sim.change_leader();
    assert!(sim.run_until(10 * MINUTE_MS, Simulation::is_settled), "{:#?}", sim.trace);

    assert_eq!(sim.violations(), Vec::<String>::new());
    assert_eq!(sim.ended(job), Some(JobStatus::Completed));
    assert_eq!((sim.outcome(job, 1, 2), sim.starts(job, 1, 2)), (Some(Outcome::Success), 2), "idempotent: runs again");
    assert_eq!((sim.outcome(job, 2, 1), sim.starts(job, 2, 1)), (Some(Outcome::Unknown), 1), "once: unknown");
    for machine in [0, 2] {
        assert_eq!((sim.outcome(job, 2, machine), sim.starts(job, 2, machine)), (Some(Outcome::Success), 1));
        assert_eq!((sim.outcome(job, 3, machine), sim.starts(job, 3, machine)), (Some(Outcome::Success), 1));
    }
    sim.trace.unwrap_or_default()
}

#[test]
fn issue15_a_whole_job_runs_twice_with_the_same_trace() {
    let (first, second) = (whole_job(1), whole_job(1));
    assert!(first.len() > 50, "{first:#?}");
    assert_eq!(first, second);
}

#[test]
fn another_seed_gives_another_trace_and_the_same_outcome() {
    assert_ne!(whole_job(2), whole_job(3));
}
