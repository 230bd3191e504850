//! Reads the target of a job.

use std::collections::BTreeMap;

use serde_json::Value;

use super::values::refuse_unknown;
use crate::fault::Faults;
use crate::job::{Target, fields};
use crate::limits::MAX_LABELS;
use crate::name::Name;
use crate::node::{LABEL_RULE, is_label};

const TARGET_FIELDS: &[&str] = &fields::names(fields::TARGET);

/// `scope` and `value` as the seeds' target object has them.
pub fn parse_target(scope: &str, value: Option<&str>) -> Result<Target, String> {
    let name = |what: &str| -> Result<Name, String> {
        let value = value.filter(|v| !v.is_empty()).ok_or_else(|| format!("{what} needs a name, like {what}:web"))?;
        value.parse::<Name>().map_err(|e| e.to_string())
    };
    match scope {
        "all" if value.is_none_or(str::is_empty) => Ok(Target::All),
        "any" if value.is_none_or(str::is_empty) => Ok(Target::Any),
        "all" | "any" => Err(format!("{scope} takes no value")),
        "labels" => labels(value.unwrap_or_default()).map(Target::Labels),
        "group" => name("group").map(Target::Group),
        "node" => name("node").map(Target::Node),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(format!("unknown scope {shown:?}: use all, group:NAME, node:ID, labels:KEY=VALUE or any"))
        }
    }
}

fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for pair in text.split(',') {
        let shown = || pair.chars().take(60).collect::<String>();
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| format!("labels are KEY=VALUE, separated by commas; {:?} is none", shown()))?;
        if !is_label(key, value) {
            return Err(format!("{:?} is no label: {LABEL_RULE}", shown()));
        }
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("label {key:?} stands there twice"));
        }
        if labels.len() > MAX_LABELS {
            return Err(format!("has more than {MAX_LABELS} labels, the most a node can carry"));
        }
    }
    Ok(labels)
}

pub(super) fn target_field(value: Option<&Value>, faults: &mut Faults) -> Option<Target> {
    let parsed = match value {
        None | Some(Value::Null) => Err("is required, like {\"scope\":\"all\"}".to_owned()),
        Some(Value::String(text)) => text.parse(),
        Some(Value::Object(target)) => {
            refuse_unknown(target, TARGET_FIELDS, "target", faults);
            match (target.get("scope"), target.get("value")) {
                (Some(Value::String(scope)), None | Some(Value::Null)) => parse_target(scope, None),
                (Some(Value::String(scope)), Some(Value::String(value))) => parse_target(scope, Some(value)),
                (Some(Value::String(_)), Some(_)) => Err("value must be a string".to_owned()),
                _ => Err("scope is required: all, group, node, labels or any".to_owned()),
            }
        }
        Some(_) => Err("must be an object with scope and value".to_owned()),
    };
    parsed.map_err(|problem| faults.add("target", problem)).ok()
}
