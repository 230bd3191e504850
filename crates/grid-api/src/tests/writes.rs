//! Submit and cancel.

use axum::body::Body;
use axum::http::Request;
use grid_controller::Refusal;
use grid_types::{Code, Faults};
use serde_json::json;

use super::fake::{EPOCH, Fake, JOB, job, job_body, refused};

const SUBMITS: [&str; 3] = ["/api/v1/namespaces/default/jobs", "/job", "/v1/jobs"];

fn submit(path: &str, key: &[u8]) -> Request<Body> {
    Request::post(path).header("idempotency-key", key).body(Body::from(job_body().to_string())).unwrap()
}

#[tokio::test]
async fn submit_is_201_with_the_job() {
    for path in SUBMITS {
        let fake = Fake::leader();
        let answer = fake.post(path, job_body().to_string()).await;
        assert_eq!(answer.status, 201, "{path}");
        assert_eq!(answer.headers["content-type"], "application/json");
        assert_eq!(answer.json(), serde_json::to_value(job(JOB)).unwrap());
        assert_eq!(fake.calls(), ["submit default None"]);
        assert_eq!(fake.inner().spec.as_ref().unwrap().target.to_string(), "group:web");
    }
}

#[tokio::test]
async fn the_same_idempotency_key_gives_the_same_job_and_200() {
    let fake = Fake::leader();
    let longest = "~".repeat(128);
    for key in ["a", "Zz!0-~", longest.as_str()] {
        let first = fake.send(submit("/job", key.as_bytes())).await;
        let again = fake.send(submit("/v1/jobs", key.as_bytes())).await;
        assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
        assert_eq!(first.json(), again.json());
    }
    assert_eq!(fake.calls()[..2], ["submit default Some(\"a\")", "submit default Some(\"a\")"]);
}

/// What is compared is the request, not its bytes.
#[tokio::test]
async fn j12_a_request_is_the_same_however_it_is_spelled() {
    let fake = Fake::leader();
    let canonical = async |path: &str, body: &str| {
        let request = Request::post(path).header("idempotency-key", "k").header("content-type", "application/json");
        let answer = fake.send(request.body(body.to_owned().into()).unwrap()).await;
        assert!(answer.status.is_success(), "{:?}", answer.error());
        fake.inner().request.clone().unwrap()
    };
    let first = canonical("/job", r#"{"target":"all","tasks":[{"backend":"ping","action":"echo"}]}"#).await;
    let epoch =
        format!(r#"{{"leader_epoch":{EPOCH}, "tasks": [ {{"action":"echo","backend":"ping"}} ], "target":"all"}}"#);
    assert_eq!(canonical("/v1/jobs", &epoch).await, first);
    let other = canonical("/job", r#"{"target":"any","tasks":[{"backend":"ping","action":"echo"}]}"#).await;
    assert_ne!(other, first);
    let plan = format!("/job?plan={}", "ab".repeat(32));
    let bound = canonical(&plan, r#"{"target":"all","tasks":[{"backend":"ping","action":"echo"}]}"#).await;
    assert_ne!(bound, first, "a request that is bound to a plan is another one");
}

#[tokio::test]
async fn an_idempotency_key_outside_the_rule_is_400() {
    let fake = Fake::leader();
    let too_long = "k".repeat(129);
    for key in [b"".as_slice(), b"two words", b"tab\there", b"\xc3\xa9", too_long.as_bytes()] {
        let answer = fake.send(submit("/job", key)).await;
        assert_eq!(answer.error(), refused(400, "BAD_REQUEST"));
        assert_eq!(answer.fault_fields(), ["Idempotency-Key"]);
    }
    let mut twice = submit("/job", b"a");
    twice.headers_mut().append("idempotency-key", "b".parse().unwrap());
    assert_eq!(fake.send(twice).await.error(), refused(400, "BAD_REQUEST"));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn every_fault_of_a_job_is_named_at_once_in_422() {
    let fake = Fake::leader();
    let body = json!({
        "leader_epoch": "soon", "target": {"scope": "everyone"}, "strategy": "hope", "extra": 1,
        "tasks": [{"backend": "nope", "action": "x", "max_retries": -1}, {"tasks": [{"tasks": []}]}],
    });
    let answer = fake.post("/job", body.to_string()).await;
    assert_eq!(answer.error(), refused(422, "INVALID"));
    let wanted = [
        "leader_epoch",
        "extra",
        "target",
        "strategy",
        "tasks[0].backend",
        "tasks[0].max_retries",
        "tasks[1].tasks[0].tasks",
    ];
    assert_eq!(answer.fault_fields(), wanted);
    assert_eq!(fake.calls(), Vec::<String>::new(), "nothing is stored");
}

#[tokio::test]
async fn a_queue_that_is_full_is_429() {
    let fake = Fake::leader();
    fake.inner().refusal = Some(Refusal::new(Code::QueueFull, "100 jobs are pending; try again later"));
    assert_eq!(fake.post("/job", job_body().to_string()).await.error(), refused(429, "QUEUE_FULL"));
}

#[tokio::test]
async fn cancel_is_200_with_id_and_status_and_needs_no_body() {
    for path in [format!("/api/v1/namespaces/default/jobs/{JOB}/cancel"), format!("/job/{JOB}/cancel")] {
        let fake = Fake::leader();
        for body in ["", "{}", " {} "] {
            let answer = fake.post(&path, body).await;
            assert_eq!(answer.status, 200, "{path} {body}");
            assert_eq!(answer.json(), json!({"id": JOB, "status": "cancelled"}));
        }
        // What `curl -X POST -d ''` sends.
        let form = Request::post(&path).header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(fake.send(form.body(Body::empty()).unwrap()).await.status, 200);
        assert_eq!(fake.calls()[0], format!("cancel default {JOB}"));
    }
}

#[tokio::test]
async fn cancel_of_an_ended_job_is_409_conflict() {
    let fake = Fake::leader();
    fake.inner().refusal = Some(Refusal::new(Code::Conflict, "the job is completed"));
    assert_eq!(fake.post(&format!("/job/{JOB}/cancel"), "").await.error(), refused(409, "CONFLICT"));
}

#[tokio::test]
async fn cancel_refuses_what_it_does_not_know() {
    let fake = Fake::leader();
    let path = format!("/job/{JOB}/cancel");
    let answer = fake.post(&path, r#"{"force":true,"why":"x","leader_epoch":7}"#).await;
    assert_eq!(answer.error(), refused(422, "INVALID"));
    assert_eq!(answer.fault_fields(), ["force", "why"]);
    assert_eq!(fake.post(&path, "[]").await.error(), refused(422, "INVALID"));
    assert_eq!(fake.post(&path, "{").await.error(), refused(400, "BAD_REQUEST"));
    assert_eq!(fake.post("/job/x/cancel", "").await.error(), refused(404, "NOT_FOUND"));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn outcome_unknown_and_no_quorum_are_503() {
    for (code, word) in [(Code::OutcomeUnknown, "OUTCOME_UNKNOWN"), (Code::NoQuorum, "NO_QUORUM")] {
        let fake = Fake::leader();
        fake.inner().refusal = Some(Refusal { faults: Faults::default(), ..Refusal::new(code, "m") });
        assert_eq!(fake.post("/job", job_body().to_string()).await.error(), refused(503, word));
    }
}
