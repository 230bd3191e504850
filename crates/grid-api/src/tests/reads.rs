//! Documents, lists, pages, outputs, health.

use axum::body::Body;
use axum::http::Request;
use grid_controller::Refusal;
use grid_types::Code;
use serde_json::{Value, json};

use super::fake::{EPOCH, Fake, JOB, job, node, refused};

const JOBS: &str = "/api/v1/namespaces/default/jobs";

#[tokio::test]
async fn a_job_document_is_passed_on_with_its_inline_results() {
    let fake = Fake::leader();
    for path in [format!("{JOBS}/{JOB}"), format!("/job/{JOB}"), format!("/v1/jobs/{JOB}")] {
        let answer = fake.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.json(), serde_json::to_value(job(JOB)).unwrap());
        assert_eq!(answer.json()["results"]["0"]["web-01"]["status"], "success");
    }
    for path in [format!("{JOBS}/job-0000000000000"), "/job/nope".to_owned(), "/v1/jobs/%20".to_owned()] {
        assert_eq!(fake.get(&path).await.error(), refused(404, "NOT_FOUND"), "{path}");
    }
}

#[tokio::test]
async fn an_unknown_namespace_is_404() {
    let fake = Fake::leader();
    for name in ["other", "Default", "default%20", "%00", "a.b"] {
        let base = format!("/api/v1/namespaces/{name}/jobs");
        for rest in ["", "/job-0c5t9v3k2m7qa", "/job-0c5t9v3k2m7qa/results"] {
            let answer = fake.get(&format!("{base}{rest}")).await;
            assert_eq!(answer.error(), refused(404, "NOT_FOUND"), "{base}{rest}");
            assert!(answer.json()["message"].as_str().unwrap().contains("namespace"), "{base}{rest}");
        }
        assert_eq!(fake.post(&base, "{}").await.error(), refused(404, "NOT_FOUND"), "{base}");
    }
    assert_eq!(fake.get("/api/v1/namespaces/%ff/jobs").await.error(), refused(400, "BAD_REQUEST"));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn canonical_lists_have_items_and_next_and_100_rows() {
    let fake = Fake::leader();
    let jobs = fake.get(JOBS).await.json();
    assert_eq!(jobs, json!({"items": [job(JOB)], "next": JOB}));
    let nodes = fake.get("/api/v1/nodes").await.json();
    assert_eq!(nodes["next"], "node-left");
    assert_eq!(nodes["items"][2]["status"], "unhealthy", "canonical nodes say exactly how they stand");
    let calls = fake.calls();
    assert_eq!(
        calls,
        [
            "jobs default JobQuery { limit: 100, waiting: false, filter: JobFilter { before: None, status: None, name: None, labels: {}, among: None } }",
            "nodes 100 None"
        ]
    );
}

#[tokio::test]
async fn alias_lists_are_bare_arrays_of_the_first_1000() {
    let fake = Fake::leader();
    for path in ["/jobs", "/v1/jobs"] {
        assert_eq!(fake.get(path).await.json(), json!([job(JOB)]), "{path}");
    }
    for path in ["/nodes", "/v1/agents"] {
        assert_eq!(fake.get(path).await.json().as_array().unwrap().len(), 6, "{path}");
    }
    let asked = "jobs default JobQuery { limit: 1000, waiting: false, filter: JobFilter { before: None, status: None, name: None, labels: {}, among: None } }";
    assert_eq!(fake.calls(), [asked, asked, "nodes 1000 None", "nodes 1000 None"]);
}

#[tokio::test]
async fn node_status_in_aliases_is_online_or_offline() {
    let fake = Fake::leader();
    let wanted = ["online", "online", "offline", "offline", "offline", "offline"];
    for path in ["/nodes", "/v1/agents"] {
        let nodes = fake.get(path).await.json();
        let got: Vec<_> = nodes.as_array().unwrap().iter().map(|n| n["status"].as_str().unwrap()).collect();
        assert_eq!(got, wanted, "{path}");
        assert_eq!(nodes[3]["state"], "dead");
    }
    let alias = fake.get("/node/node-warning").await.json();
    assert_eq!((&alias["status"], &alias["state"]), (&json!("online"), &json!("warning")));
    let exact = fake.get("/api/v1/nodes/node-warning").await.json();
    assert_eq!(exact, serde_json::to_value(node("warning")).unwrap());
    for path in ["/node/none", "/node/UPPER", "/api/v1/nodes/none", "/api/v1/nodes/a.b"] {
        assert_eq!(fake.get(path).await.error(), refused(404, "NOT_FOUND"), "{path}");
    }
}

#[tokio::test]
async fn lists_page_and_filter() {
    let fake = Fake::leader();
    assert_eq!(fake.get(&format!("{JOBS}?limit=1000&after={JOB}&status=running&waiting=true")).await.status, 200);
    let results =
        fake.get(&format!("/job/{JOB}/results?step=3&status=timed_out&node=web-02&after=3:web-01&limit=1&run=2")).await;
    assert_eq!(results.json()["next"], "0:web-01");
    assert_eq!(results.json()["items"][0]["status"], "timed_out");
    assert_eq!(fake.get(&format!("{JOBS}/{JOB}/results")).await.status, 200);
    assert_eq!(fake.get("/api/v1/nodes?limit=1&after=web-01").await.status, 200);
    let calls = fake.calls();
    assert!(
        calls[0].contains("limit: 1000, waiting: true, filter: JobFilter { before: Some(JobId(")
            && calls[0].contains("Some(Running)"),
        "{calls:?}"
    );
    let row = "ResultQuery { limit: 1, after: Some((3, \"web-01\")), step: Some(3), status: Some(TimedOut), node: Some(NodeId(Name(\"web-02\"))), run: Some(2) }";
    assert!(calls[1].ends_with(row), "{calls:?}");
    assert!(
        calls[2].ends_with("ResultQuery { limit: 100, after: None, step: None, status: None, node: None, run: None }"),
        "{calls:?}"
    );
    assert!(calls[3].starts_with("nodes 1 Some("), "{calls:?}");
}

#[tokio::test]
async fn query_parameters_outside_the_rules_are_400_and_all_named() {
    let fake = Fake::leader();
    let results = format!("/job/{JOB}/results");
    let cases: [(String, &[&str]); 14] = [
        (format!("{JOBS}?limit=0"), &["limit"]),
        (format!("{JOBS}?limit=1001"), &["limit"]),
        (format!("{JOBS}?limit=-1&status=done&after=7&colour=red"), &["limit", "after", "status", "colour"]),
        (format!("{JOBS}?limit=5&limit=6"), &["limit"]),
        (format!("{JOBS}?consistency=weak"), &["consistency"]),
        ("/role?consistency=strong".to_owned(), &["consistency"]),
        (format!("{results}?step=x&status=ok&after=3"), &["after", "step", "status"]),
        (format!("{results}?after=3:UP"), &["after"]),
        ("/nodes?status=ready".to_owned(), &["status"]),
        ("/api/v1/nodes?after=A".to_owned(), &["after"]),
        ("/node/node-ready?a=1&b=2".to_owned(), &["a", "b"]),
        ("/role?x".to_owned(), &["x"]),
        ("/status?x=%ff".to_owned(), &["x"]),
        (format!("/job/{JOB}/output/0/web-01?tail=1"), &["tail"]),
    ];
    for (path, fields) in cases {
        let answer = fake.get(&path).await;
        assert_eq!(answer.error(), refused(400, "BAD_REQUEST"), "{path}");
        assert_eq!(answer.fault_fields(), fields, "{path}");
    }
    for path in ["/job?wait=1", "/v1/jobs?x=1", "/job/job-0c5t9v3k2m7qa/cancel?now"] {
        assert_eq!(fake.post(path, "{}").await.error(), refused(400, "BAD_REQUEST"), "{path}");
    }
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn an_output_is_its_raw_bytes_with_the_total() {
    let fake = Fake::leader();
    for base in [format!("{JOBS}/{JOB}"), format!("/job/{JOB}")] {
        let answer = fake.get(&format!("{base}/output/2/web-01")).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.bytes, b"<b>\xff\x00tail");
        assert_eq!(answer.headers["content-type"], "application/octet-stream");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers[crate::HEADER_OUTPUT_TOTAL], "70000");
        assert_eq!(answer.headers[crate::HEADER_OUTPUT_OFFSET], "69991");
        assert_eq!(answer.headers[crate::HEADER_OUTPUT_ATTEMPT], "2");
        for missing in ["2/silent", "x/web-01", "-1/web-01", "2/UP"] {
            let answer = fake.get(&format!("{base}/output/{missing}")).await;
            assert_eq!(answer.error(), refused(404, "NOT_FOUND"), "{missing}");
        }
        let groups = fake.get(&format!("{base}/outputs/2")).await.json();
        let group = json!({"count": 2, "nodes": ["web-01", "web-02"], "output": "ok\n", "total_bytes": 3});
        assert_eq!(groups, json!({"items": [group], "next": null}));
        assert_eq!(fake.get(&format!("{base}/outputs/x")).await.error(), refused(404, "NOT_FOUND"));
    }
    assert!(
        fake.calls()[0].starts_with(&format!(
            "output default {JOB} OutputQuery {{ step: StepIndex(2), node: NodeId(Name(\"web-01\"))"
        )),
        "{:?}",
        fake.calls()
    );
}

#[tokio::test]
async fn role_says_who_leads_in_which_epoch() {
    let json = Fake::standby().get("/role").await.json();
    let wanted = [
        ("node_id", json!("ctl-1")),
        ("role", json!("STANDBY")),
        ("leader_epoch", json!(EPOCH)),
        ("leader_id", json!("ctl-2")),
        ("leader_url", json!("http://127.0.0.1:4001")),
    ];
    for (field, value) in wanted {
        assert_eq!(json[field], value, "{field}");
    }
    let fake = Fake::standby();
    fake.inner().role.leader_url = None;
    assert_eq!(fake.get("/role").await.json().get("leader_url"), Some(&Value::Null));
}

#[tokio::test]
async fn status_is_one_flat_document() {
    let json = Fake::leader().get("/status").await.json();
    assert_eq!((&json["cluster_id"], &json["role"]), (&json!("c"), &json!("LEADER")));
    assert_eq!((&json["nodes"]["ready"], &json["applied_index"]), (&json!(3), &json!(9)));
}

#[tokio::test]
async fn health_is_200_in_any_role_and_readiness_503_without_a_leader() {
    let fake = Fake::standby();
    fake.inner().ready = false;
    for path in ["/healthz", "/health", "/healthz?probe=1"] {
        assert_eq!(fake.get(path).await.status, 200, "{path}");
    }
    for path in ["/readyz", "/ready", "/readyz?probe=1"] {
        assert_eq!(fake.get(path).await.error(), refused(503, "NO_QUORUM"), "{path}");
    }
    fake.inner().ready = true;
    for path in ["/readyz", "/ready"] {
        assert_eq!(fake.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let answer = Fake::leader().send(Request::head("/jobs").body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.bytes.len()), (200, 0));
}

#[tokio::test]
async fn backends_are_told_as_they_are_declared_by_any_role() {
    for fake in [Fake::leader(), Fake::standby()] {
        let list = fake.get("/api/v1/backends").await.json();
        let names: Vec<_> = list["items"].as_array().unwrap().iter().map(|b| b["name"].clone()).collect();
        assert_eq!(names, ["ping", "apt", "systemd", "rke2", "command", "script", "file", "http", "wait", "test"]);
        assert_eq!(list["next"], Value::Null);
        let apt = fake.get("/api/v1/backends/apt").await.json();
        assert_eq!(apt, list["items"][1]);
        assert_eq!(apt["actions"][0]["params"][0]["name"], "package");
        let unknown = fake.get("/api/v1/backends/atp").await;
        assert_eq!(unknown.error(), refused(404, "NOT_FOUND"));
        assert!(unknown.json()["message"].as_str().unwrap().contains("there are ping, apt"));
        assert_eq!(fake.get("/api/v1/backends?x=1").await.error(), refused(400, "BAD_REQUEST"));
        assert_eq!(fake.post("/api/v1/backends", "{}").await.error(), refused(405, "METHOD_NOT_ALLOWED"));
    }
}

#[tokio::test]
async fn a_backup_says_how_long_it_is_and_what_it_must_hash_to() {
    for fake in [Fake::leader(), Fake::standby()] {
        let answer = fake.get("/api/v1/cluster/backup").await;
        assert_eq!((answer.status.as_u16(), answer.bytes.as_slice()), (200, &b"GRIDBKUP"[..]));
        for (name, value) in [
            ("content-length", "8"),
            ("content-type", "application/octet-stream"),
            ("x-grid-backup-blake3", "ab".repeat(32).as_str()),
            ("x-grid-backup-index", "812"),
            ("x-grid-backup-epoch", "4"),
            ("x-grid-backup-jobs", "3"),
            ("x-grid-backup-stale", "false"),
            ("x-grid-backup-taken-at", "2026-02-12T10:30:00.000Z"),
        ] {
            assert_eq!(answer.headers[name], value, "{name}");
        }
        assert_eq!(fake.get("/api/v1/cluster/backup?stale=true").await.headers["x-grid-backup-stale"], "true");
        assert_eq!(fake.get("/api/v1/cluster/backup?stale=yes").await.error(), refused(400, "BAD_REQUEST"));
        assert_eq!(fake.get("/api/v1/cluster/backup?fast=1").await.error(), refused(400, "BAD_REQUEST"));
    }
    let busy = Fake::leader();
    busy.inner().refusal = Some(Refusal::new(Code::Conflict, "another backup is being taken"));
    assert_eq!(busy.get("/api/v1/cluster/backup").await.error(), refused(409, "CONFLICT"));
}
