//! The baseline of `submit`: a bare axum handler that reads the same JSON and answers with a document of the same size.
//!
//! It stores nothing and waits for no disk: its time is the cost of HTTP and JSON on this machine.

use std::process::ExitCode;

use anyhow::Context;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

/// Serves until its stdin ends.
pub async fn run() -> anyhow::Result<ExitCode> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    crate::say::out(format_args!("http ready {}", listener.local_addr()?));
    let app = Router::new().route("/job", post(take));
    let server = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).await {
            crate::say::err(format_args!("the bare server ended: {error}"));
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await.context("cannot hear the benchmark")?.is_some() {}
    server.abort();
    Ok(ExitCode::SUCCESS)
}

/// As large as a new job's document.
async fn take(Json(body): Json<Value>) -> (axum::http::StatusCode, Json<Value>) {
    let answer = json!({
        "id": "job-0000000000000", "namespace": "default", "target": body["target"], "tasks": body["tasks"],
        "strategy": "fail-fast", "status": "pending", "reason": null, "step": 0, "expected": [], "owner": "c1",
        "job_epoch": 1, "leader_epoch": 1, "counts": {}, "results": [],
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
    });
    (axum::http::StatusCode::CREATED, Json(answer))
}
