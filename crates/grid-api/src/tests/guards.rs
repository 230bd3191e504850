//! Roles, epochs, headers, the table of codes, panics.

use axum::body::Body;
use axum::http::{Method, Request};
use grid_controller::{Refusal, Stale};
use grid_types::api::{HEADER_EPOCH, HEADER_NODE, HEADER_ROLE, Role};
use grid_types::{Code, Faults};
use serde_json::{Value, json};

use super::fake::{EPOCH, Fake, JOB, job_body, refused};

const JOBS: &str = "/api/v1/namespaces/default/jobs";

fn mutations() -> Vec<String> {
    let mut paths = [JOBS, "/job", "/v1/jobs", "/v1/leases", "/api/v1/cluster/members"].map(str::to_owned).to_vec();
    paths
        .extend(["members/c2/promote", "members/c2/demote", "step-down"].map(|rest| format!("/api/v1/cluster/{rest}")));
    for job in [format!("{JOBS}/{JOB}"), format!("/job/{JOB}")] {
        paths.extend(["cancel", "confirm", "resume", "retry", "resolve"].map(|verb| format!("{job}/{verb}")));
    }
    for node in ["/node/node-ready", "/api/v1/nodes/node-ready"] {
        paths.extend(["drain", "undrain"].map(|verb| format!("{node}/{verb}")));
    }
    paths
}

/// A body that the mutation takes, and the status it then has.
fn good_body(path: &str) -> (Value, u16) {
    match path.rsplit('/').next() {
        Some("cancel" | "confirm" | "resume" | "retry" | "drain" | "undrain") => (json!({}), 200),
        Some("promote" | "demote" | "step-down") => (json!({}), 200),
        Some("members") => {
            let addresses = json!({"raft_addr": "h:1", "api_url": "http://h:2", "grpc_addr": "h:3"});
            let mut body = json!({"node_id": "c2", "raft_id": 7, "folder_id": "f"});
            body.as_object_mut().unwrap().extend(addresses.as_object().unwrap().clone());
            (body, 201)
        }
        Some("leases") => (json!({"agent": "edge-01"}), 200),
        Some("resolve") => (json!({"step": 0, "node": "web-01", "as": "failed"}), 200),
        _ => (job_body(), 201),
    }
}

fn reads() -> Vec<String> {
    let mut paths: Vec<String> =
        [JOBS, "/jobs", "/v1/jobs", "/nodes", "/v1/agents", "/api/v1/nodes"].map(str::to_owned).to_vec();
    paths.extend(["/node/node-ready", "/v1/agents/node-ready", "/api/v1/nodes/node-ready"].map(str::to_owned));
    for job in [format!("{JOBS}/{JOB}"), format!("/job/{JOB}")] {
        paths.extend(["", "/why", "/results", "/output/0/web-01", "/outputs/0"].map(|rest| format!("{job}{rest}")));
    }
    paths.push(format!("/v1/jobs/{JOB}"));
    paths.extend(["/controllers", "/api/v1/controllers", "/api/v1/cluster"].map(str::to_owned));
    paths
}

const OPEN: [&str; 6] = ["/role", "/status", "/healthz", "/health", "/readyz", "/ready"];

fn with_epoch(method: &Method, path: &str, epoch: &str, body: &Value) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(HEADER_EPOCH, epoch);
    let body = if *method == Method::GET { Body::empty() } else { Body::from(body.to_string()) };
    request.body(body).unwrap()
}

#[tokio::test]
async fn every_answer_carries_node_role_and_epoch() {
    let fake = Fake::leader();
    for path in reads().iter().map(String::as_str).chain(OPEN).chain(["/nowhere", "/node/none", "/jobs?x=1"]) {
        let answer = fake.get(path).await;
        assert_eq!(answer.headers[HEADER_NODE], "ctl-1", "{path}");
        assert_eq!(answer.headers[HEADER_ROLE], "LEADER", "{path}");
        assert_eq!(answer.headers[HEADER_EPOCH], "7", "{path}");
    }
    fake.inner().role.leader_epoch = None;
    assert_eq!(fake.get("/role").await.headers[HEADER_EPOCH], "0", "no epoch is known");
}

#[tokio::test]
async fn standby_is_hot_it_serves_every_read() {
    let fake = Fake::standby();
    for path in reads().iter().map(String::as_str).chain(OPEN) {
        assert_eq!(fake.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn e4_a_mutation_on_a_standby_is_not_leader_before_its_body_is_looked_at() {
    let fake = Fake::standby();
    let large = vec![b'x'; 2 * 1024 * 1024];
    for path in mutations() {
        for body in [b"{not json".to_vec(), Vec::new(), large.clone(), job_body().to_string().into_bytes()] {
            let answer = fake.post(&path, body).await;
            assert_eq!(answer.status, 409, "{path}");
            let mut json = answer.json();
            let message = json.as_object_mut().unwrap().remove("message").unwrap();
            assert!(message.as_str().unwrap().contains("http://127.0.0.1:4001"), "{message}");
            let wanted = json!({
                "error": "NOT_LEADER", "leader_id": "ctl-2", "leader_url": "http://127.0.0.1:4001",
                "leader_epoch": EPOCH, "node_id": "ctl-1", "role": "STANDBY",
            });
            assert_eq!(json, wanted, "{path}");
        }
    }
    let named = Request::post("/api/v1/namespaces/nope/jobs").header("content-type", "text/plain");
    let named = named.header("idempotency-key", "").header(HEADER_EPOCH, "1");
    assert_eq!(fake.send(named.body(Body::empty()).unwrap()).await.error(), refused(409, "NOT_LEADER"));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn not_leader_has_null_for_what_is_unknown() {
    let fake = Fake::standby();
    {
        let role = &mut fake.inner().role;
        (role.leader_id, role.leader_url, role.leader_epoch) = (None, None, None);
    }
    let json = fake.post("/job", "").await.json();
    for field in ["leader_id", "leader_url", "leader_epoch"] {
        assert_eq!(json.get(field), Some(&Value::Null), "{field}");
    }
}

#[tokio::test]
async fn e7_draining_takes_cancels_and_nothing_else() {
    let fake = Fake::leader();
    fake.inner().role.role = Role::Draining;
    for path in mutations() {
        let answer = fake.post(&path, "").await;
        if path.ends_with("/cancel") {
            assert_eq!(answer.status, 200, "{path}");
        } else {
            assert_eq!(answer.error(), refused(409, "NOT_LEADER"), "{path}");
            let json = answer.json();
            assert_eq!((&json["role"], &json["leader_url"]), (&json!("DRAINING"), &Value::Null));
        }
    }
}

#[tokio::test]
async fn another_leader_epoch_in_the_header_is_stale_epoch() {
    let fake = Fake::leader();
    let posts = mutations().into_iter().map(|path| (Method::POST, path));
    let all: Vec<_> = posts.chain(reads().into_iter().map(|path| (Method::GET, path))).collect();
    for (method, path) in &all {
        let answer = fake.send(with_epoch(method, path, "8", &json!({}))).await;
        let json = answer.json();
        assert_eq!(answer.status, 409, "{method} {path}");
        assert_eq!(json["error"], "STALE_EPOCH");
        assert_eq!(json["stale"], "leader");
        assert_eq!(json["leader_epoch"], EPOCH);
        assert!(json["message"].as_str().unwrap().contains("epoch 8"));
    }
    assert_eq!(fake.calls(), Vec::<String>::new());
    let current = fake.send(with_epoch(&Method::POST, "/job", "7", &job_body())).await;
    assert_eq!(current.status, 201);
}

/// Every mutation, by header and by body: the epoch goes on to where the mutation takes effect.
#[tokio::test]
async fn e9_the_epoch_of_a_request_travels_with_every_mutation() {
    for path in mutations() {
        let (body, status) = good_body(&path);
        let by_header = Request::post(&path)
            .header(HEADER_EPOCH, EPOCH.to_string())
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let fake = Fake::leader();
        let answer = fake.send(by_header).await;
        assert_eq!((answer.status.as_u16(), fake.inner().fenced.clone()), (status, vec![EPOCH]), "{path}");
        let mut body = body;
        body["leader_epoch"] = json!(EPOCH);
        let fake = Fake::leader();
        let answer = fake.post(&path, body.to_string()).await;
        assert_eq!((answer.status.as_u16(), fake.inner().fenced.clone()), (status, vec![EPOCH]), "{path}");
    }
    for path in ["/node/node-ready", "/api/v1/cluster/members/c2"] {
        let fake = Fake::leader();
        let removal = Request::delete(path).header(HEADER_EPOCH, EPOCH.to_string()).body(Body::empty()).unwrap();
        assert_eq!(fake.send(removal).await.status.as_u16(), 200, "{path}");
        assert_eq!(fake.inner().fenced, [EPOCH], "{path}");
    }
}

#[tokio::test]
async fn introspection_answers_whatever_epoch_the_client_believes_in() {
    let fake = Fake::leader();
    for path in OPEN {
        assert_eq!(fake.send(with_epoch(&Method::GET, path, "3", &json!({}))).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn an_epoch_header_that_is_no_number_is_400() {
    let fake = Fake::leader();
    for bad in ["", "x", "-1", "7.0", "99999999999999999999"] {
        let answer = fake.send(with_epoch(&Method::POST, "/job", bad, &job_body())).await;
        assert_eq!(answer.error(), refused(400, "BAD_REQUEST"), "{bad:?}");
        assert_eq!(answer.fault_fields(), ["X-Grid-Leader-Epoch"]);
    }
    let twice = Request::post("/job").header(HEADER_EPOCH, "7").header(HEADER_EPOCH, "7");
    let answer = fake.send(twice.body(Body::from(job_body().to_string())).unwrap()).await;
    assert_eq!(answer.error(), refused(400, "BAD_REQUEST"));
}

#[tokio::test]
async fn another_leader_epoch_in_a_body_is_stale_epoch() {
    let fake = Fake::leader();
    for path in mutations() {
        let (mut body, wanted) = good_body(&path);
        body["leader_epoch"] = json!(6);
        assert_eq!(fake.post(&path, body.to_string()).await.error(), refused(409, "STALE_EPOCH"), "{path}");
        for good in [json!(EPOCH), Value::Null] {
            body["leader_epoch"] = good;
            assert_eq!(fake.post(&path, body.to_string()).await.status, wanted, "{path}");
        }
        body["leader_epoch"] = json!("7");
        let answer = fake.post(&path, body.to_string()).await;
        assert_eq!(answer.error(), refused(422, "INVALID"), "{path}");
        assert_eq!(answer.fault_fields(), ["leader_epoch"], "{path}");
    }
}

/// Every code; a new one does not compile until it is added.
fn all_codes() -> Vec<Code> {
    let all = [
        Code::NotLeader,
        Code::StaleEpoch,
        Code::NoQuorum,
        Code::OutcomeUnknown,
        Code::QueueFull,
        Code::NotFound,
        Code::Conflict,
        Code::DuplicateNode,
        Code::Superseded,
        Code::BadRequest,
        Code::Invalid,
        Code::TooLarge,
        Code::UnsupportedMedia,
        Code::MethodNotAllowed,
        Code::WrongHost,
        Code::Forbidden,
        Code::Internal,
    ];
    for code in all {
        match code {
            Code::NotLeader | Code::StaleEpoch | Code::NoQuorum | Code::OutcomeUnknown | Code::QueueFull => {}
            Code::NotFound | Code::Conflict | Code::DuplicateNode | Code::BadRequest | Code::Invalid => {}
            Code::TooLarge | Code::UnsupportedMedia | Code::MethodNotAllowed | Code::Internal => {}
            Code::WrongHost | Code::Forbidden | Code::Superseded => {}
        }
    }
    all.to_vec()
}

#[tokio::test]
async fn the_table_of_codes_gives_each_its_status_and_body() {
    for code in all_codes() {
        let mut refusal = Refusal::new(code, "what to do next");
        refusal.stale = (code == Code::StaleEpoch).then_some(Stale::Job);
        let fake = Fake::leader();
        fake.inner().refusal = Some(refusal);
        let cancel = format!("/job/{JOB}/cancel");
        let answers = [fake.post("/job", job_body().to_string()).await, fake.post(&cancel, "").await];
        for answer in answers.into_iter().chain([fake.get(&format!("/job/{JOB}")).await, fake.get("/status").await]) {
            assert_eq!(answer.error(), (code.http_status(), code.word().to_owned()));
            let json = answer.json();
            match code {
                Code::NotLeader => assert_eq!(json["node_id"], "ctl-1"),
                Code::StaleEpoch => assert_eq!((&json["stale"], &json["leader_epoch"]), (&json!("job"), &json!(7))),
                Code::Internal => assert!(!json["message"].as_str().unwrap().contains("what to do next")),
                _ => assert_eq!(json, json!({"error": code.word(), "message": "what to do next", "details": []})),
            }
        }
    }
}

#[tokio::test]
async fn faults_of_the_controller_are_details_too_and_bounded() {
    let fake = Fake::leader();
    let mut faults = Faults::default();
    for i in 0..1_500 {
        faults.add(format!("f{i}"), "bad");
    }
    fake.inner().refusal = Some(Refusal::invalid(faults));
    let answer = fake.post("/job", job_body().to_string()).await;
    assert_eq!(answer.error(), refused(422, "INVALID"));
    assert_eq!(answer.fault_fields().len(), 1_001);
    assert_eq!(answer.json()["details"][1_000]["problem"], "500 more faults are not listed");
    assert_eq!(answer.json()["message"], "f0: bad; f1: bad; f2: bad; f3: bad; f4: bad; and 1495 more");
}

#[tokio::test]
async fn a_panic_in_a_handler_is_500_and_the_next_request_is_served() {
    let fake = Fake::leader();
    fake.inner().panics = true;
    let answer = fake.get("/jobs").await;
    assert_eq!(answer.error(), refused(500, "INTERNAL"));
    assert!(!answer.json()["message"].as_str().unwrap().contains("told to panic"));
    fake.inner().panics = false;
    assert_eq!(fake.get("/jobs").await.status, 200);
}

#[tokio::test]
async fn an_unknown_path_is_404_and_a_wrong_method_405_with_allow() {
    for fake in [Fake::leader(), Fake::standby()] {
        for path in ["/", "/nope", "/api/v1", "/api/v1/namespaces/default", "/job/", "/jobs/", "/v1/lease", "/%ff"] {
            assert_eq!(fake.get(path).await.error(), refused(404, "NOT_FOUND"), "{path}");
            assert_eq!(fake.post(path, "{").await.error(), refused(404, "NOT_FOUND"), "{path}");
        }
        let cases = [
            (Method::DELETE, JOBS, "GET,HEAD,POST"),
            (Method::GET, "/job", "POST"),
            (Method::POST, "/jobs", "GET,HEAD"),
            (Method::PUT, "/role", "GET,HEAD"),
            (Method::POST, "/healthz", "GET,HEAD"),
            (Method::GET, "/job/job-0c5t9v3k2m7qa/cancel", "POST"),
            (Method::GET, "/job/job-0c5t9v3k2m7qa/confirm", "POST"),
            (Method::PUT, "/job/job-0c5t9v3k2m7qa/resolve", "POST"),
            (Method::POST, "/job/job-0c5t9v3k2m7qa/why", "GET,HEAD"),
            (Method::OPTIONS, "/nodes", "GET,HEAD"),
        ];
        for (method, path, allow) in cases {
            let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
            let answer = fake.send(request).await;
            assert_eq!(answer.error(), refused(405, "METHOD_NOT_ALLOWED"), "{method} {path}");
            let mut allowed: Vec<_> = answer.headers["allow"].to_str().unwrap().split(',').collect();
            allowed.sort_unstable();
            assert_eq!(allowed.join(","), allow, "{method} {path}");
        }
    }
}
