//! How the client handles every kind of answer.
//!
//! The server here is a script, because a real controller cannot be made to refuse, break a connection or lie about
//! the leader on demand. The same paths against real controllers are tested in `crates/grid/tests`.

mod fake;

use std::time::Duration;

use fake::{Fake, nobody};
use grid_client::{Client, Error, LogsQuery, OnceSteps, Options, ResultsQuery, parse_servers};
use grid_types::api::Resolution;
use grid_types::{Code, JobId, JobStatus, Outcome, StepIndex};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const JOB: &str = "job-0c5t9v3k2m7qa";

fn client(servers: &str, patience: Duration) -> Client {
    Client::new(parse_servers(servers).unwrap(), Options { patience }).unwrap()
}

/// Patience for calls that succeed: so long that only a hang can use it up.
const AMPLE: Duration = Duration::from_secs(60);
/// Patience for calls that must give up.
const SHORT: Duration = Duration::from_millis(300);

fn job_id() -> JobId {
    JOB.parse().unwrap()
}

fn job(status: &str) -> Value {
    json!({
        "id": JOB, "namespace": "default", "target": {"scope": "all"}, "tasks": [], "strategy": "fail-fast",
        "status": status, "reason": null, "step": 0, "expected": ["web-01"], "owner": null, "job_epoch": 1,
        "leader_epoch": 1, "counts": {}, "steps": [], "created_at": "", "updated_at": "",
    })
}

fn not_leader(leader_url: Option<&str>) -> (u16, Value) {
    let body = json!({
        "error": "NOT_LEADER", "message": "not the leader", "leader_id": null, "leader_url": leader_url,
        "leader_epoch": null, "node_id": "c2", "role": "STANDBY",
    });
    (409, body)
}

fn refusal(status: u16, word: &str) -> (u16, Value) {
    (status, json!({"error": word, "message": "no"}))
}

#[tokio::test]
async fn i14_not_leader_is_followed_and_the_leader_is_asked_first_from_then_on() {
    let leader = Fake::start(|_, _| (201, job("pending"))).await;
    let url = leader.url();
    let standby = Fake::start(move |_, _| not_leader(Some(&url))).await;
    let client = client(&standby.url(), AMPLE);
    let doc = client.submit("default", &json!({"target": "all"})).await.unwrap();
    assert_eq!((doc.id.as_str(), doc.status), (JOB, JobStatus::Pending));
    client.submit("default", &json!({"target": "all"})).await.unwrap();
    assert_eq!((standby.seen().len(), leader.seen().len()), (1, 2));
    let sent = &leader.seen()[0];
    assert_eq!((sent.method.as_str(), sent.path_and_query.as_str()), ("POST", "/api/v1/namespaces/default/jobs"));
    assert_eq!(sent.body, json!({"target": "all"}));
}

#[tokio::test]
async fn e4_a_submit_is_repeated_under_one_key_until_its_outcome_is_known() {
    let server = Fake::start(|n, _| match n {
        0 => refusal(503, "OUTCOME_UNKNOWN"),
        1 => refusal(503, "NO_QUORUM"),
        _ => (200, job("running")),
    })
    .await;
    let client = client(&server.url(), AMPLE);
    client.submit("default", &json!({})).await.unwrap();
    client.submit("default", &json!({})).await.unwrap();
    let keys: Vec<_> = server.seen().into_iter().map(|s| s.key.unwrap()).collect();
    assert_eq!(keys.len(), 4);
    assert!(keys[0] == keys[1] && keys[1] == keys[2], "{keys:?}");
    assert_ne!(keys[2], keys[3], "another submit is another job");
}

#[tokio::test]
async fn e4_a_submit_survives_a_connection_that_breaks_before_the_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut keys = Vec::new();
        for answer in [None, Some(job("pending").to_string())] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut text = String::new();
            while !text.contains("\r\n\r\n{}") {
                let mut buffer = [0; 1024];
                let n = socket.read(&mut buffer).await.unwrap();
                text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
            }
            keys.extend(text.lines().find_map(|l| l.strip_prefix("idempotency-key: ").map(str::to_owned)));
            if let Some(body) = answer {
                let head = format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n", body.len());
                socket.write_all((head + &body).as_bytes()).await.unwrap();
            }
        }
        keys
    });
    client(&url, AMPLE).submit("default", &json!({})).await.unwrap();
    let keys = server.await.unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn every_server_is_tried() {
    let alive = Fake::start(|_, _| (200, job("running"))).await;
    let gone = nobody();
    let servers = format!("{},{}", gone.url, alive.url());
    assert_eq!(client(&servers, AMPLE).job("default", job_id()).await.unwrap().status, JobStatus::Running);
}

#[tokio::test]
async fn a_leader_that_is_gone_does_not_hide_the_other_servers() {
    let gone = nobody();
    let url = gone.url.clone();
    let standby = Fake::start(move |_, _| not_leader(Some(&url))).await;
    let leader = Fake::start(|_, _| (201, job("pending"))).await;
    let servers = format!("{},{}", standby.url(), leader.url());
    client(&servers, AMPLE).submit("default", &json!({})).await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_unreachable_once_patience_is_over() {
    let server = nobody();
    let error = client(&server.url, SHORT).status().await.unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let Error::Unreachable { waited, tried, maybe_done } = error else { panic!("{error:?}") };
    assert!(waited >= SHORT && !maybe_done, "{waited:?}");
    assert!(tried.len() == 1 && tried[0].starts_with(&server.url), "{tried:?}");
}

#[tokio::test]
async fn servers_that_point_at_each_other_end_in_not_leader() {
    let first = Fake::start(|_, _| not_leader(None)).await;
    let url = first.url();
    let second = Fake::start(move |_, _| not_leader(Some(&url))).await;
    let url = second.url();
    let third = Fake::start(move |_, _| not_leader(Some(&url))).await;
    let error = client(&third.url(), SHORT).submit("default", &json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.exit_code()), (Some(Code::NotLeader), 3));
    assert!(!first.seen().is_empty() && !error.maybe_done());
}

#[tokio::test]
async fn a_refusal_is_final_and_keeps_its_details() {
    let server = Fake::start(|_, _| {
        let details = json!([{"field": "tasks[0].action", "problem": "unknown"}]);
        (422, json!({"error": "INVALID", "message": "bad job", "details": details}))
    })
    .await;
    let error = client(&server.url(), AMPLE).submit("default", &json!({})).await.unwrap_err();
    assert_eq!((error.exit_code(), server.seen().len()), (2, 1));
    let Error::Refused(refusal) = error else { panic!("{error:?}") };
    assert_eq!(refusal.details[0].field, "tasks[0].action");
    assert_eq!(refusal.to_string(), "bad job (INVALID)");
}

#[tokio::test]
async fn a_cancel_whose_answer_was_lost_is_not_reported_as_a_conflict() {
    let server = Fake::start(|n, seen| match (n, seen.method.as_str()) {
        (0, _) => refusal(503, "OUTCOME_UNKNOWN"),
        (_, "POST") => refusal(409, "CONFLICT"),
        _ => (200, job("cancelled")),
    })
    .await;
    let done = client(&server.url(), AMPLE).cancel("default", job_id()).await.unwrap();
    assert_eq!(done.status, JobStatus::Cancelled);
}

#[tokio::test]
async fn a_cancel_of_an_ended_job_is_a_conflict() {
    let server = Fake::start(|_, _| refusal(409, "CONFLICT")).await;
    let error = client(&server.url(), AMPLE).cancel("default", job_id()).await.unwrap_err();
    assert_eq!((error.exit_code(), server.seen().len()), (5, 1));
}

fn cluster(members: &[&str]) -> Value {
    let member = |id: &&str| {
        json!({
            "id": id, "role": null, "voter": true, "leader_epoch": null, "version": null, "api_url": "", "grpc_addr": "",
            "raft_addr": "", "raft_id": 1, "last_index": null, "applied_index": null, "lag": null, "last_contact_ms": null,
        })
    };
    let members: Vec<_> = members.iter().map(member).collect();
    json!({"cluster_id": "x", "leader_id": "c1", "leader_epoch": 1, "voters": 2, "majority": 2, "members": members})
}

#[tokio::test]
async fn a_member_whose_removal_was_not_answered_is_not_reported_as_missing() {
    let server = Fake::start(|n, seen| match (n, seen.method.as_str()) {
        (0, _) => refusal(503, "OUTCOME_UNKNOWN"),
        (_, "DELETE") => refusal(404, "NOT_FOUND"),
        _ => (200, cluster(&["c1", "c2"])),
    })
    .await;
    let doc = client(&server.url(), AMPLE).remove_member("c3").await.unwrap();
    assert_eq!(doc.members.len(), 2);
}

#[tokio::test]
async fn a_member_that_never_was_is_not_found() {
    let server = Fake::start(|_, _| refusal(404, "NOT_FOUND")).await;
    let error = client(&server.url(), AMPLE).remove_member("c9").await.unwrap_err();
    assert_eq!((error.exit_code(), server.seen().len()), (4, 1));
}

#[tokio::test]
async fn a_stream_that_ends_as_soon_as_it_is_opened_is_given_up() {
    let server = Fake::start(|_, _| (200, json!("\n"))).await;
    let client = client(&server.url(), AMPLE);
    let mut stream = client.logs("default", job_id(), LogsQuery::default()).await.unwrap();
    let error = stream.next().await.unwrap_err();
    assert!(error.to_string().contains("ended 20 times"), "{error}");
    assert_eq!((error.exit_code(), server.seen().len()), (3, 21));
}

#[tokio::test]
async fn decisions_go_out_as_the_contract_writes_them() {
    let server =
        Fake::start(|_, _| (200, json!({"id": JOB, "status": "running", "why": "step 0 runs on web-01"}))).await;
    let client = client(&server.url(), AMPLE);
    client.confirm("default", job_id(), None).await.unwrap();
    client.confirm("team-a", job_id(), Some(2)).await.unwrap();
    let done = client.resolve("default", job_id(), StepIndex(3), "web-01", Resolution::Retry).await.unwrap();
    assert_eq!((done.id.as_str(), done.status), (JOB, JobStatus::Running));
    assert_eq!(client.why("default", job_id()).await.unwrap().why, "step 0 runs on web-01");
    let sent: Vec<_> = server.seen().into_iter().map(|s| (s.method, s.path_and_query, s.body)).collect();
    let path = |namespace: &str, verb: &str| format!("/api/v1/namespaces/{namespace}/jobs/{JOB}/{verb}");
    let post = |path: String, body: Value| ("POST".to_owned(), path, body);
    assert_eq!(
        sent,
        [
            post(path("default", "confirm"), json!({})),
            post(path("team-a", "confirm"), json!({"phase": 2})),
            post(path("default", "resolve"), json!({"step": 3, "node": "web-01", "as": "retry"})),
            ("GET".to_owned(), path("default", "why"), Value::Null),
        ]
    );
}

#[tokio::test]
async fn w8_a_decision_that_must_not_happen_twice_is_not_sent_again_once_its_answer_is_lost() {
    let lost = [refusal(503, "OUTCOME_UNKNOWN"), (504, json!("gateway timeout"))];
    for answer in lost {
        let server = Fake::start(move |_, _| answer.clone()).await;
        let client = client(&server.url(), AMPLE);
        let unnamed = client.confirm("default", job_id(), None).await.unwrap_err();
        assert!(unnamed.maybe_done() && unnamed.exit_code() == 3, "{unnamed:?}");
        let retry = client.resolve("default", job_id(), StepIndex(0), "web-01", Resolution::Retry).await.unwrap_err();
        assert!(retry.maybe_done() && retry.exit_code() == 3, "{retry:?}");
        // The run that it began may have ended by then: a second one would be another run.
        let resume = client.resume("default", job_id(), OnceSteps::Rerun).await.unwrap_err();
        assert!(resume.maybe_done() && resume.exit_code() == 3, "{resume:?}");
        let rerun = client.retry("default", job_id(), OnceSteps::Keep).await.unwrap_err();
        assert!(rerun.maybe_done() && rerun.exit_code() == 3, "{rerun:?}");
        assert_eq!(server.seen().len(), 4);
    }
}

#[tokio::test]
async fn a_decision_that_certainly_did_not_happen_is_sent_again() {
    let gone = nobody();
    let server = Fake::start(|n, _| match n {
        0 => refusal(503, "NO_QUORUM"),
        1 => not_leader(None),
        _ => (200, json!({"id": JOB, "status": "running"})),
    })
    .await;
    let servers = format!("{},{}", gone.url, server.url());
    client(&servers, AMPLE).confirm("default", job_id(), None).await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_decision_that_names_its_place_is_repeated_and_a_conflict_then_says_that_it_may_be_its_own_doing() {
    let script =
        |n: usize, _: &fake::Seen| if n == 0 { refusal(503, "OUTCOME_UNKNOWN") } else { refusal(409, "CONFLICT") };
    let server = Fake::start(script).await;
    let error = client(&server.url(), AMPLE).confirm("default", job_id(), Some(1)).await.unwrap_err();
    assert_eq!((error.exit_code(), error.maybe_done(), server.seen().len()), (5, true, 2));
    let server = Fake::start(script).await;
    let call = client(&server.url(), AMPLE);
    let error = call.resolve("default", job_id(), StepIndex(0), "web-01", Resolution::Success).await.unwrap_err();
    assert_eq!((error.exit_code(), error.maybe_done(), server.seen().len()), (5, true, 2));
}

#[tokio::test]
async fn a_decision_about_what_does_not_wait_is_a_conflict() {
    let server = Fake::start(|_, _| refusal(409, "CONFLICT")).await;
    let error = client(&server.url(), AMPLE).confirm("default", job_id(), None).await.unwrap_err();
    assert_eq!((error.exit_code(), error.maybe_done(), server.seen().len()), (5, false, 1));
}

#[tokio::test]
async fn what_is_no_controller_is_named_and_not_asked_again() {
    let server = Fake::start(|_, _| (200, json!("<html>hello"))).await;
    let error = client(&server.url(), AMPLE).role().await.unwrap_err();
    assert!(error.to_string().contains("does not answer as a Grid controller"), "{error}");
    assert_eq!((error.exit_code(), server.seen().len()), (3, 1));
}

#[tokio::test]
async fn queries_go_out_as_the_contract_writes_them() {
    let server = Fake::start(|_, _| (200, json!({"items": [], "next": null}))).await;
    let query = ResultsQuery {
        step: Some(StepIndex(1)),
        status: Some(Outcome::TimedOut),
        node: Some("web-02".to_owned()),
        after: Some("0/web-01".to_owned()),
        limit: Some(50),
        run: Some(2),
    };
    let client = client(&server.url(), AMPLE);
    client.results("team-a", job_id(), &query).await.unwrap();
    client.nodes(None, None, Some(7)).await.unwrap();
    let paths: Vec<_> = server.seen().into_iter().map(|s| s.path_and_query).collect();
    assert_eq!(
        paths,
        [
            format!(
                "/api/v1/namespaces/team-a/jobs/{JOB}/results?step=1&status=timed_out&node=web-02&after=0%2Fweb-01&limit=50&run=2"
            ),
            "/api/v1/nodes?limit=7".to_owned(),
        ]
    );
}
