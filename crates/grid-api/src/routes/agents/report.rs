//! The body of `POST /v1/results`. The lease id says it all; the rest of its name is there so that people who read or log
//! results needs no id of ours, and must agree with it.

use grid_controller::AgentResult;
use grid_types::limits::MAX_SPAN_MS;
use grid_types::{Attempt, JobEpoch, JobId, LeaseId, LeaseKey, Outcome, Span, StepIndex};
use serde_json::Value;

use crate::http::body::Fields;
use crate::http::refused::Refused;

/// Besides `leader_epoch`.
pub const KNOWN: [&str; 10] =
    ["agent", "lease_id", "job_id", "job_epoch", "step", "attempt", "status", "output", "error", "duration"];
const ENDS: [Outcome; 5] = [Outcome::Success, Outcome::Failed, Outcome::TimedOut, Outcome::Cancelled, Outcome::Unknown];

pub fn read(mut fields: Fields) -> Result<AgentResult, Refused> {
    let agent = super::agent(&mut fields);
    let lease: Option<LeaseId> =
        fields.required("lease_id", "as /v1/leases gave it", |value| value.as_str()?.parse().ok());
    let named = named(&mut fields);
    let outcome = fields.required("status", "success, failed, timed_out, cancelled or unknown", |value| {
        ENDS.into_iter().find(|end| value.as_str() == Some(end.word()))
    });
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let output = fields.optional("output", "a text", text).unwrap_or_default();
    let error = fields.optional("error", "a text", text).filter(|error| !error.is_empty());
    let duration_ms = fields.optional("duration", "how long it ran, such as 2.3s or 5m", duration_ms).unwrap_or(0);
    if let (Some(lease), Some(named)) = (lease, named)
        && lease.lease != named
    {
        fields.fault("lease_id", "is not the lease of this job_id, job_epoch, step and attempt");
    }
    match (agent, lease, outcome) {
        (Some(agent), Some(lease), Some(outcome)) => {
            fields.finish()?;
            Ok(AgentResult { agent, lease, outcome, output, error, duration_ms })
        }
        _ => Err(fields.refused()),
    }
}

fn named(fields: &mut Fields) -> Option<LeaseKey> {
    let job: Option<JobId> = fields.required("job_id", "that of the lease", |value| value.as_str()?.parse().ok());
    let mut number = |name, what| fields.required(name, what, |value| u32::try_from(value.as_u64()?).ok());
    let job_epoch = number("job_epoch", "that of the lease, a whole number");
    let step = number("step", "that of the lease, a whole number");
    let attempt = number("attempt", "that of the lease, a whole number");
    Some(LeaseKey { job: job?, job_epoch: JobEpoch(job_epoch?), step: StepIndex(step?), attempt: Attempt(attempt?) })
}

/// As people write durations, or as documents show them: `2.3s`.
fn duration_ms(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    if let Ok(span) = text.parse::<Span>() {
        return Some(span.ms());
    }
    let (whole, part) = text.strip_suffix('s')?.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let thousandths: u64 = format!("{part:0<3}")[..3].parse().ok()?;
    Some(whole.parse::<u64>().ok()?.checked_mul(1_000)? + thousandths).filter(|ms| *ms <= MAX_SPAN_MS)
}

#[cfg(test)]
mod tests {
    use super::duration_ms;
    use serde_json::json;

    #[test]
    fn durations_are_read_as_written_and_as_shown() {
        for (text, ms) in [("2.3s", 2_300), ("0.007s", 7), ("12.3456789s", 12_345), ("300ms", 300), ("5m", 300_000)] {
            assert_eq!(duration_ms(&json!(text)), Some(ms), "{text}");
        }
        for bad in [json!("2.3"), json!("-2.3s"), json!("2.s"), json!(".3s"), json!("1.5m"), json!(2.3), json!("9e9s")]
        {
            assert_eq!(duration_ms(&bad), None, "{bad}");
        }
        assert_eq!(duration_ms(&json!("999999999.0s")), None, "longer than a year");
    }
}
