//! The document against the router: the same routes, guards, parameters and references.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use super::fake::{Fake, JOB};
use crate::document::document;

/// Every path of the router, as axum itself shows them.
fn routes() -> BTreeSet<String> {
    let shown = format!("{:?}", crate::router(Fake::leader()));
    let is_ours = |part: &&str| part.starts_with('/') && *part != "/" && !part.contains("axum_fallback");
    let routes: BTreeSet<_> = shown.split('"').filter(is_ours).map(str::to_owned).collect();
    assert!(routes.contains("/job/{id}/cancel"), "axum shows its routes otherwise now: {shown}");
    routes
}

fn paths() -> BTreeMap<String, BTreeMap<String, Value>> {
    serde_json::from_value(document()["paths"].clone()).unwrap()
}

fn filled(path: &str) -> String {
    let id = if path.contains("backends") {
        "ping"
    } else if path.contains("/node/") || path.contains("/nodes/") || path.contains("agents") {
        "node-ready"
    } else {
        JOB
    };
    path.replace("{ns}", "default").replace("{id}", id).replace("{step}", "0").replace("{node}", "web-01")
}

fn asked(method: &str, uri: &str) -> Request<Body> {
    let request = Request::builder().method(method.to_uppercase().as_str()).uri(uri);
    request.header("accept", "application/json").body(Body::empty()).unwrap()
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    let documented: BTreeSet<_> = paths().into_keys().collect();
    assert_eq!(routes(), documented, "a route (left) needs its line in document/operations.rs (right)");
}

#[tokio::test]
async fn every_method_is_documented_and_nothing_else() {
    for (path, item) in paths() {
        let refused = Fake::leader().send(asked("PATCH", &filled(&path))).await;
        let allowed = refused.headers["allow"].to_str().unwrap().to_lowercase();
        let allowed: BTreeSet<_> = allowed.split(',').map(str::trim).filter(|m| *m != "head").collect();
        assert_eq!(allowed, item.keys().map(String::as_str).collect(), "{path}");
    }
}

#[tokio::test]
async fn every_query_parameter_is_documented_and_nothing_else() {
    for (path, item) in paths() {
        for (method, operation) in item {
            let answer = Fake::leader().send(asked(&method, &format!("{}?zzz=1", filled(&path)))).await;
            if ["/healthz", "/health", "/readyz", "/ready"].contains(&path.as_str()) {
                assert_eq!(answer.status, 200, "{path}");
                continue;
            }
            assert_eq!(answer.status, 400, "{method} {path}: {}", answer.json());
            let problem = answer.json()["details"][0]["problem"].as_str().unwrap().to_owned();
            let known = problem.rsplit_once("known here: ").unwrap().1;
            let known: BTreeSet<_> = known.split(", ").filter(|name| *name != "none").map(str::to_owned).collect();
            let parameters = operation["parameters"].as_array().unwrap();
            let documented = parameters.iter().filter(|p| p["in"] == "query" && p["name"] != "consistency");
            let documented = documented.map(|p| p["name"].as_str().unwrap().to_owned()).collect();
            assert_eq!(known, documented, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn e4_what_only_the_leader_does_is_documented_so() {
    for (path, item) in paths() {
        for (method, operation) in item {
            // Of some reads the leader alone serves the following.
            let followed = operation["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "follow");
            let query = if followed { "?follow=true" } else { "" };
            let answer = Fake::standby().send(asked(&method, &format!("{}{query}", filled(&path)))).await;
            let refused = answer.status == 409 && answer.json()["error"] == "NOT_LEADER";
            let words = operation["responses"]["409"]["description"].as_str().unwrap_or_default();
            assert_eq!(refused, words.contains("NOT_LEADER"), "{method} {path}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_name_is_one() {
    let document = document();
    let mut ids = BTreeSet::new();
    walk(&document, &mut |value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference} is nowhere");
        }
        if let Some(id) = value.get("operationId").and_then(Value::as_str) {
            assert!(ids.insert(id.to_owned()), "{id} names two operations");
        }
    });
    assert!(ids.contains("submitJob") && ids.contains("submitJob_job"), "{ids:?}");
}

fn walk(value: &Value, look: &mut impl FnMut(&Value)) {
    look(value);
    match value {
        Value::Object(map) => map.values().for_each(|value| walk(value, look)),
        Value::Array(list) => list.iter().for_each(|value| walk(value, look)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_is_served_as_json() {
    let answer = Fake::standby().get("/openapi.json").await;
    assert_eq!((answer.status.as_u16(), &answer.json()), (200, &document()));
    assert_eq!(answer.headers["content-type"], "application/json");
}
