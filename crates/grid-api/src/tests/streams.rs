//! Streams: events for those who listen, outputs as they are printed.

use axum::body::Body;
use axum::http::Request;

use super::fake::{Fake, JOB};

async fn get(fake: &Fake, path: &str, headers: &[(&str, &str)]) -> super::fake::Answer {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    fake.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn events_are_sse_with_id_event_and_data_that_has_role_and_epoch() {
    for path in ["/v1/events", "/api/v1/events"] {
        let fake = Fake::leader();
        let answer = get(&fake, path, &[("accept", "text/event-stream")]).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let text = String::from_utf8(answer.bytes).unwrap();
        let frames: Vec<_> = text.split("\n\n").filter(|frame| frame.starts_with("id: ")).collect();
        assert_eq!(frames.len(), 2, "{text}");
        let (head, data) = frames[0].split_once("\ndata: ").unwrap();
        assert_eq!(head, "id: 8\nevent: JobStarted");
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["role"], &data["leader_epoch"]), (&"LEADER".into(), &7.into()));
    }
}

#[tokio::test]
async fn a_stream_resumes_behind_last_event_id_which_beats_after() {
    let fake = Fake::standby();
    get(&fake, "/v1/events?after=3&kind=JobEnded,NodeDead&node=web-01", &[("last-event-id", "5")]).await;
    get(&fake, "/v1/events?after=3", &[]).await;
    get(&fake, "/v1/events", &[]).await;
    let calls = fake.calls();
    assert!(calls[0].contains("[\"JobEnded\", \"NodeDead\"]") && calls[0].ends_with("Some(5)"), "{calls:?}");
    assert!(calls[1].ends_with("Some(3)") && calls[2].ends_with("None"), "{calls:?}");
    let bad = get(&fake, "/v1/events", &[("last-event-id", "five")]).await;
    assert_eq!((bad.error(), bad.fault_fields()), ((400, "BAD_REQUEST".to_owned()), vec!["Last-Event-ID".to_owned()]));
    let bad = get(&fake, "/v1/events?job=x&node=-&colour=red", &[]).await;
    assert_eq!(bad.fault_fields(), ["job", "node", "colour"]);
}

#[tokio::test]
async fn who_accepts_json_gets_a_page() {
    let fake = Fake::leader();
    let page = get(&fake, "/v1/events?limit=2&before=10", &[("accept", "application/json")]).await;
    let json = page.json();
    assert_eq!(
        (&json["items"][0]["id"], &json["next"], &json["items"][0]["role"]),
        (&9.into(), &"8".into(), &"LEADER".into())
    );
    assert!(fake.calls()[0].starts_with("events "), "{:?}", fake.calls());
}

#[tokio::test]
async fn logs_are_one_record_a_line_and_end_with_an_end() {
    for path in [format!("/job/{JOB}/logs"), format!("/api/v1/namespaces/default/jobs/{JOB}/logs")] {
        let fake = Fake::leader();
        let answer = get(&fake, &format!("{path}?follow=true&step=1&node=web-01,web-02&tail=5&attempt=2"), &[]).await;
        assert_eq!(answer.headers["content-type"], "application/x-ndjson");
        let text = String::from_utf8(answer.bytes).unwrap();
        let records: Vec<serde_json::Value> =
            text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&records[0]["kind"], &records[0]["word"]), (&"note".into(), &"away".into()));
        assert_eq!(records[1], serde_json::json!({"kind": "end", "status": "completed"}));
        let call = &fake.calls()[0];
        for part in ["step: Some(StepIndex(1))", "[\"web-01\", \"web-02\"]", "follow: true", "tail: Some(5)"] {
            assert!(call.contains(part), "{call}");
        }
    }
    let fake = Fake::leader();
    let bad = get(&fake, &format!("/job/{JOB}/logs?follow=maybe&step=x&node=UP&tail=0&attempt=0&since=1h"), &[]).await;
    assert_eq!(bad.fault_fields(), ["follow", "step", "node", "attempt", "tail", "since"]);
}

#[tokio::test]
async fn a_reader_that_comes_back_says_where_it_was() {
    let fake = Fake::leader();
    let path = format!("/job/{JOB}/logs?follow=true");
    let cursor = r#"{"step":0,"node":"web-01","epoch":1,"attempt":2,"run":7,"next":99}"#;
    let answer = fake.post(&path, format!("{{\"from\":[{cursor}]}}")).await;
    assert_eq!(answer.status.as_u16(), 200);
    assert!(fake.calls()[0].contains("run: 7, next: 99"), "{:?}", fake.calls());
    assert_eq!(fake.post(&path, r#"{"from":[{"step":0}]}"#).await.error(), (422, "INVALID".to_owned()));
    assert_eq!(fake.post(&path, "").await.status.as_u16(), 200);
}

#[tokio::test]
async fn whoever_wants_live_outputs_is_sent_to_the_leader() {
    let fake = Fake::standby();
    for path in [format!("/job/{JOB}/logs"), format!("/job/{JOB}/output/0/web-01?follow=true")] {
        assert_eq!(get(&fake, &path, &[]).await.error(), (409, "NOT_LEADER".to_owned()), "{path}");
    }
    assert_eq!(get(&fake, &format!("/job/{JOB}/output/0/web-01"), &[]).await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_kind_that_no_event_has_is_refused() {
    let answer = get(&Fake::leader(), "/v1/events?kind=JobEnded,Jobended", &[]).await;
    assert_eq!(answer.status, 400);
    assert!(answer.json()["details"][0]["problem"].as_str().unwrap().contains("NodeDead"), "{}", answer.json());
}
