//! Reads a job from JSON and names every fault in it at once.
//!
//! By hand rather than by `serde`: a derived reader stops at the first fault and cannot say where it is.

mod phase;
mod target;
mod values;

use serde_json::Value;

pub use target::parse_target;

use self::phase::phases_field;
use self::target::target_field;
use self::values::{choice_field, refuse_unknown, span_field, strategy_field, tolerance_field};
use super::{JobSpec, Offline, OnUnknown, Target, fields};
use crate::fault::Faults;

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
    let target = target.unwrap_or(Target::All);
    let spec = JobSpec { target, phases, strategy, timeout, failure_tolerate, offline, on_unknown };
    faults.finish(spec)
}

#[cfg(test)]
mod tests;
