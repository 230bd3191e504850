//! A scripted HTTP server on a free loopback port: every request is recorded and handed to a closure.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

pub const JOB: &str = "job-0c5t9v3k2m7qa";

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `POST /path?query`.
    pub line: String,
    pub body: Value,
    pub authorization: Option<String>,
}

pub struct Fake {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    /// `script` gets how often the same line was asked before, and the request.
    pub async fn start(script: impl Fn(usize, &Seen) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (log, script) = (Arc::clone(&seen), Arc::new(script));
        let router = Router::new().fallback(move |request: Request| {
            let (log, script) = (Arc::clone(&log), Arc::clone(&script));
            async move {
                let (head, body) = request.into_parts();
                let bytes = to_bytes(body, 1 << 20).await.unwrap();
                let request = Seen {
                    line: format!("{} {}", head.method, head.uri.path_and_query().unwrap()),
                    body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
                    authorization: head.headers.get("authorization").map(|v| v.to_str().unwrap().to_owned()),
                };
                let before = {
                    let mut log = log.lock().unwrap();
                    log.push(request.clone());
                    log.iter().filter(|r| r.line == request.line).count() - 1
                };
                let (status, body) = script(before, &request);
                let text = if let Value::String(plain) = body { plain } else { body.to_string() };
                let mut response = Response::new(Body::from(text));
                // Ages are reckoned against the controller's clock, so that they are the same in every run.
                response.headers_mut().insert("date", HeaderValue::from_static("Thu, 12 Feb 2026 10:33:10 GMT"));
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                response
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { addr, seen }
    }

    /// Accepts a submit and then shows the job as each of `docs` in turn; the last one stays.
    pub async fn job(docs: Vec<Value>) -> Self {
        Self::start(move |before, seen| match seen.line.as_str() {
            "POST /api/v1/namespaces/default/jobs" => (201, docs[0].clone()),
            line if line == job_line() => (200, docs[before.min(docs.len() - 1)].clone()),
            _ => refusal(404, "NOT_FOUND", "no such path"),
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// Asks for the job.
pub fn job_line() -> String {
    format!("GET /api/v1/namespaces/default/jobs/{JOB}")
}

pub fn refusal(status: u16, word: &str, message: &str) -> (u16, Value) {
    (status, json!({"error": word, "message": message}))
}

fn counts(given: &[(&str, u64)]) -> Value {
    let words = ["pending", "running", "success", "failed", "timed_out", "cancelled", "skipped", "unknown"];
    let mut all: serde_json::Map<_, _> = words.iter().map(|w| ((*w).to_owned(), json!(0))).collect();
    all.extend(given.iter().map(|(word, n)| ((*word).to_owned(), json!(n))));
    Value::Object(all)
}

/// A job of one step, `test fail`, on web-01 and web-02.
pub fn job(status: &str, given: &[(&str, u64)], results: Option<Value>) -> Value {
    let mut doc = json!({
        "id": JOB, "namespace": "default", "target": {"scope": "group", "value": "web"},
        "tasks": [{"backend": "test", "action": "fail"}], "strategy": "fail-fast", "failure_tolerate": "0", "offline": "skip", "on_unknown": "fail", "status": status, "reason": null,
        "step": 0, "expected": ["web-01", "web-02"], "expected_count": 2, "skipped_offline": 0, "name": null, "labels": {}, "owner": "c1", "job_epoch": 1, "leader_epoch": 1,
        "counts": counts(given),
        "steps": [{"step": 0, "phase": 0, "backend": "test", "action": "fail", "counts": counts(given)}],
        "run": 1, "created_at": "2026-02-12T10:30:00Z", "updated_at": "2026-02-12T10:30:01Z",
    });
    if let Some(results) = results {
        doc["results"] = results;
    }
    doc
}

pub fn boom() -> Value {
    json!({"status": "failed", "duration": "0.2s", "attempts": 1, "error": "boom"})
}
