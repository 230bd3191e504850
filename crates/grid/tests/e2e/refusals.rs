//! Refused requests: every fault is reported at once, by field, with what to do.

use grid_testkit::spec::{echo, job, pipeline, record, sleep, task, with};
use grid_testkit::{Answer, Cluster};
use serde_json::{Value, json};

fn one_node() -> Cluster {
    Cluster::start_with("--max-concurrent 1 --max-pending 2", &[("web-01", "--groups web")])
}

fn fields(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let details = json["details"].as_array().cloned().unwrap_or_default();
    details.iter().filter_map(|d| d["field"].as_str().map(str::to_owned)).collect()
}

#[test]
fn every_fault_of_a_job_is_named_at_once() {
    let cluster = one_node();
    let api = cluster.api();
    let cases: Vec<(Value, &[&str])> = vec![
        (
            json!({"target": {"scope": "everyone"}, "tasks": [{"backend": "ping", "action": "pong"}], "colour": "red"}),
            &["colour", "target", "tasks[0].action"],
        ),
        (job("all", [with(echo(), json!({"max_retries": -1}))]), &["tasks[0].max_retries"]),
        (job("all", [pipeline([pipeline([echo()])])]), &["tasks[0].tasks[0].tasks"]),
        (job("all", [with(echo(), json!({"condition": "maybe"}))]), &["tasks[0].condition"]),
        (job("all", [task("test", "sleep", &json!({"duration": "soon"}))]), &["tasks[0].params.duration"]),
        (job("all", [task("test", "record", &json!({}))]), &["tasks[0].params.path"]),
        (with(job("all", [echo()]), json!({"strategy": "hope"})), &["strategy"]),
        (job("all", []), &["tasks"]),
    ];
    for (body, expected) in cases {
        let answer = api.post("/job", &body);
        assert_eq!(answer.status, 422, "{body}: {answer:?}");
        let named = fields(&answer);
        for field in expected {
            assert!(named.iter().any(|f| f == field), "{field} is not named in {answer:?} for {body}");
        }
        assert!(answer.json()["message"].as_str().is_some_and(|m| !m.is_empty()), "{answer:?}");
    }
    assert_eq!(api.get("/jobs").json(), json!([]), "nothing was accepted");
}

#[test]
fn j6_a_target_that_matches_no_known_node_is_refused() {
    let cluster = one_node();
    let api = cluster.api();
    for target in ["group:db", "node:web-99"] {
        let answer = api.post("/job", &job(target, [echo()]));
        assert_eq!(answer.status, 422, "{target}: {answer:?}");
    }
}

#[test]
fn a_body_over_one_mebibyte_is_refused() {
    let cluster = one_node();
    let api = cluster.api();
    let body = job("all", [task("ping", "echo", &json!({"message": "x".repeat(1 << 20)}))]);
    let answer = api.post("/job", &body);
    assert_eq!(answer.status, 413, "{}", answer.status);
    assert_eq!(api.get("/role").status, 200, "it still serves");
}

#[test]
fn cancel_of_an_ended_or_unknown_job_is_refused() {
    let cluster = one_node();
    let api = cluster.api();
    let id = api.submit(&job("all", [echo()]));
    api.wait_ended(&id);
    let ended = api.cancel(&id);
    assert_eq!(ended.status, 409, "{ended:?}");
    assert_eq!(ended.error(), "CONFLICT", "{ended:?}");
    let unknown = api.cancel("no-such-job");
    assert_eq!(unknown.status, 404, "{unknown:?}");
    assert_eq!(unknown.error(), "NOT_FOUND", "{unknown:?}");
    assert_eq!(api.get("/job/no-such-job").error(), "NOT_FOUND");
}

#[test]
fn a_full_queue_is_429_and_stays_full_over_a_restart() {
    let mut cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let running = api.submit(&job("all", [sleep("250s")]));
    api.wait_job(&running, "running", |j| j.status() == "running");
    let waiting = [api.submit(&job("all", [record(&lines)])), api.submit(&job("all", [record(&lines)]))];
    let refused = api.post("/job", &job("all", [record(&lines)]));
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.error(), "QUEUE_FULL");

    cluster.server.kill9();
    cluster.server.restart();
    let refused = api.post("/job", &job("all", [record(&lines)]));
    assert_eq!(refused.status, 429, "a restart forgets nothing: {refused:?}");

    assert_eq!(api.cancel(&running).status, 200);
    for id in &waiting {
        assert_eq!(api.wait_ended(id).status(), "completed");
    }
    assert_eq!(lines.lines().len(), 2);
}

#[test]
fn issue13_19_jobs_that_wait_for_an_operator_are_bounded() {
    let cluster = Cluster::start_with("--max-waiting 2", &[("web-01", "")]);
    let api = cluster.api();
    let gate = || job("all", [with(echo(), json!({"confirm": true}))]);
    let waiting = [api.submit(&gate()), api.submit(&gate())];
    let refused = api.post("/job", &job("all", [echo()]));
    assert_eq!((refused.status, refused.json()["error"].as_str()), (429, Some("QUEUE_FULL")), "{refused:?}");
    assert!(refused.json()["message"].as_str().is_some_and(|m| m.contains("--max-waiting")), "{refused:?}");
    assert_eq!(api.post(&format!("/job/{}/confirm", waiting[0]), &json!({})).status, 200);
    api.submit(&job("all", [echo()]));
}
