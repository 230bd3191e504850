//! Reads parameters by type that the server has already checked against the declaration.

use std::time::Duration;

use grid_types::decl::{ParamValue, Params};

pub(super) fn text<'a>(params: &'a Params, name: &str) -> Option<&'a str> {
    match params.get(name) {
        Some(ParamValue::Text(text)) => Some(text),
        _ => None,
    }
}

pub(super) fn required_text<'a>(params: &'a Params, name: &str) -> Result<&'a str, String> {
    text(params, name).ok_or_else(|| missing(name))
}

pub(super) fn integer(params: &Params, name: &str) -> Result<u64, String> {
    match params.get(name) {
        Some(ParamValue::Integer(n)) => u64::try_from(*n).map_err(|_| format!("parameter {name} is negative")),
        _ => Err(missing(name)),
    }
}

/// False if it is not given.
pub(super) fn flag(params: &Params, name: &str) -> bool {
    params.get(name) == Some(&ParamValue::Boolean(true))
}

/// Zero if it is not given.
pub(super) fn duration(params: &Params, name: &str) -> Duration {
    match params.get(name) {
        Some(ParamValue::Duration(span)) => Duration::from_millis(span.ms()),
        _ => Duration::ZERO,
    }
}

pub(super) fn required_duration(params: &Params, name: &str) -> Result<Duration, String> {
    if params.contains_key(name) { Ok(duration(params, name)) } else { Err(missing(name)) }
}

fn missing(name: &str) -> String {
    format!("parameter {name} is missing: is the server newer than this worker?")
}
