//! Converts a lease's result to and from the JSON of `result.<job>.<step>.<node>`: the TaskResult of the seed, and what Grid adds to it.
//!
//! `status` knows success and failed only, and `duration` is in nanoseconds, for tools that read the stream; Grid reads `outcome` and the
//! numbers. The output is a text there: bytes that are not text are replaced, and the exact ones are beside it.
//! The body names its lease again, and counts only if the subject names the same.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use grid_proto::v1;
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeId, StepIndex};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const NANOS_PER_MS: u64 = 1_000_000;

/// Whose session a result belongs to, and under which leader it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) session: u64,
    pub(super) leader_epoch: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct TaskResult {
    job_id: JobId,
    task_index: u32,
    node_id: String,
    status: Status,
    output: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    error: String,
    /// Nanoseconds.
    duration: u64,
    /// When it ended.
    timestamp: String,
    outcome: Outcome,
    job_epoch: u32,
    leader_epoch: u64,
    attempt: u32,
    session: u64,
    started_at_ms: u64,
    output_bytes: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    output_truncated: bool,
    /// The output, where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Success,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Success,
    Failed,
    TimedOut,
    Unknown,
}

/// `None`: it names no lease, or ended in no way that a result can tell.
pub(super) fn encode(node: &NodeId, sender: Sender, result: &v1::LeaseResult) -> Option<Bytes> {
    let lease = LeaseKey::from(result.lease?);
    let outcome = match result.status() {
        v1::LeaseStatus::Success => Outcome::Success,
        v1::LeaseStatus::Failed => Outcome::Failed,
        v1::LeaseStatus::TimedOut => Outcome::TimedOut,
        v1::LeaseStatus::Unknown => Outcome::Unknown,
        v1::LeaseStatus::Unspecified | v1::LeaseStatus::Cancelled => return None,
    };
    let output = String::from_utf8_lossy(&result.output_tail);
    let is_text = matches!(output, std::borrow::Cow::Borrowed(_));
    let body = TaskResult {
        job_id: lease.job,
        task_index: lease.step.0,
        node_id: node.to_string(),
        status: if outcome == Outcome::Success { Status::Success } else { Status::Failed },
        output: output.into_owned(),
        error: result.error.clone(),
        duration: result.duration_ms.saturating_mul(NANOS_PER_MS),
        timestamp: time_text(result.started_at_ms.saturating_add(result.duration_ms)),
        outcome,
        job_epoch: lease.job_epoch.0,
        leader_epoch: sender.leader_epoch,
        attempt: lease.attempt.0,
        session: sender.session,
        started_at_ms: result.started_at_ms,
        output_bytes: result.output_bytes,
        output_truncated: result.output_truncated,
        output_base64: (!is_text).then(|| BASE64_STANDARD.encode(&result.output_tail)),
        exit_code: result.exit_code,
        signal: result.signal,
        changed: result.changed,
    };
    serde_json::to_vec(&body).ok().map(Bytes::from)
}

/// The result of a lease of `(job, step)`. `None`: the body cannot be read, or is about something else.
pub(super) fn decode(job: JobId, step: StepIndex, payload: &[u8]) -> Option<(Sender, v1::LeaseResult)> {
    let body: TaskResult = serde_json::from_slice(payload).ok()?;
    if (body.job_id, body.task_index) != (job, step.0) {
        return None;
    }
    let (job_epoch, attempt) = (JobEpoch(body.job_epoch), Attempt(body.attempt));
    let status = match body.outcome {
        Outcome::Success => v1::LeaseStatus::Success,
        Outcome::Failed => v1::LeaseStatus::Failed,
        Outcome::TimedOut => v1::LeaseStatus::TimedOut,
        Outcome::Unknown => v1::LeaseStatus::Unknown,
    };
    let output_tail = match body.output_base64 {
        Some(text) => BASE64_STANDARD.decode(text).ok()?,
        None => body.output.into_bytes(),
    };
    let result = v1::LeaseResult {
        lease: Some(LeaseKey { job, job_epoch, step, attempt }.into()),
        status: status.into(),
        error: body.error,
        output_tail,
        output_bytes: body.output_bytes,
        duration_ms: body.duration / NANOS_PER_MS,
        started_at_ms: body.started_at_ms,
        output_truncated: body.output_truncated,
        exit_code: body.exit_code,
        signal: body.signal,
        changed: body.changed,
    };
    Some((Sender { session: body.session, leader_epoch: body.leader_epoch }, result))
}

/// RFC 3339; 1970 for a time that has none.
fn time_text(wall_ms: u64) -> String {
    let time = i64::try_from(wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use grid_proto::v1;
    use grid_types::{JobId, NodeId, StepIndex};
    use serde_json::Value;

    use super::{Sender, decode, encode};

    const SENDER: Sender = Sender { session: 7, leader_epoch: 3 };

    fn node() -> NodeId {
        "web-01".parse().unwrap()
    }

    fn result(status: v1::LeaseStatus, output: &[u8]) -> v1::LeaseResult {
        v1::LeaseResult {
            lease: Some(v1::Lease { job_id: 9, job_epoch: 2, step: 4, attempt: 3 }),
            status: status.into(),
            error: "exit code 3".to_owned(),
            output_tail: output.to_vec(),
            output_bytes: 4_711,
            duration_ms: 1_500,
            started_at_ms: 1_790_000_000_007,
            output_truncated: true,
            exit_code: Some(3),
            signal: None,
            changed: Some(false),
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_whatever_the_output_is() {
        use v1::LeaseStatus::{Failed, Success, TimedOut, Unknown};
        for status in [Success, Failed, TimedOut, Unknown] {
            for output in [&b""[..], b"text: \"\xc3\xa4\"\n", &[0, 255, 10, 128]] {
                let sent = result(status, output);
                let body = encode(&node(), SENDER, &sent).unwrap();
                assert_eq!(decode(JobId(9), StepIndex(4), &body), Some((SENDER, sent)));
            }
        }
    }

    #[test]
    fn the_body_is_the_task_result_of_the_seed() {
        let body = encode(&node(), SENDER, &result(v1::LeaseStatus::TimedOut, b"out")).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["status"], "failed");
        assert_eq!(body["outcome"], "timed_out");
        assert_eq!((body["task_index"].as_u64(), body["duration"].as_u64()), (Some(4), Some(1_500_000_000)));
        assert_eq!((body["node_id"].as_str(), body["output"].as_str()), (Some("web-01"), Some("out")));
        assert_eq!(body["timestamp"], "2026-09-21T14:13:21.507Z");
        assert!(body.get("output_base64").is_none());
    }

    #[test]
    fn a_body_about_another_lease_than_its_subject_is_refused() {
        let body = encode(&node(), SENDER, &result(v1::LeaseStatus::Success, b"")).unwrap();
        assert!(decode(JobId(8), StepIndex(4), &body).is_none() && decode(JobId(9), StepIndex(5), &body).is_none());
        for garbage in [&b""[..], b"null", b"{}", b"[1,2]", &body[..body.len() - 1]] {
            assert!(decode(JobId(9), StepIndex(4), garbage).is_none());
        }
        assert!(encode(&node(), SENDER, &result(v1::LeaseStatus::Cancelled, b"")).is_none());
    }
}
