//! Times as people read them: how long ago, how long it took.
//!
//! Documents have exact times of a controller's clock. What is shown is reckoned against the time at the controller
//! that answered (`grid_client::Client::now`), so that a wrong clock of this machine changes nothing.
//! A time that cannot be read is shown as it is.

use std::time::Duration;

use grid_types::api::{JobDoc, ResultDoc};
use jiff::Timestamp;

use crate::text::one_line;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// `3m ago`: in the largest unit that leaves a whole part.
pub fn ago(at: &str, now: Timestamp) -> String {
    match at.parse() {
        Ok(at) => format!("{} ago", rough(between(at, now))),
        Err(_) => one_line(at),
    }
}

/// How long the newest run of a job has taken: until now, or until it ended.
pub fn elapsed(job: &JobDoc, now: Timestamp) -> Duration {
    let run = job.runs.as_ref().and_then(|runs| runs.first());
    // A run that waits to be started has begun to wait when the job was submitted, or last changed.
    let waits_since = if job.run > 1 { &job.updated_at } else { &job.created_at };
    let begun = run.and_then(|run| run.started_at.as_ref()).unwrap_or(waits_since);
    let ended = run.and_then(|run| run.ended_at.as_ref()).or(Some(&job.updated_at));
    let ended = ended.filter(|_| job.status.is_ended()).and_then(|at| at.parse().ok());
    begun.parse().map_or(Duration::ZERO, |begun| between(begun, ended.unwrap_or(now)))
}

/// From a time of a document until now; nothing if it cannot be read or lies ahead.
pub fn since(at: Option<&str>, now: Timestamp) -> Duration {
    at.and_then(|at| at.parse().ok()).map_or(Duration::ZERO, |at| between(at, now))
}

/// When a step ended, as far as its result says.
pub fn ended(result: &ResultDoc) -> Option<Timestamp> {
    let started: Timestamp = result.started_at.as_deref()?.parse().ok()?;
    let took = result.duration.as_deref().and_then(|text| text.strip_suffix('s')?.parse().ok());
    let took = took.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default();
    started.checked_add(took).ok()
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

fn rough(span: Duration) -> String {
    match span.as_secs() {
        s if s < MINUTE_S => format!("{s}s"),
        s if s < HOUR_S => format!("{}m", s / MINUTE_S),
        s if s < 2 * DAY_S => format!("{}h", s / HOUR_S),
        s => format!("{}d", s / DAY_S),
    }
}

#[cfg(test)]
mod tests {
    use super::{ago, elapsed, since};
    use crate::samples::job;
    use jiff::Timestamp;
    use std::time::Duration;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_read_as_how_long_ago_they_were() {
        for (now, text) in [
            ("2026-02-12T10:30:00Z", "0s ago"),
            ("2026-02-12T10:29:00Z", "0s ago"),
            ("2026-02-12T10:30:59.9Z", "59s ago"),
            ("2026-02-12T10:33:10Z", "3m ago"),
            ("2026-02-13T11:00:00Z", "24h ago"),
            ("2026-02-14T10:30:00Z", "2d ago"),
            ("2027-02-14T10:30:00Z", "367d ago"),
        ] {
            assert_eq!(ago("2026-02-12T10:30:00Z", at(now)), text);
        }
        assert_eq!(ago("so\u{1b}on", at("2026-02-12T10:30:00Z")), "so\\u{1b}on");
    }

    #[test]
    fn a_job_takes_until_now_or_until_it_ended() {
        let now = at("2026-02-12T10:40:00Z");
        assert_eq!(elapsed(&job("running", &[]), now), Duration::from_secs(600));
        assert_eq!(elapsed(&job("completed", &[]), now), Duration::from_secs(1));
        let mut resumed = job("running", &[]);
        let run = |run: u32, started: Option<&str>| {
            serde_json::from_value(
                serde_json::json!({"run": run, "kind": "resume", "status": "running", "reason": null,
                "counts": {}, "started_at": started, "ended_at": null}),
            )
            .unwrap()
        };
        resumed.run = 2;
        resumed.runs = Some(vec![run(2, Some("2026-02-12T10:39:55Z")), run(1, Some("2026-02-12T10:30:00Z"))]);
        assert_eq!(elapsed(&resumed, now), Duration::from_secs(5));
        resumed.runs = Some(vec![run(2, None)]);
        assert_eq!(elapsed(&resumed, now), Duration::from_secs(599), "it was resumed when it last changed");
    }

    #[test]
    fn what_lies_ahead_or_cannot_be_read_has_taken_no_time() {
        let now = at("2026-02-12T10:30:10Z");
        for (started, want_s) in
            [(Some("2026-02-12T10:30:03Z"), 7), (Some("2026-02-12T10:35:00Z"), 0), (Some("soon"), 0), (None, 0)]
        {
            assert_eq!(since(started, now), Duration::from_secs(want_s), "{started:?}");
        }
    }
}
