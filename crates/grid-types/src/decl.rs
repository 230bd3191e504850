//! Declarations of backends: the one place that says which actions exist, what they take, and what running them
//! twice would mean. Submit-time validation, help and the worker's own checks all read it.
//!
//! Every built-in declaration is known to the server; which backends a worker runs is the worker's choice.
//! Not here: running anything (`grid-worker::backends`).

mod ping;
mod test;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::Faults;
use crate::limits::MAX_TEXT_BYTES;
use crate::span::Span;

/// What running an action a second time means (W3, W8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing.
    #[n(0)]
    Pure,
    /// May be run again with the same end.
    #[n(1)]
    Idempotent,
    /// Must never run twice.
    #[n(2)]
    Once,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamType {
    Text,
    Integer { min: i64, max: i64 },
    Boolean,
    Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ParamDecl {
    pub name: &'static str,
    pub kind: ParamType,
    pub required: bool,
    /// As a person would write it; parsed like any other value.
    pub default: Option<&'static str>,
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ActionDecl {
    pub name: &'static str,
    pub help: &'static str,
    pub effect: EffectClass,
    /// J7: beats 5 m, is beaten by the task's own.
    pub timeout: Option<Span>,
    pub params: &'static [ParamDecl],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BackendDecl {
    pub name: &'static str,
    pub help: &'static str,
    /// Runs on a worker that was not asked for it by name.
    pub on_by_default: bool,
    pub actions: &'static [ActionDecl],
}

/// Every built-in backend.
#[must_use]
pub fn builtin() -> &'static [BackendDecl] {
    &[ping::PING, test::TEST]
}

#[must_use]
pub fn backend(name: &str) -> Option<&'static BackendDecl> {
    builtin().iter().find(|b| b.name == name)
}

impl BackendDecl {
    #[must_use]
    pub fn action(&self, name: &str) -> Option<&'static ActionDecl> {
        self.actions.iter().find(|a| a.name == name)
    }
}

/// A checked parameter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize)]
#[serde(untagged)]
pub enum ParamValue {
    #[n(0)]
    Text(#[n(0)] String),
    #[n(1)]
    Integer(#[n(0)] i64),
    #[n(2)]
    Boolean(#[n(0)] bool),
    #[n(3)]
    Duration(#[n(0)] Span),
}

/// Parameters of one task, checked and with defaults filled in.
pub type Params = BTreeMap<String, ParamValue>;

impl ActionDecl {
    /// Checks what was given against the declaration; faults are reported under `at`.
    #[must_use]
    pub fn check(&self, given: &serde_json::Map<String, Value>, at: &str, faults: &mut Faults) -> Params {
        let mut params = Params::new();
        for name in given.keys() {
            if !self.params.iter().any(|p| p.name == name) {
                faults.add(format!("{at}.{name}"), self.unknown_param(name));
            }
        }
        for decl in self.params {
            let field = format!("{at}.{}", decl.name);
            let value = match (given.get(decl.name), decl.default) {
                (Some(Value::String(text)), _) if decl.required && text.is_empty() => {
                    Err(format!("must not be empty ({})", decl.help))
                }
                (Some(value), _) => decl.parse(value),
                (None, Some(default)) => decl.parse(&Value::String(default.to_owned())),
                (None, None) if decl.required => Err(format!("is required ({})", decl.help)),
                (None, None) => continue,
            };
            match value {
                Ok(value) => {
                    params.insert(decl.name.to_owned(), value);
                }
                Err(problem) => faults.add(field, problem),
            }
        }
        params
    }

    fn unknown_param(&self, name: &str) -> String {
        let known: Vec<_> = self.params.iter().map(|p| p.name).collect();
        let shown: String = name.chars().take(60).collect();
        if known.is_empty() {
            format!("unknown parameter {shown:?}: {} takes none", self.name)
        } else {
            format!("unknown parameter {shown:?}: {} takes {}", self.name, known.join(", "))
        }
    }
}

impl ParamDecl {
    fn parse(&self, value: &Value) -> Result<ParamValue, String> {
        match (self.kind, value) {
            (ParamType::Text, Value::String(text)) => text_param(text),
            (ParamType::Text, Value::Number(number)) => text_param(&number.to_string()),
            (ParamType::Text, Value::Bool(b)) => text_param(if *b { "true" } else { "false" }),
            (ParamType::Integer { min, max }, value) => integer_param(value, min, max),
            (ParamType::Boolean, Value::Bool(b)) => Ok(ParamValue::Boolean(*b)),
            (ParamType::Boolean, Value::String(text)) if text == "true" => Ok(ParamValue::Boolean(true)),
            (ParamType::Boolean, Value::String(text)) if text == "false" => Ok(ParamValue::Boolean(false)),
            (ParamType::Boolean, _) => Err("must be true or false".to_owned()),
            (ParamType::Duration, Value::String(text)) => {
                text.parse().map(ParamValue::Duration).map_err(|e: crate::span::BadSpan| e.to_string())
            }
            (ParamType::Duration, _) => Err("must be a duration like 300ms, 3s, 2m or 1h".to_owned()),
            (ParamType::Text, _) => Err("must be a string, a number or a boolean".to_owned()),
        }
    }
}

fn text_param(text: &str) -> Result<ParamValue, String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("is longer than {MAX_TEXT_BYTES} bytes"));
    }
    if text.contains('\0') {
        return Err("must not contain a NUL".to_owned());
    }
    Ok(ParamValue::Text(text.to_owned()))
}

fn integer_param(value: &Value, min: i64, max: i64) -> Result<ParamValue, String> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    match number {
        Some(n) if (min..=max).contains(&n) => Ok(ParamValue::Integer(n)),
        _ => Err(format!("must be a whole number from {min} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{ParamValue, backend, builtin};
    use crate::fault::Faults;
    use serde_json::json;

    fn check(backend_name: &str, action: &str, given: &serde_json::Value) -> Result<super::Params, Faults> {
        let mut faults = Faults::default();
        let decl = backend(backend_name).unwrap().action(action).unwrap();
        let params = decl.check(given.as_object().unwrap(), "params", &mut faults);
        faults.finish(params)
    }

    #[test]
    fn strings_are_converted_as_the_action_declares() {
        let params = check("test", "output", &json!({"lines": "3", "width": 10})).unwrap();
        assert_eq!(params["lines"], ParamValue::Integer(3));
        assert_eq!(params["width"], ParamValue::Integer(10));
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let faults = check("test", "output", &json!({"lines": -1, "width": [], "colour": "red"})).unwrap_err();
        let fields: Vec<_> = faults.list().iter().map(|f| f.field.as_str()).collect();
        assert_eq!(fields, ["params.colour", "params.lines", "params.width"]);
    }

    #[test]
    fn declared_defaults_are_valid_values() {
        for b in builtin() {
            for action in b.actions {
                for p in action.params {
                    assert!(!(p.required && p.default.is_some()), "{}.{}.{}", b.name, action.name, p.name);
                    if let Some(default) = p.default {
                        p.parse(&json!(default)).unwrap();
                    }
                }
            }
        }
    }
}
