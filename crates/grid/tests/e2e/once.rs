//! A `once` step runs at most once, whatever happens to the worker in the middle (W3, W8, I7).

use grid_testkit::spec::{job, record_slowly, sleep, with};
use grid_testkit::{Cluster, Job};
use serde_json::json;

use crate::staging::QUICK_LIVENESS;

fn one_node() -> Cluster {
    Cluster::start(&[("web-01", "--groups web")])
}

/// A task that runs longer than a usual ack timeout runs once.
#[test]
fn a_task_of_45_seconds_runs_exactly_once() {
    let cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let long = with(record_slowly(&lines, "45s"), json!({"timeout": "5m"}));
    let id = api.submit(&job("all", [long]));
    let ended = api.wait_ended_within(&id, std::time::Duration::from_secs(150));
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.attempts(0, "web-01"), 1, "{ended}");
    assert!(ended.duration_ms(0, "web-01") >= 45_000, "{ended}");
    assert_eq!(lines.of(&id), [(0, "web-01".to_owned(), 1)]);
}

#[test]
fn w3_a_once_step_is_unknown_after_its_worker_was_killed() {
    let mut cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let retried = with(record_slowly(&lines, "250s"), json!({"max_retries": 3}));
    let id = api.submit(&job("all", [retried]));
    lines.wait_of(&id, 1);
    cluster.worker("web-01").kill9_tree();
    cluster.worker("web-01").restart();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "failed", "unknown counts as failed: {ended}");
    assert_eq!(ended.outcome(0, "web-01"), "unknown", "{ended}");
    assert_eq!(ended.attempts(0, "web-01"), 1, "W8: never retried by itself: {ended}");
    assert_eq!(lines.of(&id), [(0, "web-01".to_owned(), 1)]);
}

#[test]
fn w3_an_idempotent_step_runs_again_after_its_worker_was_killed() {
    let mut cluster = one_node();
    let api = cluster.api();
    let id = api.submit(&job("all", [sleep("2s")]));
    let running = |j: &Job| j.outcome(0, "web-01") == "running";
    api.wait_job(&id, "running", running);
    cluster.worker("web-01").kill9_tree();
    cluster.worker("web-01").restart();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.outcome(0, "web-01"), "success", "{ended}");
    assert!(ended.duration_ms(0, "web-01") >= 2000, "the run that counts was whole: {ended}");
}

#[test]
fn the_leases_of_a_dead_node_become_unknown() {
    let workers = [("web-01", "--groups web"), ("web-02", "--groups web"), ("web-03", "--groups web")];
    let mut cluster = Cluster::start_with(QUICK_LIVENESS, &workers);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let slow = with(record_slowly(&lines, "250s"), json!({"max_retries": 3}));
    let once = api.submit(&job("node:web-03", [slow]));
    let idempotent = api.submit(&job("node:web-03", [sleep("250s")]));
    lines.wait_of(&once, 1);
    api.wait_job(&idempotent, "running", |j| j.outcome(0, "web-03") == "running");
    cluster.worker("web-03").kill9_tree();

    api.wait_node("web-03", "dead");
    for id in [&once, &idempotent] {
        let ended = api.wait_ended(id);
        assert_eq!(ended.status(), "failed", "{ended}");
        assert_eq!(ended.outcome(0, "web-03"), "unknown", "{ended}");
    }
    assert_eq!(lines.of(&once).len(), 1);

    // V3: it registers again and is a node like any other.
    cluster.worker("web-03").restart();
    api.wait_node("web-03", "ready");
    let again = api.submit(&job("node:web-03", [sleep("1ms")]));
    assert_eq!(api.wait_ended(&again).status(), "completed");
    assert_eq!(api.job(&once).outcome(0, "web-03"), "unknown", "I4: an ended job stays as it is");
    assert_eq!(lines.of(&once).len(), 1);
}
