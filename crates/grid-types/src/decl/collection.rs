//! Lists and maps among the parameters: read from JSON (or from its text, since a command line has only texts) and bounded.
//!
//! No text is ever split into words: `"-r x"` is one argument with a space in it, and a list is written as one.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::{scalar, text_fits};
use super::{ParamType, ParamValue};
use crate::limits::{MAX_ITEMS, MAX_ITEMS_BYTES};

/// A collection as it was given. `None`: it is of another shape.
///
/// # Errors
/// An item that cannot be one.
pub(super) fn parse(kind: ParamType, value: &Value) -> Result<Option<ParamValue>, String> {
    let read;
    let value = match value {
        Value::String(text) => match written(kind, text) {
            Some(value) => {
                read = value;
                &read
            }
            None => return Ok(None),
        },
        value => value,
    };
    match (kind, value) {
        (ParamType::Texts, Value::Array(list)) => {
            count_fits(list.len())?;
            let texts = list.iter().enumerate().map(|(i, item)| scalar(item).ok_or_else(|| no_text(&format!("[{i}]"))));
            Ok(Some(ParamValue::Texts(texts.collect::<Result<_, _>>()?)))
        }
        (ParamType::TextMap, Value::Object(map)) => {
            count_fits(map.len())?;
            let texts = map.iter().map(|(name, item)| {
                let text = scalar(item).ok_or_else(|| no_text(&format!("of {:?}", cut(name))))?;
                Ok((name.clone(), text))
            });
            Ok(Some(ParamValue::TextMap(texts.collect::<Result<_, String>>()?)))
        }
        (ParamType::Integers { .. }, Value::Array(list)) => {
            count_fits(list.len())?;
            let numbers = list.iter().map(|item| match item {
                Value::String(text) => text.parse().ok(),
                item => item.as_i64(),
            });
            Ok(numbers.collect::<Option<Vec<i64>>>().map(ParamValue::Integers))
        }
        _ => Ok(None),
    }
}

/// The text of a collection: JSON; of numbers also `0,1`.
fn written(kind: ParamType, text: &str) -> Option<Value> {
    if let ParamType::Integers { .. } = kind
        && !text.trim_start().starts_with('[')
    {
        return Some(text.split(',').map(|item| Value::from(item.trim())).collect());
    }
    serde_json::from_str(text).ok()
}

fn no_text(which: &str) -> String {
    format!("the value {which} must be a string, a number or a boolean")
}

pub(super) fn count_fits(count: usize) -> Result<(), String> {
    if count > MAX_ITEMS { Err(format!("has {count} items; at most {MAX_ITEMS} are accepted")) } else { Ok(()) }
}

fn bytes_fit(bytes: usize) -> Result<(), String> {
    if bytes > MAX_ITEMS_BYTES {
        return Err(format!("has {bytes} bytes in all; at most {MAX_ITEMS_BYTES} are accepted"));
    }
    Ok(())
}

pub(super) fn texts_fit(texts: &[String]) -> Result<(), String> {
    count_fits(texts.len())?;
    bytes_fit(texts.iter().map(String::len).sum())?;
    texts.iter().enumerate().try_for_each(|(i, text)| text_fits(text).map_err(|problem| format!("[{i}] {problem}")))
}

pub(super) fn map_fits(map: &BTreeMap<String, String>) -> Result<(), String> {
    count_fits(map.len())?;
    bytes_fit(map.iter().map(|(name, text)| name.len() + text.len()).sum())?;
    for (name, text) in map {
        let is_name = name.len() <= 128
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !is_name {
            return Err(format!("{:?} is no name: letters, digits, _ and -, at most 128", cut(name)));
        }
        text_fits(text).map_err(|problem| format!("the value of {name} {problem}"))?;
    }
    Ok(())
}

fn cut(name: &str) -> String {
    name.chars().take(60).collect()
}
