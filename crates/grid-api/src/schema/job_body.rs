//! The body of a job, as a schema: made from the declarations of the backends, since `parse_job` reads it by hand.
//!
//! Each action is a kind of task of its own, so that a reader of the schema knows which parameters it takes. A schema
//! says less than `parse_job` checks (labels, the number of steps), so what fits it may still be 422.

use grid_types::decl::{ActionDecl, BackendDecl, ParamDecl, ParamType, builtin};
use grid_types::limits::{MAX_ITEMS, MAX_JOB_LABELS, MAX_JOB_NAME_CHARS, MAX_RETRIES, MAX_STEPS, MAX_TEXT_BYTES};
use serde_json::{Map, Value, json};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Names the schema of a job. [`put_schemas`] writes it, as it does that of [`EpochBody`].
pub struct JobBody;

/// A body that holds nothing but, perhaps, the epoch it is for.
pub struct EpochBody;

impl ToSchema for JobBody {}
impl ToSchema for EpochBody {}

impl PartialSchema for JobBody {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().into()
    }
}

impl PartialSchema for EpochBody {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().into()
    }
}

const SPAN: &str = "^[0-9]{1,10}(ms|s|m|h)$";

/// `leader_epoch` of a body.
pub fn epoch() -> Value {
    json!({
        "type": ["integer", "null"], "minimum": 0, "maximum": i64::MAX,
        "description": "refuse unless this is the current leader epoch",
    })
}

pub fn put_schemas(all: &mut Map<String, Value>) {
    let epoch_body = json!({"type": "object", "additionalProperties": false, "properties": {"leader_epoch": epoch()}});
    all.insert("EpochBody".to_owned(), epoch_body);
    all.insert("JobBody".to_owned(), job());
    all.insert("Target".to_owned(), target());
    all.insert("Phase".to_owned(), json!({"oneOf": [of("PhaseTask"), of("Pipeline")]}));
    let tasks = json!({"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": of("Task")});
    let mut pipeline = phase_fields();
    pipeline.insert("tasks".to_owned(), tasks);
    let atomic = "a node that has begun it is walked to its end although fail-fast tripped elsewhere";
    pipeline.insert("atomic".to_owned(), json!({"type": ["boolean", "null"], "description": atomic}));
    all.insert("Pipeline".to_owned(), closed(&pipeline, &["tasks"]));
    let kinds = |phase: bool| {
        let actions = builtin().iter().flat_map(|b| b.actions.iter().map(move |a| (b, a)));
        json!({"oneOf": actions.map(|(b, a)| task(b, a, phase)).collect::<Vec<_>>()})
    };
    all.insert("Task".to_owned(), kinds(false));
    all.insert("PhaseTask".to_owned(), kinds(true));
}

fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn closed(properties: &Map<String, Value>, required: &[&str]) -> Value {
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

fn job() -> Value {
    let tolerance = json!({
        "description": "nodes that may fail: a number, or a share",
        "oneOf": [
            {"type": "null"},
            {"type": "integer", "minimum": 0, "maximum": u32::MAX},
            {"type": "string", "pattern": "^([0-9]{1,2}(\\.[0-9]{1,4})?%|100%|0\\.[0-9]{1,6}|1)$"},
        ],
    });
    json!({
        "type": "object", "additionalProperties": false, "required": ["target", "tasks"],
        "description": "what a job is to do",
        "properties": {
            "target": of("Target"),
            "tasks": {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": of("Phase")},
            "strategy": {"type": ["string", "null"], "enum": ["fail-fast", "continue", null]},
            "timeout": span("of the whole job; 24h if it is left out"),
            "failure_tolerate": tolerance,
            "offline": {"type": ["string", "null"], "enum": ["skip", "wait", "fail", null]},
            "on_unknown": {"type": ["string", "null"], "enum": ["fail", "wait", null]},
            "concurrency": concurrency(),
            "name": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_JOB_NAME_CHARS},
            "labels": {
                "type": ["object", "null"], "maxProperties": MAX_JOB_LABELS,
                "additionalProperties": {"type": "string", "pattern": super::NAME},
            },
            "leader_epoch": epoch(),
        },
    })
}

fn concurrency() -> Value {
    json!({
        "description": "nodes in a phase at once: a number, or a share",
        "oneOf": [
            {"type": "null"},
            {"type": "integer", "minimum": 1, "maximum": u32::MAX},
            {"type": "string", "pattern": "^([0-9]{1,2}(\\.[0-9]{1,4})?%|100%|0\\.[0-9]{1,6}|1)$"},
        ],
    })
}

fn target() -> Value {
    let name = super::NAME;
    json!({
        "description": "which nodes",
        "oneOf": [
            {"type": "string", "pattern": "^(all|any|(group|node):[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|labels:.+)$"},
            {"type": "object", "additionalProperties": false, "required": ["scope"],
             "properties": {"scope": {"type": "string", "enum": ["all", "any"]}, "value": {"type": ["string", "null"], "enum": ["", null]}}},
            {"type": "object", "additionalProperties": false, "required": ["scope", "value"],
             "properties": {"scope": {"type": "string", "enum": ["group", "node"]}, "value": {"type": "string", "pattern": name}}},
            {"type": "object", "additionalProperties": false, "required": ["scope", "value"],
             "properties": {"scope": {"type": "string", "const": "labels"}, "value": {"type": "string", "pattern": "^[^=,]+=[^,]*(,[^=,]+=[^,]*)*$"}}},
        ],
    })
}

fn phase_fields() -> Map<String, Value> {
    Map::from_iter([
        ("condition".to_owned(), condition()),
        ("concurrency".to_owned(), concurrency()),
        (
            "confirm".to_owned(),
            json!({"type": ["boolean", "null"], "description": "waits for confirmation before it begins"}),
        ),
        (
            "nodes".to_owned(),
            json!({
                "type": ["string", "null"], "enum": ["failed", "healthy", "all", null],
                "description": "only with condition on_failure: the nodes it runs on",
            }),
        ),
    ])
}

fn condition() -> Value {
    json!({"type": ["string", "null"], "enum": ["always", "on_success", "on_failure", "on_changed", null]})
}

fn span(description: &str) -> Value {
    json!({"type": ["string", "null"], "pattern": SPAN, "description": description})
}

fn task(backend: &BackendDecl, action: &ActionDecl, is_phase: bool) -> Value {
    let mut fields = if is_phase { phase_fields() } else { Map::new() };
    let required: Vec<_> = action.params.iter().filter(|p| p.required).map(|p| p.name).collect();
    let params: Map<_, _> = action.params.iter().map(|p| (p.name.to_owned(), param(p))).collect();
    fields.insert("backend".to_owned(), json!({"type": "string", "const": backend.name}));
    fields.insert("action".to_owned(), json!({"type": "string", "const": action.name}));
    fields.insert("params".to_owned(), closed(&params, &required));
    fields.insert("condition".to_owned(), condition());
    fields.insert("timeout".to_owned(), span("of one attempt"));
    fields.insert("max_retries".to_owned(), json!({"type": ["integer", "null"], "minimum": 0, "maximum": MAX_RETRIES}));
    let effects: &[&str] = if action.effect_choice { &["pure", "idempotent", "once"] } else { &[action.effect.word()] };
    let effects: Vec<Value> = effects.iter().map(|word| json!(word)).chain([Value::Null]).collect();
    fields.insert("effect".to_owned(), json!({"type": ["string", "null"], "enum": effects}));
    let mut names = vec!["backend", "action"];
    if !required.is_empty() {
        names.push("params");
    }
    let mut schema = closed(&fields, &names);
    schema["title"] = json!(format!("{} {}", backend.name, action.name));
    schema["description"] = json!(action.help);
    schema
}

fn param(decl: &ParamDecl) -> Value {
    let mut schema = match decl.kind {
        ParamType::Text => {
            let min = u8::from(decl.required);
            json!({"type": ["string", "number", "boolean"], "minLength": min, "maxLength": MAX_TEXT_BYTES})
        }
        ParamType::Integer { min, max } => json!({"anyOf": [
            {"type": "integer", "minimum": min, "maximum": max},
            {"type": "string", "pattern": "^-?[0-9]{1,18}$"},
        ]}),
        ParamType::Boolean => json!({"type": ["boolean", "string"], "enum": [true, false, "true", "false"]}),
        ParamType::Duration => json!({"type": "string", "pattern": SPAN}),
        ParamType::Word { pattern } => json!({"type": "string", "pattern": format!("^(?:{pattern})$")}),
        ParamType::Choice { of } => json!({"type": "string", "enum": of}),
        ParamType::Texts => json!({
            "type": "array", "maxItems": MAX_ITEMS,
            "items": {"type": ["string", "number", "boolean"], "maxLength": MAX_TEXT_BYTES},
        }),
        ParamType::Integers { min, max } => {
            json!({"type": "array", "maxItems": MAX_ITEMS, "items": {"type": "integer", "minimum": min, "maximum": max}})
        }
        ParamType::Mode => json!({"type": "string", "pattern": "^0?[0-7]{3}$"}),
        ParamType::TextMap => json!({
            "type": "object", "maxProperties": MAX_ITEMS,
            "additionalProperties": {"type": ["string", "number", "boolean"], "maxLength": MAX_TEXT_BYTES},
        }),
    };
    schema["description"] = json!(decl.help);
    schema
}
