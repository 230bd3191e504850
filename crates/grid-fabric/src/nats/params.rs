//! Converts the parameters of an offer to and from JSON.
//!
//! The declaration of the action tells a duration from a text. What it does not declare has the type that its JSON shows; the worker
//! refuses it when it checks the offer, as on every fabric.

use std::collections::BTreeMap;

use grid_proto::v1;
use grid_proto::v1::value::Kind;
use grid_types::Span;
use grid_types::decl::{ActionDecl, ParamType};
use serde_json::{Map, Value};

/// `None`: a value is missing, or JSON cannot carry it.
pub fn to_json(offer: &v1::Offer) -> Option<Map<String, Value>> {
    offer.params.iter().map(|(name, value)| Some((name.clone(), json_of(value.kind.as_ref()?)))).collect()
}

fn json_of(kind: &Kind) -> Value {
    match kind {
        Kind::Text(text) => text.as_str().into(),
        Kind::Integer(number) => (*number).into(),
        Kind::Boolean(flag) => (*flag).into(),
        Kind::DurationMs(ms) => Span::from_ms(*ms).to_string().into(),
        Kind::Texts(texts) => texts.items.iter().map(String::as_str).collect(),
        Kind::Integers(integers) => integers.items.iter().copied().collect(),
        Kind::TextMap(map) => {
            Value::Object(map.items.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect())
        }
    }
}

/// # Errors
/// The name of a parameter whose value does not fit its declaration.
pub fn from_json(
    declared: Option<&ActionDecl>,
    params: Map<String, Value>,
) -> Result<BTreeMap<String, v1::Value>, String> {
    let mut read = BTreeMap::new();
    for (name, value) in params {
        let param = declared.and_then(|action| action.params.iter().find(|param| param.name == name));
        let kind = match param {
            Some(param) => declared_kind(param.kind, value),
            None => shown_kind(value),
        };
        let Some(kind) = kind else { return Err(name.chars().take(60).collect()) };
        read.insert(name, v1::Value { kind: Some(kind) });
    }
    Ok(read)
}

fn declared_kind(kind: ParamType, value: Value) -> Option<Kind> {
    match (kind, value) {
        (ParamType::Duration, Value::String(text)) => Some(Kind::DurationMs(text.parse::<Span>().ok()?.ms())),
        (
            ParamType::Text | ParamType::Word { .. } | ParamType::Choice { .. } | ParamType::Mode,
            Value::String(text),
        ) => Some(Kind::Text(text)),
        (ParamType::Integer { .. }, value @ Value::Number(_)) | (ParamType::Boolean, value @ Value::Bool(_)) => {
            shown_kind(value)
        }
        (ParamType::Texts, Value::Array(items)) => texts(items),
        (ParamType::Integers { .. }, Value::Array(items)) => integers(&items),
        (ParamType::TextMap, value @ Value::Object(_)) => shown_kind(value),
        _ => None,
    }
}

fn shown_kind(value: Value) -> Option<Kind> {
    match value {
        Value::String(text) => Some(Kind::Text(text)),
        Value::Number(number) => number.as_i64().map(Kind::Integer),
        Value::Bool(flag) => Some(Kind::Boolean(flag)),
        Value::Array(items) if items.first().is_some_and(Value::is_number) => integers(&items),
        Value::Array(items) => texts(items),
        Value::Object(items) => {
            let items: Option<_> = items.into_iter().map(|(name, value)| Some((name, text(value)?))).collect();
            Some(Kind::TextMap(v1::TextMap { items: items? }))
        }
        Value::Null => None,
    }
}

fn texts(items: Vec<Value>) -> Option<Kind> {
    let items: Option<_> = items.into_iter().map(text).collect();
    Some(Kind::Texts(v1::Texts { items: items? }))
}

fn integers(items: &[Value]) -> Option<Kind> {
    let items: Option<_> = items.iter().map(Value::as_i64).collect();
    Some(Kind::Integers(v1::Integers { items: items? }))
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}
