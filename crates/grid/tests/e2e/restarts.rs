//! `kill -9` and restart of the controller (L3, I2, E1): nothing acknowledged is lost, nothing runs twice.

use grid_testkit::spec::{echo, job, pipeline, record, record_slowly, sleep};
use grid_testkit::{Api, LIMIT, ensure, wait_until};

use crate::staging::{at, sorted_places, two_web_nodes, two_web_nodes_with};

#[test]
fn a_job_goes_on_where_it_was_after_the_server_was_killed() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let phases = [record_slowly(&lines, "3s"), record(&lines), pipeline([record(&lines), record(&lines)])];
    let id = api.submit(&job("group:web", phases));
    lines.wait_of(&id, 2);
    let epoch = api.get("/role").json()["leader_epoch"].as_u64();
    cluster.server.kill9();
    cluster.server.restart();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.count("success"), 8, "{ended}");
    for node in ["web-01", "web-02"] {
        assert_eq!(ended.attempts(0, node), 1, "the worker kept what it was running: {ended}");
        assert!(ended.duration_ms(0, node) >= 3000, "{ended}");
    }
    assert_eq!(lines.duplicates(), []);
    assert_eq!(lines.of(&id).len(), 8);
    assert!(api.get("/role").json()["leader_epoch"].as_u64() > epoch, "E1: a new term, a new epoch");
}

#[test]
fn results_that_arrive_while_the_server_is_away_are_not_lost() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job("group:web", [record_slowly(&lines, "1s")]));
    lines.wait_of(&id, 2);
    cluster.server.kill9();
    // Both tasks end while no controller runs: their processes are gone.
    for node in ["web-01", "web-02"] {
        let worker = cluster.worker(node).process();
        wait_until("the end of the task", LIMIT, || {
            let below = worker.descendants();
            ensure(below.is_empty(), format!("{below:?}"))
        });
    }
    cluster.server.restart();
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.outcomes(0), ["success", "success"], "{ended}");
    assert_eq!(lines.of(&id).len(), 2);
}

#[test]
fn the_same_command_line_restarts_on_the_same_folder_and_keeps_everything() {
    let mut cluster = two_web_nodes_with("--max-concurrent 1");
    let api = cluster.api();
    let lines = cluster.record("lines");
    let done = api.submit(&job("group:web", [echo()]));
    let before = api.wait_ended(&done);
    let running = api.submit(&job("group:web", [sleep("4s"), record(&lines)]));
    api.wait_job(&running, "running", |j| j.count("running") == 2);
    let pending = api.submit(&job("group:web", [record(&lines)]));
    assert_eq!(api.job(&pending).status(), "pending");
    let node = api.try_node("web-01").expect("known");

    let status = cluster.server.terminate();
    assert!(status.success(), "SIGTERM ends a server cleanly: {status}");
    cluster.server.restart();

    let after = api.job(&done);
    assert_eq!(after.0, before.0, "an ended job is the same document");
    let same = api.try_node("web-01").expect("still known");
    for field in ["ordinal", "registered_at", "groups"] {
        assert_eq!(same[field], node[field], "{same}");
    }
    for id in [&running, &pending] {
        let ended = api.wait_ended(id);
        assert_eq!(ended.status(), "completed", "{ended}");
    }
    assert_eq!(sorted_places(&lines, &running), at(&[(1, "web-01"), (1, "web-02")]));
    assert_eq!(sorted_places(&lines, &pending), at(&[(0, "web-01"), (0, "web-02")]));
    let ids: Vec<String> = job_ids(&api);
    assert_eq!(ids, [pending, running, done], "newest first");
}

fn job_ids(api: &Api) -> Vec<String> {
    let list = api.get("/jobs").json();
    let jobs = list.as_array().into_iter().flatten();
    jobs.filter_map(|job| job["id"].as_str().map(str::to_owned)).collect()
}
