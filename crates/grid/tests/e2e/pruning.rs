//! L6: history is kept for the configured time, and unfinished jobs are never pruned.

use grid_testkit::spec::{echo, job, record, with};
use grid_testkit::{Api, Cluster, LIMIT, ensure, wait_until};
use serde_json::json;

fn gone(api: &Api, id: &str) {
    wait_until(&format!("{id} is forgotten"), LIMIT, || {
        let answer = api.try_get(&format!("/job/{id}"))?;
        ensure(answer.status == 404, format!("{answer:?}"))
    });
}

#[test]
fn l6_ended_jobs_are_forgotten_and_running_ones_kept_across_a_kill() {
    let mut cluster = Cluster::start_with("--history 1s", &[("web-01", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let gate = with(record(&lines), json!({"confirm": true}));
    let runs = api.submit(&job("all", [record(&lines), gate]));
    lines.wait_of(&runs, 1);
    let first = api.try_submit("key-1", &job("all", [echo()])).expect("accepted");
    gone(&api, &first);
    let second = api.submit(&job("all", [echo()]));
    cluster.server.kill9();
    cluster.server.restart();
    gone(&api, &second);
    let listed = api.get("/jobs").json();
    let ids: Vec<_> = listed.as_array().into_iter().flatten().filter_map(|job| job["id"].as_str()).collect();
    assert_eq!(ids, [runs.as_str()], "nothing else is left");
    for verb in ["status", "why", "resume", "retry", "cancel"] {
        cluster.gridc().run(&["job", verb, &first]).exits(4);
    }
    cluster.gridc().run(&["job", "confirm", &runs]).exits(0);
    gone(&api, &runs);
    assert_eq!(lines.of(&runs).len(), 2, "it went on, ended, and is history now");
}

#[test]
fn l8_a_submit_under_the_key_of_a_forgotten_job_is_told_so_and_runs_nothing() {
    let mut cluster = Cluster::start_with("--history 1s", &[("web-01", "")]);
    let api = cluster.api();
    let body = job("all", [echo()]);
    let id = api.try_submit("the-key", &body).expect("accepted");
    gone(&api, &id);
    cluster.server.kill9();
    cluster.server.restart();
    let again = api.post_with("/job", &[("idempotency-key", "the-key")], &body);
    assert_eq!(again.status, 409, "{again:?}");
    let message = again.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains(&id) && message.contains("new key"), "{message}");
    assert_eq!(api.post_with("/job", &[("idempotency-key", "another")], &body).status, 201);
}

#[test]
fn issue13_19_events_of_nodes_and_removed_nodes_are_forgotten_too() {
    let mut cluster = Cluster::start_with("--history 1s", &[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let job_id = api.submit(&job("all", [echo()]));
    gone(&api, &job_id);
    cluster.workers.get_mut("web-02").expect("started").kill9();
    cluster.gridc().run(&["node", "remove", "web-02", "--force"]).exits(0);
    wait_until("events of the node are forgotten", LIMIT, || {
        let told = cluster.gridc().run(&["events", "--node", "web-02", "-o", "json"]).exits(0).stdout;
        ensure(!told.contains("NodeRemoved") && !told.contains("NodeRegistered"), told)
    });
}
