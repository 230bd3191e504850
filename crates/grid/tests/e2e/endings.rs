//! Timeouts and cancels: the outcome is reported, and no process of the task survives (W6, W9).

use grid_testkit::procfs::{Seen, survivors};
use grid_testkit::spec::{job, pipeline, record, record_slowly, sleep, tree, with};
use grid_testkit::{Cluster, LIMIT, ensure, wait_until};
use serde_json::json;

use crate::staging::{at, sorted_places};

fn one_node() -> Cluster {
    Cluster::start_with("--max-concurrent 1", &[("web-01", "--groups web")])
}

/// Waits until the worker has a child with its own child, and returns all processes below the worker.
fn running_tree(cluster: &mut Cluster) -> Vec<Seen> {
    let worker = cluster.worker("web-01").process();
    wait_until("a task with child and grandchild", LIMIT, || {
        let below = worker.descendants();
        ensure(below.len() >= 2, format!("{below:?}"))?;
        Ok(below)
    })
}

fn all_gone(watched: &[Seen]) {
    wait_until("the end of every process of the task", LIMIT, || {
        let alive = survivors(watched);
        ensure(alive.is_empty(), format!("{alive:?}"))
    });
}

#[test]
fn w6_a_task_timeout_ends_the_whole_process_tree() {
    let mut cluster = one_node();
    let api = cluster.api();
    let id = api.submit(&job("all", [with(tree("250s"), json!({"timeout": "3s"}))]));
    let watched = running_tree(&mut cluster);
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "failed", "{ended}");
    assert_eq!(ended.outcome(0, "web-01"), "timed_out", "{ended}");
    assert!(ended.duration_ms(0, "web-01") >= 3000, "{ended}");
    all_gone(&watched);
    let left = cluster.worker("web-01").process().descendants();
    assert_eq!(left, [], "nothing was started in their place");
}

#[test]
fn w6_a_short_timeout_inside_a_pipeline_counts() {
    let cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let steps = [with(sleep("250s"), json!({"timeout": "1s"})), record(&lines)];
    let id = api.submit(&job("all", [pipeline(steps)]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(0, "web-01"), "timed_out", "{ended}");
    assert_eq!(ended.outcome(1, "web-01"), "skipped", "{ended}");
    assert_eq!(lines.lines(), []);
}

#[test]
fn w9_cancel_of_a_running_job_ends_the_tree_and_starts_nothing_more() {
    let mut cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job("all", [tree("250s"), record(&lines)]));
    let watched = running_tree(&mut cluster);
    let answer = api.cancel(&id);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json(), json!({"id": id, "status": "cancelled"}));
    assert_eq!(api.job(&id).status(), "cancelled", "at once");

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "cancelled", "{ended}");
    assert_eq!(ended.outcome(0, "web-01"), "cancelled", "the worker confirmed: {ended}");
    assert!(matches!(ended.outcome(1, "web-01"), "cancelled" | "skipped"), "{ended}");
    assert_eq!(ended.count_all(), 2, "{ended}");
    all_gone(&watched);
    assert_eq!(lines.lines(), []);
}

#[test]
fn w9_cancel_ends_a_once_step_in_the_middle() {
    let cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job("all", [record_slowly(&lines, "250s")]));
    lines.wait_of(&id, 1);
    assert_eq!(api.cancel(&id).status, 200);
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(0, "web-01"), "cancelled", "{ended}");
    assert_eq!(lines.of(&id).len(), 1, "never again");
}

#[test]
fn a_restarted_worker_ends_what_its_former_life_left_running() {
    let mut cluster = one_node();
    let api = cluster.api();
    let id = api.submit(&job("all", [tree("250s")]));
    let former = running_tree(&mut cluster);
    cluster.worker("web-01").kill9();
    assert_ne!(survivors(&former), [], "a killed worker leaves its tasks behind");
    cluster.worker("web-01").restart();
    all_gone(&former);
    // Idempotent, so it runs again, but only after the first process has ended.
    let again = running_tree(&mut cluster);
    assert_eq!(api.cancel(&id).status, 200);
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(0, "web-01"), "cancelled", "{ended}");
    all_gone(&again);
}

#[test]
fn w9_a_cancel_reaches_a_worker_that_was_away() {
    let mut cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job("all", [tree("250s"), record(&lines)]));
    let former = running_tree(&mut cluster);
    cluster.worker("web-01").kill9();
    assert_eq!(api.cancel(&id).status, 200);
    cluster.worker("web-01").restart();
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "cancelled", "{ended}");
    assert!(matches!(ended.outcome(0, "web-01"), "cancelled" | "unknown"), "{ended}");
    all_gone(&former);
    assert_eq!(cluster.worker("web-01").process().descendants(), [], "nothing was started for it again");
    assert_eq!(lines.lines(), []);
}

#[test]
fn cancel_of_a_pending_job_is_final_and_it_never_runs() {
    let cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let first = api.submit(&job("all", [sleep("250s")]));
    api.wait_job(&first, "running", |j| j.status() == "running");
    let second = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.job(&second).status(), "pending", "max_concurrent is 1");
    assert_eq!(api.cancel(&second).status, 200);
    assert_eq!(api.job(&second).status(), "cancelled");
    assert_eq!(api.cancel(&first).status, 200);

    // A third job gets the free place: by then the second job would have run its step.
    let third = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.wait_ended(&third).status(), "completed");
    assert_eq!(lines.of(&second), []);
    assert_eq!(api.job(&second).status(), "cancelled", "terminal is final");
}

#[test]
fn a_job_timeout_fails_the_job_ends_its_processes_and_still_cleans_up() {
    let mut cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let clean_up = with(record(&lines), json!({"condition": "on_failure"}));
    let phases = [tree("250s"), record(&lines), clean_up];
    let id = api.submit(&with(job("all", phases), json!({"timeout": "3s"})));
    let watched = running_tree(&mut cluster);
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "failed", "{ended}");
    assert!(ended.reason().contains("timeout"), "{ended}");
    assert!(matches!(ended.outcome(0, "web-01"), "cancelled" | "timed_out"), "{ended}");
    assert_eq!(ended.outcome(1, "web-01"), "skipped", "{ended}");
    assert_eq!(ended.outcome(2, "web-01"), "success", "on_failure still runs: {ended}");
    assert_eq!(sorted_places(&lines, &id), at(&[(2, "web-01")]));
    all_gone(&watched);
}

#[test]
fn w9_cancel_with_wait_returns_when_nothing_runs_any_more() {
    let mut cluster = one_node();
    let id = cluster.api().submit(&job("all", [tree("250s")]));
    let watched = running_tree(&mut cluster);
    let ran = cluster.gridc().run(&["job", "cancel", &id, "--wait"]).exits(0);
    assert_eq!(survivors(&watched), [], "{ran:?}");
    assert!(ran.stdout.contains("cancelled"), "{ran:?}");
    assert_eq!(cluster.api().job(&id).outcome(0, "web-01"), "cancelled");
    cluster.gridc().run(&["job", "cancel", &id, "--wait"]).exits(5);
}
