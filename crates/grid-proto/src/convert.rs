//! Converts wire messages to and from `grid-types`. A message from outside is checked here, once.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::decl::{self, EffectClass, ParamValue, Params};
use grid_types::limits::{MAX_FACT_BYTES, MAX_FACTS, MAX_GROUPS, MAX_LABELS, MAX_SLOTS};
use grid_types::node::{Capacity, FACT_KEY_RULE, LABEL_RULE, NodeFacts, is_fact, is_label};
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, Outcome, Span, StepIndex};

use crate::v1;

/// A message that no honest peer of this version sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad message from the peer: {0}")]
pub struct BadMessage(pub String);

fn bad<T>(what: impl Into<String>) -> Result<T, BadMessage> {
    Err(BadMessage(what.into()))
}

impl From<LeaseKey> for v1::Lease {
    fn from(key: LeaseKey) -> Self {
        Self { job_id: key.job.0, job_epoch: key.job_epoch.0, step: key.step.0, attempt: key.attempt.0 }
    }
}

impl From<v1::Lease> for LeaseKey {
    fn from(lease: v1::Lease) -> Self {
        Self {
            job: JobId(lease.job_id),
            job_epoch: JobEpoch(lease.job_epoch),
            step: StepIndex(lease.step),
            attempt: Attempt(lease.attempt),
        }
    }
}

impl v1::EffectClass {
    #[must_use]
    pub fn of(effect: EffectClass) -> Self {
        match effect {
            EffectClass::Pure => Self::Pure,
            EffectClass::Idempotent => Self::Idempotent,
            EffectClass::Once => Self::Once,
        }
    }

    /// Anything unheard of is `once`: never run again by mistake.
    #[must_use]
    pub fn class(self) -> EffectClass {
        match self {
            Self::Pure => EffectClass::Pure,
            Self::Idempotent => EffectClass::Idempotent,
            Self::Once | Self::Unspecified => EffectClass::Once,
        }
    }
}

impl v1::LeaseStatus {
    #[must_use]
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Unspecified => None,
            Self::Success => Some(Outcome::Success),
            Self::Failed => Some(Outcome::Failed),
            Self::TimedOut => Some(Outcome::TimedOut),
            Self::Unknown => Some(Outcome::Unknown),
            Self::Cancelled => Some(Outcome::Cancelled),
        }
    }
}

#[must_use]
fn value_of(value: &ParamValue) -> v1::Value {
    use v1::value::Kind;
    let kind = match value {
        ParamValue::Text(text) => Kind::Text(text.clone()),
        ParamValue::Integer(n) => Kind::Integer(*n),
        ParamValue::Boolean(b) => Kind::Boolean(*b),
        ParamValue::Duration(span) => Kind::DurationMs(span.ms()),
        ParamValue::Texts(items) => Kind::Texts(v1::Texts { items: items.clone() }),
        ParamValue::Integers(items) => Kind::Integers(v1::Integers { items: items.clone() }),
        ParamValue::TextMap(items) => Kind::TextMap(v1::TextMap { items: items.clone() }),
    };
    v1::Value { kind: Some(kind) }
}

impl v1::Offer {
    /// The parameters of a task as the wire carries them.
    #[must_use]
    pub fn params_of(params: &Params) -> std::collections::BTreeMap<String, v1::Value> {
        params.iter().map(|(name, value)| (name.clone(), value_of(value))).collect()
    }

    pub fn checked_params(&self) -> Result<Params, BadMessage> {
        use v1::value::Kind;
        let mut params = Params::new();
        for (name, value) in &self.params {
            let value = match &value.kind {
                Some(Kind::Text(text)) => ParamValue::Text(text.clone()),
                Some(Kind::Integer(n)) => ParamValue::Integer(*n),
                Some(Kind::Boolean(b)) => ParamValue::Boolean(*b),
                Some(Kind::DurationMs(ms)) => ParamValue::Duration(Span::from_ms(*ms)),
                Some(Kind::Texts(texts)) => ParamValue::Texts(texts.items.clone()),
                Some(Kind::Integers(integers)) => ParamValue::Integers(integers.items.clone()),
                Some(Kind::TextMap(map)) => ParamValue::TextMap(map.items.clone()),
                None => return bad(format!("parameter {name} has no value")),
            };
            params.insert(name.clone(), value);
        }
        Ok(params)
    }
}

impl From<&NodeFacts> for v1::NodeFacts {
    fn from(facts: &NodeFacts) -> Self {
        let backends = facts
            .backends
            .iter()
            .map(|(name, actions)| v1::BackendFacts { name: name.clone(), actions: actions.iter().cloned().collect() });
        Self {
            hostname: facts.hostname.clone(),
            address: facts.address.clone(),
            groups: facts.groups.iter().map(ToString::to_string).collect(),
            labels: facts.labels.clone().into_iter().collect(),
            backends: backends.collect(),
            os: facts.os.clone(),
            arch: facts.arch.clone(),
            capacity: Some(v1::Capacity {
                cpu_milli: facts.capacity.cpu_milli,
                memory_bytes: facts.capacity.memory_bytes,
                disk_bytes: facts.capacity.disk_bytes,
                slots: facts.capacity.slots,
            }),
            version: facts.version.clone(),
            facts: facts.facts.clone().into_iter().collect(),
        }
    }
}

impl TryFrom<v1::NodeFacts> for NodeFacts {
    type Error = BadMessage;

    fn try_from(facts: v1::NodeFacts) -> Result<Self, BadMessage> {
        if facts.groups.len() > MAX_GROUPS || facts.labels.len() > MAX_LABELS {
            return bad(format!("a node has at most {MAX_GROUPS} groups and {MAX_LABELS} labels"));
        }
        if let Some((key, _)) = facts.labels.iter().find(|(key, value)| !is_label(key, value)) {
            let shown: String = key.chars().take(60).collect();
            return bad(format!("label {shown:?}: {LABEL_RULE}"));
        }
        if facts.facts.len() > MAX_FACTS {
            return bad(format!("a node has at most {MAX_FACTS} facts"));
        }
        if let Some((key, _)) = facts.facts.iter().find(|(key, value)| !is_fact(key, value)) {
            let shown: String = key.chars().take(60).collect();
            let rule = format!("{FACT_KEY_RULE}, a value at most {MAX_FACT_BYTES} bytes, without control characters");
            return bad(format!("fact {shown:?}: {rule}"));
        }
        let texts = [&facts.hostname, &facts.address, &facts.os, &facts.arch, &facts.version];
        if texts.into_iter().any(|text| text.len() > MAX_FACT_BYTES) {
            return bad(format!("a host name, address, platform or version has at most {MAX_FACT_BYTES} bytes"));
        }
        let mut groups = BTreeSet::new();
        for group in facts.groups {
            groups.insert(group.parse().map_err(|e| BadMessage(format!("group {e}")))?);
        }
        let capacity = facts.capacity.unwrap_or_default();
        if !(1..=MAX_SLOTS).contains(&capacity.slots) {
            return bad(format!("slots must be from 1 to {MAX_SLOTS}"));
        }
        // What nobody declares is gone before anything of it is copied.
        let mut backends: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for backend in facts.backends {
            let Some(declared) = decl::backend(&backend.name) else { continue };
            let actions = backend.actions.into_iter().filter(|action| declared.action(action).is_some());
            backends.entry(backend.name).or_default().extend(actions);
        }
        let facts = Self {
            hostname: facts.hostname,
            address: facts.address,
            groups,
            labels: facts.labels.into_iter().collect(),
            backends,
            os: facts.os,
            arch: facts.arch,
            capacity: Capacity {
                cpu_milli: capacity.cpu_milli,
                memory_bytes: capacity.memory_bytes,
                disk_bytes: capacity.disk_bytes,
                slots: capacity.slots,
            },
            version: facts.version,
            facts: facts.facts.into_iter().collect(),
        };
        facts.check_size().map_err(BadMessage)?;
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeFacts, v1};
    use grid_types::node::Capacity;

    #[test]
    fn facts_survive_the_wire_and_bad_ones_do_not() {
        let facts = NodeFacts {
            hostname: "h".into(),
            groups: ["web".parse().unwrap()].into(),
            backends: [("ping".to_owned(), ["echo".to_owned()].into())].into(),
            capacity: Capacity { slots: 2, ..Capacity::default() },
            facts: [("os.id".to_owned(), "debian".to_owned())].into(),
            ..NodeFacts::default()
        };
        let wire = v1::NodeFacts::from(&facts);
        assert_eq!(NodeFacts::try_from(wire.clone()).unwrap(), facts);
        let bad_group = v1::NodeFacts { groups: vec!["Web".into()], ..wire.clone() };
        assert!(NodeFacts::try_from(bad_group).is_err());
        let no_slots = v1::NodeFacts { capacity: None, ..wire.clone() };
        assert!(NodeFacts::try_from(no_slots).is_err());
        let long_name = v1::NodeFacts { hostname: "h".repeat(1_000), ..wire.clone() };
        assert!(NodeFacts::try_from(long_name).is_err());
        let bad_label = v1::NodeFacts { labels: [("k".repeat(64), String::new())].into(), ..wire.clone() };
        assert!(NodeFacts::try_from(bad_label).is_err());
        for (key, value) in [("OS", "x".to_owned()), ("os.id", "v".repeat(256)), ("os.id", "a\u{7}".to_owned())] {
            let bad_fact = v1::NodeFacts { facts: [(key.to_owned(), value)].into(), ..wire.clone() };
            assert!(NodeFacts::try_from(bad_fact).is_err(), "{key}");
        }
        let many = (0..129).map(|i| (format!("f{i}"), String::new())).collect();
        assert!(NodeFacts::try_from(v1::NodeFacts { facts: many, ..wire.clone() }).is_err());
        let actions: Vec<String> = (0..5_000).map(|i| i.to_string()).collect();
        let invented = v1::BackendFacts { name: "b".into(), actions: actions.clone() };
        let mixed = v1::BackendFacts { name: "ping".into(), actions };
        let busy = v1::NodeFacts { backends: [wire.backends.clone(), vec![invented, mixed]].concat(), ..wire.clone() };
        assert_eq!(NodeFacts::try_from(busy).unwrap(), facts, "what nobody declares is dropped");
        let labels = (0..64).map(|i| (format!("{i:0>63}"), "v".repeat(255))).collect();
        let wide = NodeFacts::try_from(v1::NodeFacts { labels, ..wire }).unwrap_err();
        assert!(wide.to_string().contains("16384") && wide.to_string().contains("labels"), "{wide}");
    }
}
