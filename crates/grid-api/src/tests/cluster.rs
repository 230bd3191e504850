//! Joining, leaving, leading; reads that must be current.

use axum::body::Body;
use axum::http::Request;
use grid_controller::Refusal;
use grid_types::Code;
use grid_types::api::{HEADER_ROLE, Role};
use serde_json::json;

use super::fake::{Fake, JOB, job_body, refused};

#[tokio::test]
async fn e6_a_strong_read_waits_for_the_barrier_and_the_handler_never_sees_the_parameter() {
    let fake = Fake::standby();
    assert_eq!(fake.get(&format!("/job/{JOB}?consistency=strong")).await.status, 200);
    assert_eq!(fake.calls(), ["read_barrier".to_owned(), format!("job default {JOB}")]);
    let fake = Fake::standby();
    assert_eq!(fake.get("/jobs?limit=5&consistency=strong").await.status, 200);
    assert!(fake.calls()[1].contains("limit: 5"), "{:?}", fake.calls());
    let fake = Fake::standby();
    assert_eq!(fake.get("/nodes?consistency=stale").await.status, 200);
    assert_eq!(fake.calls().len(), 1, "a stale read waits for nothing");
    for bad in ["/nodes?consistency=", "/nodes?consistency=Strong", "/nodes?consistency=strong&consistency=stale"] {
        assert_eq!(fake.get(bad).await.error(), refused(400, "BAD_REQUEST"), "{bad}");
    }
    fake.inner().refusal = Some(Refusal::new(Code::NoQuorum, "nobody"));
    assert_eq!(fake.get("/nodes?consistency=strong").await.error(), refused(503, "NO_QUORUM"));
    let answer = fake.post("/job?consistency=strong", job_body().to_string()).await;
    assert_eq!(answer.error(), refused(409, "NOT_LEADER"), "a mutation has no consistency");
}

#[tokio::test]
async fn e4_a_leader_without_a_majority_is_a_standby_that_says_no_quorum() {
    let fake = Fake::standby();
    fake.inner().cut_off = true;
    let answer = fake.post("/job", job_body().to_string()).await;
    assert_eq!(answer.error(), refused(503, "NO_QUORUM"));
    assert_eq!(answer.headers[HEADER_ROLE], "STANDBY");
    assert_eq!(fake.get("/jobs").await.status, 200, "reads go on");
    fake.inner().role.role = Role::Draining;
    assert_eq!(fake.post("/job", job_body().to_string()).await.error(), refused(409, "NOT_LEADER"));
}

#[tokio::test]
async fn members_are_changed_by_name() {
    let fake = Fake::leader();
    let delete = Request::delete("/api/v1/cluster/members/c3").body(Body::empty()).unwrap();
    assert_eq!(fake.send(delete).await.status, 200);
    fake.post("/api/v1/cluster/members/c2/demote", Body::empty()).await;
    fake.post("/api/v1/cluster/members/c2/promote", Body::empty()).await;
    fake.post("/api/v1/cluster/step-down", json!({"to": "c2"}).to_string()).await;
    assert_eq!(fake.calls(), ["Remove c3", "Demote c2", "Promote c2", "step_down Some(\"c2\")"]);
    let standby = Fake::standby();
    let delete = Request::delete("/api/v1/cluster/members/c3").body(Body::empty()).unwrap();
    assert_eq!(standby.send(delete).await.error(), refused(409, "NOT_LEADER"));
}

#[tokio::test]
async fn a_join_names_every_fault() {
    let fake = Fake::leader();
    let answer = fake.post("/api/v1/cluster/members", json!({"node_id": "No", "raft_id": 0, "x": 1}).to_string()).await;
    assert_eq!(answer.status, 422);
    let mut fields = answer.fault_fields();
    fields.sort();
    assert_eq!(fields, ["api_url", "folder_id", "grpc_addr", "node_id", "raft_addr", "raft_id", "x"]);
}

#[tokio::test]
async fn l7_the_state_hash_is_given_when_it_is_asked_for() {
    let fake = Fake::standby();
    assert!(fake.get("/status").await.json().get("state_hash").is_none());
    assert_eq!(fake.get("/status?hash=true").await.json()["state_hash"], "ab");
}
