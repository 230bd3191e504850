//! Reads what an agent says of itself: groups, labels, backends, slots. The limits are those of workers.

use std::collections::{BTreeMap, BTreeSet};

use grid_controller::AgentFacts;
use grid_types::decl::{self, BackendDecl};
use grid_types::limits::{MAX_FACT_BYTES, MAX_GROUPS, MAX_LABELS, MAX_SLOTS};
use grid_types::node::{LABEL_RULE, is_label};
use grid_types::{Faults, Name};
use serde_json::Value;

use crate::http::body::Fields;

pub fn read(fields: &mut Fields) -> AgentFacts {
    let hostname = format!("a text of at most {MAX_FACT_BYTES} bytes");
    let hostname = fields.optional("hostname", &hostname, |value| {
        value.as_str().filter(|text| text.len() <= MAX_FACT_BYTES).map(str::to_owned)
    });
    let slots = fields.optional("slots", &format!("a whole number from 1 to {MAX_SLOTS}"), |value| {
        value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=MAX_SLOTS).contains(n))
    });
    AgentFacts {
        hostname,
        groups: fields.nested("groups", groups),
        labels: fields.nested("labels", labels),
        backends: fields.nested("backends", backends),
        slots,
    }
}

fn groups(value: &Value, faults: &mut Faults) -> Option<BTreeSet<Name>> {
    let Some(list) = value.as_array().filter(|list| list.len() <= MAX_GROUPS) else {
        faults.add("groups", format!("must be a list of at most {MAX_GROUPS} names"));
        return None;
    };
    let mut groups = BTreeSet::new();
    for (i, group) in list.iter().enumerate() {
        match group.as_str().unwrap_or_default().parse::<Name>() {
            Ok(group) => drop(groups.insert(group)),
            Err(e) => faults.add(format!("groups[{i}]"), e.to_string()),
        }
    }
    Some(groups)
}

fn labels(value: &Value, faults: &mut Faults) -> Option<BTreeMap<String, String>> {
    let Some(map) = value.as_object().filter(|map| map.len() <= MAX_LABELS) else {
        faults.add("labels", format!("must be an object of at most {MAX_LABELS} texts"));
        return None;
    };
    let mut labels = BTreeMap::new();
    for (key, value) in map {
        match value.as_str().filter(|value| is_label(key, value)) {
            Some(value) => drop(labels.insert(key.clone(), value.to_owned())),
            None => faults.add(format!("labels.{}", shown(key)), LABEL_RULE),
        }
    }
    Some(labels)
}

/// `["ping"]`, every action of it, or `{"ping": ["echo"]}`, as `GET /v1/agents` shows it.
fn backends(value: &Value, faults: &mut Faults) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let mut found = BTreeMap::new();
    match value {
        Value::Array(names) => {
            for (i, name) in names.iter().enumerate() {
                if let Some(backend) = known(name.as_str().unwrap_or_default(), &format!("backends[{i}]"), faults) {
                    let actions = backend.actions.iter().map(|action| action.name.to_owned());
                    found.insert(backend.name.to_owned(), actions.collect());
                }
            }
        }
        Value::Object(map) => {
            for (name, actions) in map {
                let field = format!("backends.{}", shown(name));
                if let Some(backend) = known(name, &field, faults) {
                    found.insert(name.clone(), actions_of(backend, actions, &field, faults));
                }
            }
        }
        _ => {
            faults.add("backends", "must be a list of backends, or an object of backends and lists of their actions");
            return None;
        }
    }
    Some(found)
}

fn actions_of(backend: &BackendDecl, value: &Value, field: &str, faults: &mut Faults) -> BTreeSet<String> {
    let Some(list) = value.as_array() else {
        faults.add(field, "must be a list of actions");
        return BTreeSet::new();
    };
    let mut actions = BTreeSet::new();
    for (i, action) in list.iter().enumerate() {
        match action.as_str().and_then(|name| backend.action(name)) {
            Some(action) => drop(actions.insert(action.name.to_owned())),
            None => {
                let known: Vec<_> = backend.actions.iter().map(|action| action.name).collect();
                faults.add(format!("{field}[{i}]"), format!("must be one of {}", known.join(", ")));
            }
        }
    }
    actions
}

fn known(name: &str, field: &str, faults: &mut Faults) -> Option<&'static BackendDecl> {
    let found = decl::backend(name);
    if found.is_none() {
        let known: Vec<_> = decl::builtin().iter().map(|backend| backend.name).collect();
        faults.add(field, format!("must be a backend: {}", known.join(", ")));
    }
    found
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}
