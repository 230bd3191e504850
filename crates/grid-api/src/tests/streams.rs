//! Events: a stream for those who listen, a page for those who ask.

use axum::body::Body;
use axum::http::Request;

use super::fake::Fake;

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
