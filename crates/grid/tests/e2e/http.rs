//! HTTP as programs rely on it: headers, roles, documents, aliases, idempotency.

use std::collections::BTreeSet;

use grid_testkit::spec::{echo, job, sleep, task};
use grid_testkit::{Answer, Api, Cluster, LIMIT, Method, ensure, wait_until};
use serde_json::{Value, json};

fn one_node() -> Cluster {
    Cluster::start(&[("web-01", "--groups web")])
}

fn has_headers(answer: &Answer) {
    assert_eq!(answer.header("X-Grid-Node"), Some("n1"), "{answer:?}");
    assert_eq!(answer.header("X-Grid-Role"), Some("LEADER"), "{answer:?}");
    let epoch = answer.header("X-Grid-Leader-Epoch").and_then(|e| e.parse::<u64>().ok());
    assert!(epoch.is_some_and(|epoch| epoch > 0), "{answer:?}");
}

#[test]
fn every_answer_carries_node_role_and_epoch() {
    let cluster = one_node();
    let api = cluster.api();
    let answers = [
        (200, api.get("/role")),
        (200, api.get("/status")),
        (200, api.get("/nodes")),
        (200, api.get("/jobs")),
        (200, api.get("/healthz")),
        (200, api.get("/health")),
        (200, api.get("/readyz")),
        (200, api.get("/ready")),
        (201, api.post("/job", &job("all", [echo()]))),
        (404, api.get("/job/nope")),
        (404, api.get("/node/nope")),
        (404, api.get("/no/such/path")),
        (422, api.post("/job", &json!({"target": "nowhere"}))),
    ];
    for (status, answer) in &answers {
        assert_eq!(answer.status, *status, "{answer:?}");
        has_headers(answer);
    }
    let garbage = api.request(Method::POST, "/job", &[], Some("{".to_owned())).expect("answered");
    assert_eq!(garbage.status, 400, "{garbage:?}");
    has_headers(&garbage);
}

#[test]
fn role_says_who_leads_and_where() {
    let cluster = one_node();
    let role = cluster.api().get("/role").json();
    assert_eq!(role["node_id"], "n1");
    assert_eq!(role["role"], "LEADER");
    assert_eq!(role["leader_id"], "n1");
    assert_eq!(role["leader_url"], json!(cluster.server.url()));
    assert!(role["leader_epoch"].is_u64(), "{role}");
}

#[test]
fn e1_a_request_that_names_another_epoch_is_stale() {
    let cluster = one_node();
    let api = cluster.api();
    let epoch = api.get("/role").json()["leader_epoch"].as_u64().expect("an epoch");
    let body = job("all", [echo()]);
    let current = epoch.to_string();
    let fits = api.post_with("/job", &[("x-grid-leader-epoch", &current)], &body);
    assert_eq!(fits.status, 201, "{fits:?}");
    let other = (epoch + 1).to_string();
    let stale = api.post_with("/job", &[("x-grid-leader-epoch", &other)], &body);
    assert_eq!(stale.status, 409, "{stale:?}");
    assert_eq!(stale.error(), "STALE_EPOCH");
    assert_eq!(stale.json()["stale"], "leader");
    assert_eq!(stale.json()["leader_epoch"], epoch);
}

#[test]
fn a_job_document_has_every_field_of_the_contract() {
    let cluster = one_node();
    let api = cluster.api();
    let body = job("group:web", [task("ping", "echo", &json!({"message": "hi"}))]);
    let answer = api.post("/job", &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    let ended = api.wait_ended(&id);
    let fields: BTreeSet<&str> = ended.0.as_object().expect("an object").keys().map(String::as_str).collect();
    for field in [
        "id",
        "namespace",
        "target",
        "tasks",
        "strategy",
        "status",
        "reason",
        "step",
        "expected",
        "owner",
        "job_epoch",
        "leader_epoch",
        "counts",
        "steps",
        "results",
        "created_at",
        "updated_at",
    ] {
        assert!(fields.contains(field), "{field} is missing in {ended}");
    }
    assert_eq!(ended.0["namespace"], "default");
    assert_eq!(ended.0["target"], json!({"scope": "group", "value": "web"}));
    assert_eq!(ended.0["strategy"], "fail-fast");
    assert_eq!(ended.0["owner"], "n1");
    assert_eq!(ended.0["tasks"][0]["params"]["message"], "hi");
    assert_eq!(ended.0["steps"][0]["action"], "echo");
    assert_eq!(ended.0["steps"][0]["counts"]["success"], 1);
    let result = ended.result(0, "web-01");
    for field in ["status", "duration", "attempts", "started_at"] {
        assert!(!result[field].is_null(), "{field} is missing in {result}");
    }
    let output = api.get(&format!("/job/{id}/output/0/web-01"));
    assert_eq!(output.status, 200, "{output:?}");
    assert!(output.text.contains("hi"), "{output:?}");
}

#[test]
fn canonical_and_alias_paths_show_the_same_job() {
    let cluster = one_node();
    let api = cluster.api();
    let answer = api.post("/api/v1/namespaces/default/jobs", &job("all", [echo()]));
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().expect("an id").to_owned();
    let ended = api.wait_ended(&id);
    for path in ["/api/v1/namespaces/default/jobs", "/v1/jobs"] {
        let got = api.get(&format!("{path}/{id}"));
        assert_eq!((got.status, got.json()), (200, ended.0.clone()), "{path}");
    }
    let list = api.get("/api/v1/namespaces/default/jobs").json();
    assert_eq!(list["items"][0]["id"], json!(id), "{list}");
    let bare = api.get("/jobs").json();
    assert_eq!(bare[0]["id"], json!(id), "{bare}");
    assert!(bare[0].get("results").is_none_or(Value::is_null), "lists carry no results: {bare}");
    assert_eq!(api.get("/api/v1/namespaces/nope/jobs").status, 404);
}

#[test]
fn the_same_idempotency_key_gives_the_same_job_even_after_a_crash() {
    let mut cluster = one_node();
    let api = cluster.api();
    let body = job("all", [echo()]);
    let key = [("idempotency-key", "deploy-7")];
    let first = api.post_with("/job", &key, &body);
    assert_eq!(first.status, 201, "{first:?}");
    let second = api.post_with("/job", &key, &body);
    assert_eq!(second.status, 200, "{second:?}");
    assert_eq!(first.json()["id"], second.json()["id"]);

    cluster.server.kill9();
    cluster.server.restart();
    let third = wait_until("an answer of the new leader", LIMIT, || {
        let answer = api.post_with("/job", &key, &body);
        ensure(answer.status == 200, format!("{answer:?}"))?;
        Ok(answer)
    });
    assert_eq!(first.json()["id"], third.json()["id"]);
    assert_eq!(job_count(&api), 1);
    let other = api.post_with("/job", &[("idempotency-key", "deploy-8")], &body);
    assert_eq!(other.status, 201, "{other:?}");
    assert_eq!(job_count(&api), 2);
}

fn job_count(api: &Api) -> usize {
    api.get("/jobs").json().as_array().map_or(0, Vec::len)
}

#[test]
fn status_counts_nodes_and_jobs() {
    let cluster = one_node();
    let api = cluster.api();
    let id = api.submit(&job("all", [sleep("250s")]));
    api.wait_job(&id, "running", |j| j.status() == "running");
    let status = api.get("/status").json();
    assert_eq!(status["role"], "LEADER", "{status}");
    assert_eq!(status["jobs"]["running"], 1, "{status}");
    assert!(status["cluster_id"].as_str().is_some_and(|id| !id.is_empty()), "{status}");
    assert!(status["version"].is_string(), "{status}");
}
