//! Bodies that are no job.

use axum::body::Body;
use axum::http::Request;
use grid_types::limits::MAX_BODY_BYTES;

use super::fake::{Fake, job_body, refused};

#[tokio::test]
async fn what_is_not_json_is_400_with_line_and_column() {
    let fake = Fake::leader();
    let cases: [(&[u8], &str); 6] = [
        (b"{\n \"target\": oops}", "line 2 column"),
        (b"{\"target\": \"\xff\xfe\"}", "line 1 column"),
        (b"\xff", "line 1 column"),
        (b"{}{}", "line 1 column 3"),
        (b"target: all", "line 1 column"),
        (b"   ", "line 1 column"),
    ];
    for (body, place) in cases {
        let answer = fake.post("/job", body.to_vec()).await;
        assert_eq!(answer.error(), refused(400, "BAD_REQUEST"), "{body:?}");
        let json = answer.json();
        assert!(json["message"].as_str().unwrap().contains(place), "{json}");
        assert_eq!(answer.fault_fields(), [""], "the document as a whole");
    }
    assert_eq!(fake.post("/job", "").await.error(), refused(400, "BAD_REQUEST"));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn duplicate_json_keys_are_400_naming_them() {
    let fake = Fake::leader();
    let body = r#"{"target":"all","target":"node:a","tasks":[{"backend":"ping","action":"echo","action":"sleep"}]}"#;
    let answer = fake.post("/job", body).await;
    assert_eq!(answer.error(), refused(400, "BAD_REQUEST"));
    assert_eq!(answer.fault_fields(), ["target", "tasks[0].action"]);
    let twice = r#"{"leader_epoch":7,"leader_epoch":8}"#;
    let answer = fake.post("/job/job-0c5t9v3k2m7qa/cancel", twice).await;
    assert_eq!(answer.error(), refused(400, "BAD_REQUEST"));
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn deep_wide_and_foreign_documents_are_4xx() {
    let fake = Fake::leader();
    assert_eq!(fake.post("/job", "[".repeat(200_000)).await.error(), refused(400, "BAD_REQUEST"));
    let phases = vec![r#"{"backend":"ping","action":"echo"}"#; 10_000].join(",");
    let wide = fake.post("/job", format!(r#"{{"target":"all","tasks":[{phases}]}}"#)).await;
    assert_eq!(wide.error(), refused(422, "INVALID"));
    assert_eq!(wide.fault_fields(), ["tasks"]);
    for body in ["7", "null", "[]", "\"all\"", "true"] {
        assert_eq!(fake.post("/job", body).await.error(), refused(422, "INVALID"), "{body}");
    }
    let unknown: Vec<_> = (0..50_000).map(|i| format!("\"f{i}\":0")).collect();
    let answer = fake.post("/job", format!("{{{}}}", unknown.join(","))).await;
    assert_eq!(answer.error(), refused(422, "INVALID"));
    assert!(answer.bytes.len() < 256 * 1024, "an answer of {} bytes", answer.bytes.len());
    assert_eq!(fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn json_is_the_only_content_type() {
    let fake = Fake::leader();
    let post = |kind: &[u8]| {
        let request = Request::post("/job").header("content-type", kind);
        request.body(Body::from(job_body().to_string())).unwrap()
    };
    for good in [&b"application/json"[..], b"application/json; charset=utf-8", b"Application/JSON ;x=1"] {
        assert_eq!(fake.send(post(good)).await.status, 201);
    }
    for bad in [&b"text/plain"[..], b"application/x-www-form-urlencoded", b"application/jsonp", b"", b"\xff"] {
        assert_eq!(fake.send(post(bad)).await.error(), refused(415, "UNSUPPORTED_MEDIA_TYPE"));
    }
}

#[tokio::test]
async fn a_body_of_1_mib_is_read_and_one_byte_more_is_413() {
    let fake = Fake::leader();
    let mut body = job_body().to_string();
    body.push_str(&" ".repeat(MAX_BODY_BYTES - body.len()));
    assert_eq!(fake.post("/job", body.clone()).await.status, 201);
    body.push(' ');
    assert_eq!(fake.post("/job", body).await.error(), refused(413, "TOO_LARGE"));
}
