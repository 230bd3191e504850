//! Builds job bodies, as short as an operator would write them.

use serde_json::{Map, Value, json};

use crate::record::Record;

/// A job on `all`, `group:NAME` or `node:ID`.
///
/// # Panics
/// On another target.
pub fn job(target: &str, tasks: impl Into<Vec<Value>>) -> Value {
    let target = match target.split_once(':') {
        None => json!({"scope": target}),
        Some((scope, value)) => json!({"scope": scope, "value": value}),
    };
    json!({"target": target, "tasks": tasks.into()})
}

/// A leaf: one task.
pub fn task(backend: &str, action: &str, params: &Value) -> Value {
    json!({"backend": backend, "action": action, "params": params})
}

/// A branch: each node runs through these on its own.
pub fn pipeline(tasks: impl Into<Vec<Value>>) -> Value {
    json!({"tasks": tasks.into()})
}

/// `value` with further fields: `with(task, json!({"timeout": "1s"}))`.
///
/// # Panics
/// When either is not an object.
pub fn with(mut value: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("not an object: {fields}");
    };
    let object: &mut Map<String, Value> = match value.as_object_mut() {
        Some(object) => object,
        None => panic!("a spec is an object"),
    };
    object.extend(fields);
    value
}

pub fn echo() -> Value {
    task("ping", "echo", &json!({"message": "hello"}))
}

pub fn fail(message: &str) -> Value {
    task("test", "fail", &json!({"message": message}))
}

pub fn sleep(duration: &str) -> Value {
    task("test", "sleep", &json!({"duration": duration}))
}

pub fn tree(duration: &str) -> Value {
    task("test", "tree", &json!({"duration": duration}))
}

pub fn record(record: &Record) -> Value {
    task("test", "record", &json!({"path": record.param()}))
}

/// Writes its line, then runs for `delay`.
pub fn record_slowly(record: &Record, delay: &str) -> Value {
    task("test", "record", &json!({"path": record.param(), "delay": delay}))
}
