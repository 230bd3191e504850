//! Plain HTTP agents while controllers die: W10 across leaders, on three real ones.

use std::time::Duration;

use grid_testkit::spec::{echo, job, record, record_slowly, with};
use grid_testkit::{Agent, Trio};
use serde_json::{Value, json};

use crate::agents::python_agent;

#[test]
fn w10_a_new_leader_gives_again_what_may_run_again_and_takes_the_result_of_the_rest() {
    let mut trio = Trio::start(&[]);
    let old = trio.wait_leader();
    let agent = Agent::new("edge-01");
    agent.told(&trio.api(&old), &json!({"slots": 4}));
    let lines = trio.record("lines");
    let once = trio.submit("once", &job("all", [record(&lines)]));
    let pure = trio.submit("pure", &job("all", [echo()]));
    let held = trio.submit("held", &job("all", [echo()]));
    let given: Vec<Value> = [&once, &pure, &held].map(|id| agent.wait_lease(&trio.api(&old), id)).to_vec();
    trio.server(&old).kill9();
    let new = trio.wait_other_leader(&old);
    let api = trio.api(&new);

    let leases = agent.leases(&api, &json!({"held": [given[2]["lease_id"]]}));
    assert_eq!(leases.len(), 1, "only what may run again and is not held: {leases:?}");
    assert_eq!(leases[0]["lease_id"], given[1]["lease_id"]);
    assert!(leases[0]["leader_epoch"].as_u64() > given[1]["leader_epoch"].as_u64(), "{leases:?}");
    assert_eq!(agent.report(&api, &leases[0], "success").status, 200);
    for lease in [&given[0], &given[2]] {
        let stale = agent.report(&api, lease, "success");
        assert_eq!((stale.error().as_str(), &stale.json()["stale"]), ("STALE_EPOCH", &json!("leader")), "{stale:?}");
        let renewed = with(lease.clone(), json!({"leader_epoch": stale.json()["leader_epoch"]}));
        assert_eq!(agent.report(&api, &renewed, "success").status, 200);
    }
    for id in [&once, &pure, &held] {
        assert_eq!(api.wait_ended(id).status(), "completed");
    }
    trio.server(&old).restart();
    trio.wait_equal();
}

#[test]
fn i7_the_agent_of_the_guide_runs_nothing_twice_while_leaders_are_killed() {
    let mut trio = Trio::start(&[]);
    let mut agent = python_agent("edge-01", &trio.urls(), &trio.path(""));
    trio.api("c1").wait_node("edge-01", "ready");
    let lines = trio.record("lines");
    let step = || with(record_slowly(&lines, "300ms"), json!({"timeout": "3s"}));
    let mut ids = Vec::new();
    for round in 0..5 {
        for number in 0..4 {
            ids.push(trio.submit(&format!("{round}-{number}"), &job("all", [step(), step()])));
        }
        let leader = trio.wait_leader();
        trio.server(&leader).kill9();
        trio.wait_other_leader(&leader);
        trio.server(&leader).restart();
    }
    let leader = trio.wait_leader();
    let mut completed = 0;
    for id in &ids {
        let ended = trio.api(&leader).wait_ended_within(id, Duration::from_secs(180));
        for step in 0..2 {
            let outcome = ended.outcome(step, "edge-01");
            // A leader that dies between handing out the lease and its answer leaves a step that no agent ran or knows of.
            assert!(["success", "unknown", "skipped"].contains(&outcome), "{ended}");
            let ran = lines.of(id).iter().filter(|(of, ..)| *of == step).count();
            assert!(if outcome == "success" { ran == 1 } else { ran <= 1 }, "{ran} runs: {ended}");
        }
        completed += usize::from(ended.status() == "completed");
    }
    assert_eq!(lines.duplicates(), [], "a once attempt ran twice");
    assert!(completed * 2 > ids.len(), "only {completed} of {} jobs were completed", ids.len());
    assert!(agent.is_running(), "it lived through it all");
    trio.wait_equal();
    agent.kill9();
}
