//! Reads a job from JSON and names every fault in it at once.
//!
//! By hand rather than by `serde`: a derived reader stops at the first fault and cannot say where it is.

mod phase;
mod target;
mod values;

use std::collections::BTreeMap;

use serde_json::Value;

use self::phase::phases_field;
use self::target::{exclude_field, limit_field, target_field};
use self::values::{choice_field, concurrency_field, refuse_unknown, span_field, strategy_field, tolerance_field};
use super::{JobSpec, Offline, OnUnknown, Target, fields};
use crate::fault::Faults;
use crate::limits::{MAX_JOB_LABELS, MAX_JOB_NAME_CHARS};
use crate::name::Name;

const JOB_FIELDS: &[&str] = &fields::names(fields::JOB);

/// Reads a job as it was submitted.
pub fn parse_job(document: &Value) -> Result<JobSpec, Faults> {
    let mut faults = Faults::default();
    let Value::Object(job) = document else {
        faults.add("", "a job is an object with target and tasks");
        return Err(faults);
    };
    refuse_unknown(job, JOB_FIELDS, "", &mut faults);
    let target = target_field(job.get("target"), &mut faults);
    let strategy = strategy_field(job.get("strategy"), &mut faults);
    let timeout = span_field(job.get("timeout"), "timeout", &mut faults);
    let phases = phases_field(job.get("tasks"), &mut faults);
    let failure_tolerate = tolerance_field(job.get("failure_tolerate"), &mut faults);
    let offline = choice_field(
        job,
        "offline",
        &[("skip", Offline::Skip), ("wait", Offline::Wait), ("fail", Offline::Fail)],
        &mut faults,
    );
    let on_unknown =
        choice_field(job, "on_unknown", &[("fail", OnUnknown::Fail), ("wait", OnUnknown::Wait)], &mut faults);
    let concurrency = concurrency_field(job.get("concurrency"), "concurrency", &mut faults);
    let name = name_field(job.get("name"), &mut faults);
    let labels = labels_field(job.get("labels"), &mut faults);
    let exclude = exclude_field(job.get("exclude"), &mut faults);
    let limit = limit_field(job.get("limit"), &mut faults);
    let first = concurrency_field(job.get("first"), "first", &mut faults);
    let target = target.unwrap_or(Target::All);
    let spec = JobSpec {
        target,
        phases,
        strategy,
        timeout,
        failure_tolerate,
        offline,
        on_unknown,
        concurrency,
        name,
        labels,
        exclude,
        limit,
        first,
    };
    faults.finish(spec)
}

fn name_field(value: Option<&Value>, faults: &mut Faults) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let fits =
        |name: &&str| (1..=MAX_JOB_NAME_CHARS).contains(&name.chars().count()) && !name.contains(char::is_control);
    let name = value.as_str().filter(fits);
    if name.is_none() {
        let problem = format!("must be a text of 1 to {MAX_JOB_NAME_CHARS} characters, without control characters");
        faults.add("name", problem);
    }
    name.map(str::to_owned)
}

fn labels_field(value: Option<&Value>, faults: &mut Faults) -> BTreeMap<Name, Name> {
    let map = match value {
        None | Some(Value::Null) => return BTreeMap::new(),
        Some(Value::Object(map)) => map,
        Some(_) => {
            faults.add("labels", "must be an object of names, like {\"team\": \"web\"}");
            return BTreeMap::new();
        }
    };
    if map.len() > MAX_JOB_LABELS {
        faults.add("labels", format!("has {} labels; a job has at most {MAX_JOB_LABELS}", map.len()));
        return BTreeMap::new();
    }
    let mut labels = BTreeMap::new();
    for (key, value) in map {
        let field = || format!("labels.{}", key.chars().take(60).collect::<String>());
        match (key.parse::<Name>(), value.as_str().map(str::parse::<Name>)) {
            (Ok(key), Some(Ok(value))) => drop(labels.insert(key, value)),
            (Err(e), _) => faults.add(field(), format!("the key: {e}")),
            (_, Some(Err(e))) => faults.add(field(), e.to_string()),
            (_, None) => faults.add(field(), "must be a string"),
        }
    }
    labels
}

#[cfg(test)]
mod tests;
