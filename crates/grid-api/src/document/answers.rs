//! Adds to each operation what every answer carries, and every refusal it may give, from the one table of codes.

use std::collections::BTreeMap;

use grid_types::Code;
use serde_json::{Value, json};

use super::operations::{Access, Operation};
use super::parameters::names;

const ROLE_HEADERS: [&str; 3] = ["X-Grid-Node", "X-Grid-Role", "X-Grid-Leader-Epoch"];

pub fn role_headers() -> Value {
    json!({
        "X-Grid-Node": {"description": "the controller that answers", "schema": {"type": "string"}},
        "X-Grid-Role": {"description": "its role", "schema": {"type": "string", "enum": ["LEADER", "STANDBY", "DRAINING"]}},
        "X-Grid-Leader-Epoch": {
            "description": "the leader epoch it knows; 0 for none", "schema": {"type": "integer", "minimum": 0},
        },
    })
}

/// Adds the refusals, and to all answers the headers they carry.
pub fn complete(doc: &mut Value, operation: &Operation, path: &str) {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in refusals(doc, operation, path) {
        by_status.entry(code.http_status()).or_default().push(code);
    }
    for (status, codes) in by_status {
        doc["responses"][status.to_string()] = refusal(&codes);
    }
    if let Some(answers) = doc["responses"].as_object_mut() {
        for answer in answers.values_mut() {
            for name in ROLE_HEADERS {
                answer["headers"][name] = json!({"$ref": format!("#/components/headers/{name}")});
            }
        }
    }
}

fn refusals(doc: &Value, operation: &Operation, path: &str) -> Vec<Code> {
    let is_health = matches!(operation.id(), "health" | "ready");
    let mut codes = vec![Code::Internal, Code::WrongHost];
    if operation.method != "get" {
        codes.push(Code::Forbidden);
    }
    // Health takes any query.
    if !is_health {
        codes.push(Code::BadRequest);
    }
    if operation.id() != "health" {
        codes.push(Code::NoQuorum);
    }
    if names(path).next().is_some() {
        codes.push(Code::NotFound);
    }
    if doc.get("requestBody").is_some() {
        codes.extend([Code::TooLarge, Code::UnsupportedMedia, Code::Invalid]);
    }
    match operation.access {
        Access::Open => {}
        Access::Read => codes.push(Code::StaleEpoch),
        Access::Leader | Access::LeaderOrDraining => {
            codes.extend([Code::NotLeader, Code::StaleEpoch, Code::OutcomeUnknown]);
        }
    }
    codes.extend(operation.refusals);
    codes
}

/// One answer for all codes that share a status.
fn refusal(codes: &[Code]) -> Value {
    let mut kinds = Vec::new();
    for (code, name) in [(Code::NotLeader, "NotLeaderDoc"), (Code::StaleEpoch, "StaleEpochDoc")] {
        if codes.contains(&code) {
            kinds.push(of_kind(name, &[code]));
        }
    }
    let plain: Vec<Code> = codes.iter().copied().filter(|c| !matches!(c, Code::NotLeader | Code::StaleEpoch)).collect();
    if !plain.is_empty() {
        kinds.push(of_kind("ErrorDoc", &plain));
    }
    let schema = if kinds.len() == 1 { kinds.remove(0) } else { json!({"oneOf": kinds}) };
    let words: Vec<_> = codes.iter().map(|code| code.word()).collect();
    let examples: serde_json::Map<_, _> =
        codes.iter().map(|code| (code.word().to_owned(), json!({"value": example(*code)}))).collect();
    json!({
        "description": words.join(", "),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    })
}

fn of_kind(schema: &str, codes: &[Code]) -> Value {
    let words: Vec<_> = codes.iter().map(|code| code.word()).collect();
    json!({"allOf": [
        {"$ref": format!("#/components/schemas/{schema}")},
        {"type": "object", "required": ["error", "message"], "properties": {"error": {"type": "string", "enum": words}}},
    ]})
}

fn example(code: Code) -> Value {
    let word = code.word();
    let (message, field) = match code {
        Code::NotLeader => {
            return json!({
                "error": word, "message": "n2 is STANDBY; send this to the leader at http://10.0.0.1:4600",
                "leader_id": "n1", "leader_url": "http://10.0.0.1:4600", "leader_epoch": 4, "node_id": "n2",
                "role": "STANDBY",
            });
        }
        Code::StaleEpoch => {
            return json!({
                "error": word, "message": "the request is for leader epoch 3, which is not the current one; read /role",
                "stale": "leader", "leader_epoch": 4,
            });
        }
        Code::NoQuorum => ("no majority of the controllers answers; try again", None),
        Code::OutcomeUnknown => ("it is not known whether this was done; ask again with the same key", None),
        Code::QueueFull => ("the queue is full; try again when jobs have ended", None),
        Code::NotFound => ("no job job-0c5t9v3k2m7qa", None),
        Code::Conflict | Code::DuplicateNode => ("job job-0c5t9v3k2m7qa has ended", None),
        Code::Superseded => ("this cluster was restored elsewhere, and writes are refused here", None),
        Code::BadRequest => ("limit: must be a whole number from 1 to 1000", Some("limit")),
        Code::Invalid => ("tasks: must have at least one phase", Some("tasks")),
        Code::TooLarge => ("the body has more than 1048576 bytes; split the work into several jobs", Some("")),
        Code::UnsupportedMedia => ("\"text/plain\" is not taken; send application/json", Some("Content-Type")),
        Code::MethodNotAllowed => ("PUT is not a method of \"/job\"; see the Allow header", None),
        Code::WrongHost => (
            "\"evil.example\" is not a host that this controller answers for; if clients use that name, start it with --allow-host",
            Some("Host"),
        ),
        Code::Forbidden => {
            ("\"http://evil.example\": a web page of another origin may not change anything here", Some("Origin"))
        }
        Code::Internal => {
            ("this controller failed to answer and logged why; try again, or ask another controller", None)
        }
    };
    let details: Vec<_> = field.iter().map(|field| json!({"field": field, "problem": message})).collect();
    json!({"error": word, "message": message, "details": details})
}
