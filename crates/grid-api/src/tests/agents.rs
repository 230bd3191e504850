//! Plain HTTP agents: what their bodies mean, and every fault in them.

use axum::body::Body;
use axum::http::Request;
use grid_controller::{Refusal, Stale};
use grid_types::api::{HEADER_EPOCH, Role};
use serde_json::{Value, json};

use super::fake::{EPOCH, Fake, JOB, refused};

const LEASE: &str = "lease-0c5t9v3k2m7qa-1-0-1-3";

fn result() -> Value {
    json!({
        "agent": "edge-01", "lease_id": LEASE, "job_id": JOB, "job_epoch": 1, "leader_epoch": EPOCH, "step": 0,
        "attempt": 1, "status": "success", "output": "hello", "error": null, "duration": "2.3s",
    })
}

#[tokio::test]
async fn a_question_names_the_agent_and_whatever_it_wants_to_say() {
    let fake = Fake::leader();
    let answer = fake.post("/v1/leases", r#"{"agent": "edge-01"}"#).await;
    assert_eq!(answer.json(), json!({"leases": [], "revoked": [], "leader_epoch": EPOCH}));
    let all = json!({
        "agent": "edge-01", "wait": "0s", "instance": "p1", "hostname": "h", "groups": ["edge", "edge"],
        "labels": {"rack": "a3"}, "backends": {"ping": ["echo"]}, "slots": 2, "held": [LEASE], "leader_epoch": EPOCH,
    });
    assert_eq!(fake.post("/v1/leases", all.to_string()).await.status, 200);
    let by_name = json!({"agent": "edge-01", "backends": ["test"], "wait": "60s"});
    assert_eq!(fake.post("/v1/leases", by_name.to_string()).await.status, 200);
    let calls = fake.calls();
    assert!(calls[0].contains("wait: 20s") && calls[0].contains("backends: None"), "{}", calls[0]);
    for said in ["Some(\"p1\")", "slots: Some(2)", "{\"rack\": \"a3\"}", "{\"ping\": {\"echo\"}}", "wait: 0ns"] {
        assert!(calls[1].contains(said), "{said}: {}", calls[1]);
    }
    assert!(calls[2].contains("\"record\""), "every action of the backend: {}", calls[2]);
}

#[tokio::test]
async fn every_fault_of_a_question_is_named_at_once() {
    let fake = Fake::leader();
    let body = json!({
        "agent": "Edge 01", "wait": "61s", "instance": "", "hostname": 7, "groups": ["ok", "No"], "labels": {"a=b": "c"},
        "backends": {"ping": ["nope"], "cobol": []}, "slots": 0, "held": [LEASE, "lease-1"], "leases": 1,
    });
    let answer = fake.post("/v1/leases", body.to_string()).await;
    assert_eq!(answer.error(), refused(422, "INVALID"));
    let mut fields = answer.fault_fields();
    fields.sort_unstable();
    let wanted = [
        "agent",
        "backends.cobol",
        "backends.ping[0]",
        "groups[1]",
        "held[1]",
        "hostname",
        "instance",
        "labels.a=b",
        "leases",
        "slots",
        "wait",
    ];
    assert_eq!(fields, wanted);
    for body in ["", "{}", "null", "[]", r#"{"agent": null}"#, r#"{"agent": "a", "groups": "web"}"#] {
        assert_eq!(fake.post("/v1/leases", body).await.error(), refused(422, "INVALID"), "{body}");
    }
    for body in ["{", r#"{"agent": "a", "agent": "b"}"#] {
        assert_eq!(fake.post("/v1/leases", body).await.error(), refused(400, "BAD_REQUEST"), "{body}");
    }
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn w4_a_result_is_200_or_says_what_of_it_is_stale() {
    let fake = Fake::leader();
    let answer = fake.post("/v1/results", result().to_string()).await;
    assert_eq!(answer.json(), json!({"lease_id": LEASE, "status": "success", "leader_epoch": EPOCH}));
    let call = &fake.calls()[0];
    assert!(call.contains("output: \"hello\"") && call.contains("duration_ms: 2300"), "{call}");
    for (stale, word) in [(Stale::Job, "job"), (Stale::Attempt, "attempt"), (Stale::Settled, "settled")] {
        let fake = Fake::leader();
        fake.inner().refusal = Some(Refusal::stale(stale, "drop it"));
        let answer = fake.post("/v1/results", result().to_string()).await;
        assert_eq!(answer.error(), refused(409, "STALE_EPOCH"));
        assert_eq!((&answer.json()["stale"], &answer.json()["leader_epoch"]), (&json!(word), &json!(EPOCH)));
    }
}

#[tokio::test]
async fn w4_a_result_for_another_leader_is_stale_in_body_and_header() {
    let fake = Fake::leader();
    let mut old = result();
    old["leader_epoch"] = json!(6);
    let in_header = Request::post("/v1/results").header(HEADER_EPOCH, "6").body(Body::from(result().to_string()));
    for answer in [fake.post("/v1/results", old.to_string()).await, fake.send(in_header.unwrap()).await] {
        assert_eq!(answer.error(), refused(409, "STALE_EPOCH"));
        assert_eq!((&answer.json()["stale"], &answer.json()["leader_epoch"]), (&json!("leader"), &json!(EPOCH)));
    }
    assert_eq!(Fake::standby().post("/v1/results", "x").await.error(), refused(409, "NOT_LEADER"));
    fake.inner().role.role = Role::Draining;
    assert_eq!(fake.post("/v1/results", result().to_string()).await.status, 200, "E7");
    assert_eq!(fake.calls().len(), 1);
}

#[tokio::test]
async fn every_fault_of_a_result_is_named_at_once() {
    let fake = Fake::leader();
    let answer = fake.post("/v1/results", "{}").await;
    let wanted = ["leader_epoch", "agent", "lease_id", "job_id", "job_epoch", "step", "attempt", "status"];
    assert_eq!((answer.error(), answer.fault_fields()), (refused(422, "INVALID"), wanted.map(str::to_owned).to_vec()));
    for (field, bad) in [
        ("status", json!("running")),
        ("duration", json!(2.3)),
        ("output", json!(["a"])),
        ("error", json!(1)),
        ("step", json!(-1)),
        ("lease_id", json!("lease-0c5t9v3k2m7qa-2-0-1-3")),
        ("surprise", json!(1)),
        ("leader_epoch", Value::Null),
    ] {
        let mut body = result();
        body[field] = bad;
        let answer = fake.post("/v1/results", body.to_string()).await;
        assert_eq!((answer.error(), answer.fault_fields()), (refused(422, "INVALID"), vec![field.to_owned()]));
    }
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_removal_may_name_its_epoch_in_a_body() {
    let fake = Fake::leader();
    let remove = |epoch: u64| {
        let body = Body::from(json!({"leader_epoch": epoch}).to_string());
        Request::delete("/v1/agents/node-dead").body(body).unwrap()
    };
    assert_eq!(fake.send(remove(EPOCH - 1)).await.error(), refused(409, "STALE_EPOCH"));
    assert_eq!(fake.send(remove(EPOCH)).await.status, 200);
    assert_eq!(fake.calls(), ["remove node-dead IfGone"]);
}
