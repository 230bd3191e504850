//! Serves `GET /openapi.json`: the API as a document (OpenAPI 3.1), generated from the annotations of the handlers.
//!
//! Each handler says what only it knows: its query, its body, its good answers. What a handler cannot forget is added
//! here for all of them: names in the path, the epoch of a request, the headers of every answer, and each refusal with
//! the status that the table of codes gives it.
//! Not here: the table of routes (`router`). A test compares the two, path by path and method by method.
//! `utoipa-axum` would bind the two by type, but knows one path for a handler; here most have an alias or two, and its
//! guard decides what a handler can answer.

mod answers;
mod examples;
mod operations;
mod parameters;

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::http::query::Params;
use crate::http::refused::Refused;
use crate::schema::{agent_body, job_body};

use operations::{Operation, operations, schemas};

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document().to_string()));

/// `GET /openapi.json`.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "controller",
    operation_id = "openapi",
    responses(
        (status = 200, description = "this document", body = Object),
    ),
)]
pub async fn openapi(params: Params) -> Result<Response, Refused> {
    params.finish()?;
    let json = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([json], DOCUMENT.clone()).into_response())
}

/// The whole document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in operations() {
        for path in operation.paths() {
            let item = paths.entry(path.clone()).or_insert_with(|| json!({}));
            item[operation.method] = at_path(&operation, path);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Grid",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Operations on fleets of machines. Paths without /api/v1 are aliases on the namespace \
                            `default`. See docs/http.md for headers, consistency, paging and errors.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": all_schemas(), "headers": answers::role_headers()},
    })
}

/// An operation as it is under one of its paths.
fn at_path(operation: &Operation, path: &str) -> Value {
    let mut doc = operation.doc.clone();
    if path != operation.canonical {
        let id = doc["operationId"].as_str().unwrap_or_default();
        let suffix: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        doc["operationId"] = json!(format!("{id}{suffix}"));
    }
    parameters::complete(&mut doc, operation.access, path);
    examples::put(&mut doc, operation.id());
    answers::complete(&mut doc, operation, path);
    doc
}

fn all_schemas() -> Map<String, Value> {
    let mut all = schemas();
    job_body::put_schemas(&mut all);
    agent_body::put_schemas(&mut all);
    // Bodies may name the epoch they are for, whatever else they hold.
    for name in ["ConfirmBody", "JoinBody", "LogsBody", "ResolveBody", "ResumeBody", "StepDownBody"] {
        if let Some(properties) = all.get_mut(name).and_then(|s| s.get_mut("properties")).and_then(Value::as_object_mut)
        {
            properties.insert("leader_epoch".to_owned(), job_body::epoch());
        }
    }
    all
}
