//! Parameters that follow from a path and its guard.

use serde_json::{Value, json};

use super::operations::Access;
use crate::schema::{JOB_ID, NAME};

/// Adds names in the path and the epoch of the request.
pub fn complete(doc: &mut Value, access: Access, path: &str) {
    let mut all: Vec<Value> = names(path).map(|name| in_path(name, path)).collect();
    all.extend(doc["parameters"].as_array().cloned().unwrap_or_default());
    if access == Access::Read {
        all.push(json!({
            "name": "consistency", "in": "query", "required": false,
            "description": "`strong`: what was acknowledged before this request is in the answer",
            "schema": {"type": "string", "enum": ["strong", "stale"]},
        }));
    }
    if access != Access::Open {
        all.push(json!({
            "name": "X-Grid-Leader-Epoch", "in": "header", "required": false,
            "description": "refuse unless this is the current leader epoch",
            "schema": {"type": "integer", "minimum": 0, "maximum": i64::MAX},
        }));
    }
    doc["parameters"] = json!(all);
}

/// The names between braces.
pub fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn in_path(name: &str, path: &str) -> Value {
    let (description, schema) = match name {
        "ns" => ("a namespace", json!({"type": "string", "enum": ["default"]})),
        "step" => ("the number of a step, from 0", json!({"type": "integer", "minimum": 0, "maximum": 999})),
        "node" => ("a node id", json!({"type": "string", "pattern": NAME})),
        _ if path.contains("/members/") => ("a controller id", json!({"type": "string", "minLength": 1})),
        _ if path.contains("/backends/") => ("a backend", json!({"type": "string", "minLength": 1})),
        _ if path.contains("/node") || path.contains("/agents/") => {
            ("a node id", json!({"type": "string", "pattern": NAME}))
        }
        _ => ("a job id", json!({"type": "string", "pattern": JOB_ID, "examples": ["job-0c5t9v3k2m7qa"]})),
    };
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
}
