//! Confirm, resolve, why.

use axum::body::Body;
use axum::http::{Method, Request};
use grid_controller::Refusal;
use grid_types::Code;
use grid_types::api::Role;
use serde_json::{Value, json};

use super::fake::{Fake, JOB, refused};

fn paths(verb: &str) -> [String; 2] {
    [format!("/api/v1/namespaces/default/jobs/{JOB}/{verb}"), format!("/job/{JOB}/{verb}")]
}

#[tokio::test]
async fn confirm_is_200_with_id_and_status_and_needs_no_body() {
    for path in paths("confirm") {
        let fake = Fake::leader();
        for (body, phase) in [
            ("", "None"),
            ("{}", "None"),
            (r#"{"phase":null}"#, "None"),
            (r#"{"phase":2}"#, "Some(2)"),
            (r#"{"held":true}"#, "None held"),
        ] {
            let answer = fake.post(&path, body).await;
            assert_eq!(answer.status, 200, "{path} {body}");
            assert_eq!(answer.json(), json!({"id": JOB, "status": "running"}));
            assert_eq!(fake.calls().last().unwrap(), &format!("confirm default {JOB} {phase}"));
        }
        // What `curl -X POST -d ''` sends.
        let form = Request::post(&path).header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(fake.send(form.body(Body::empty()).unwrap()).await.status, 200);
    }
}

#[tokio::test]
async fn a_plan_is_shown_on_any_role_and_a_submit_may_name_it() {
    let fake = Fake::leader();
    let body = super::fake::job_body().to_string();
    for path in ["/job/plan", "/api/v1/namespaces/default/jobs/plan"] {
        let answer = fake.post(path, body.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.json()["hash"].as_str().map(str::len)), (200, Some(64)), "{path}");
        assert_eq!(fake.post(path, "{}").await.error(), refused(422, "INVALID"));
    }
    let hash = "ab".repeat(32);
    assert_eq!(fake.post(&format!("/job?plan={hash}"), body.clone()).await.status, 201);
    assert_eq!(fake.calls().last().unwrap(), &format!("submit default None {hash}"));
    for bad in ["", "xyz", &hash[1..], &format!("{hash}0")] {
        let refusal = fake.post(&format!("/job?plan={bad}"), body.clone()).await;
        assert_eq!(
            (refusal.error(), refusal.fault_fields()),
            (refused(400, "BAD_REQUEST"), vec!["plan".to_owned()]),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn resume_and_retry_are_200_with_id_and_status_and_needs_no_body() {
    for (verb, path) in ["resume", "retry"].into_iter().flat_map(|verb| paths(verb).map(|path| (verb, path))) {
        let fake = Fake::leader();
        for (body, rerun) in [("", false), ("{}", false), (r#"{"rerun_once":true}"#, true)] {
            let answer = fake.post(&path, body).await;
            assert_eq!(answer.status, 200, "{path} {body}");
            assert_eq!(answer.json(), json!({"id": JOB, "status": "pending"}));
            assert_eq!(fake.calls().last().unwrap(), &format!("{verb} default {JOB} {rerun}"));
        }
        let wrong = fake.post(&path, r#"{"rerun_once":"yes","again":1}"#).await;
        assert_eq!(
            (wrong.error(), wrong.fault_fields()),
            (refused(422, "INVALID"), vec!["again".to_owned(), "rerun_once".to_owned()])
        );
    }
}

#[tokio::test]
async fn confirm_names_every_fault_of_its_body() {
    let fake = Fake::leader();
    let path = &paths("confirm")[1];
    let cases: [(&str, &[&str]); 8] = [
        (r#"{"phase":"1"}"#, &["phase"]),
        (r#"{"phase":-1}"#, &["phase"]),
        (r#"{"phase":1.5}"#, &["phase"]),
        (r#"{"phase":4294967296}"#, &["phase"]),
        (r#"{"phase":true}"#, &["phase"]),
        (r#"{"phases":1}"#, &["phases"]),
        (r#"{"force":true,"leader_epoch":"7","phase":[]}"#, &["leader_epoch", "force", "phase"]),
        ("[1]", &[""]),
    ];
    for (body, fields) in cases {
        let answer = fake.post(path, body).await;
        assert_eq!(answer.error(), refused(422, "INVALID"), "{body}");
        assert_eq!(answer.fault_fields(), fields, "{body}");
    }
    let twice = fake.post(path, r#"{"phase":1,"phase":2}"#).await;
    assert_eq!((twice.error(), twice.fault_fields()), (refused(400, "BAD_REQUEST"), vec!["phase".to_owned()]));
    assert_eq!(fake.post(path, "{").await.error(), refused(400, "BAD_REQUEST"));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn w8_resolve_passes_the_verdict_on() {
    for path in paths("resolve") {
        let fake = Fake::leader();
        for (word, verdict) in [("success", "Success"), ("failed", "Failed"), ("retry", "Retry")] {
            let answer = fake.post(&path, json!({"step": 3, "node": "web-01", "as": word}).to_string()).await;
            assert_eq!(answer.status, 200, "{path} {word}");
            assert_eq!(answer.json(), json!({"id": JOB, "status": "running"}));
            assert_eq!(fake.calls().last().unwrap(), &format!("resolve default {JOB} 3 web-01 {verdict}"));
        }
    }
}

#[tokio::test]
async fn w8_resolve_names_every_fault_of_its_body_and_guesses_nothing() {
    let fake = Fake::leader();
    let path = &paths("resolve")[0];
    let cases: [(Value, &[&str]); 9] = [
        (json!({}), &["step", "node", "as"]),
        (json!({"step": null, "node": null, "as": null}), &["step", "node", "as"]),
        (json!({"step": "0", "node": 7, "as": "ok"}), &["step", "node", "as"]),
        (json!({"step": -1, "node": "UP", "as": "Success"}), &["step", "node", "as"]),
        (json!({"step": 0, "node": "web-01"}), &["as"]),
        (json!({"step": 0, "node": "web-01", "as": true}), &["as"]),
        (json!({"step": 0, "node": "", "as": "retry"}), &["node"]),
        (json!({"step": 0, "node": "web-01", "as": "retry", "verdict": "retry"}), &["verdict"]),
        (json!({"x": 1, "leader_epoch": 0.5, "node": "web-01", "as": "no"}), &["leader_epoch", "x", "step", "as"]),
    ];
    for (body, fields) in cases {
        let answer = fake.post(path, body.to_string()).await;
        assert_eq!(answer.error(), refused(422, "INVALID"), "{body}");
        assert_eq!(answer.fault_fields(), fields, "{body}");
    }
    assert_eq!(fake.post(path, "").await.fault_fields(), ["step", "node", "as"]);
    assert_eq!(fake.post(path, "7").await.error(), refused(422, "INVALID"));
    let twice = fake.post(path, r#"{"step":0,"node":"web-01","as":"failed","as":"retry"}"#).await;
    assert_eq!((twice.error(), twice.fault_fields()), (refused(400, "BAD_REQUEST"), vec!["as".to_owned()]));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn what_does_not_wait_is_409_conflict() {
    let fake = Fake::leader();
    fake.inner().refusal = Some(Refusal::new(Code::Conflict, "it does not wait for a confirmation"));
    let body = json!({"step": 0, "node": "web-01", "as": "failed"}).to_string();
    for (path, body) in
        paths("confirm").map(|p| (p, String::new())).into_iter().chain(paths("resolve").map(|p| (p, body.clone())))
    {
        assert_eq!(fake.post(&path, body).await.error(), refused(409, "CONFLICT"), "{path}");
    }
}

#[tokio::test]
async fn why_is_200_with_the_one_reason() {
    let fake = Fake::leader();
    for path in paths("why") {
        let answer = fake.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(
            answer.json(),
            json!({"id": JOB, "status": "running", "why": "phase 1 is waiting for confirmation"})
        );
        assert_eq!(fake.get(&format!("{path}?verbose=1")).await.fault_fields(), ["verbose"]);
    }
    assert_eq!(fake.calls(), [format!("why default {JOB}"), format!("why default {JOB}")]);
}

#[tokio::test]
async fn a_job_or_namespace_that_cannot_be_is_404() {
    let fake = Fake::leader();
    for base in ["/job/x", "/job/job-1", "/api/v1/namespaces/other/jobs/job-0c5t9v3k2m7qa"] {
        for verb in ["confirm", "resume", "resolve"] {
            assert_eq!(fake.post(&format!("{base}/{verb}"), "").await.error(), refused(404, "NOT_FOUND"), "{base}");
        }
        assert_eq!(fake.get(&format!("{base}/why")).await.error(), refused(404, "NOT_FOUND"), "{base}");
    }
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_node_is_drained_taken_back_and_removed() {
    let fake = Fake::leader();
    for (path, call) in
        [("/node/node-ready/drain", "drain node-ready"), ("/api/v1/nodes/node-ready/undrain", "undrain node-ready")]
    {
        let answer = fake.send(request(&Method::POST, path)).await;
        assert_eq!((answer.status.as_u16(), answer.json()["id"].clone()), (200, json!("node-ready")), "{path}");
        assert!(fake.inner().calls.contains(&call.to_owned()), "{path}");
    }
    for (path, call) in [
        ("/node/node-ready", "remove node-ready IfGone"),
        ("/v1/agents/node-ready?force=false", "remove node-ready IfGone"),
        ("/api/v1/nodes/node-ready?force=true", "remove node-ready Forced"),
    ] {
        fake.inner().calls.clear();
        let answer = fake.send(request(&Method::DELETE, path)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()),
            (200, json!({"id": "node-ready", "status": "removed"})),
            "{path}"
        );
        assert_eq!(fake.inner().calls, [call], "{path}");
    }
    for (path, status) in [("/node/No_Such", 404), ("/node/node-ready?force=yes", 400), ("/node/node-ready?x=1", 400)] {
        assert_eq!(fake.send(request(&Method::DELETE, path)).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn i14_a_standby_removes_nothing() {
    let fake = Fake::leader();
    fake.inner().role.role = Role::Standby;
    let answer = fake.send(request(&Method::DELETE, "/node/node-ready?nonsense=1")).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()["error"].clone()),
        (409, json!("NOT_LEADER")),
        "before the query is read"
    );
}

fn request(method: &Method, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}
