//! Formats facts for one line.
//!
//! Texts of tasks come from other machines: control characters are shown, never sent to the terminal (`safe`); here each
//! becomes one line of a bounded length.

use std::time::Duration;

use grid_types::Outcome;
use grid_types::api::{Counts, JobDoc, ResultDoc, StepDoc, TargetDoc};
use grid_types::visible::is_unsafe;

use crate::fit::width;

/// Order in which outcomes are told: what is decided first, good before bad.
const SHOWN: [Outcome; 8] = [
    Outcome::Success,
    Outcome::Failed,
    Outcome::TimedOut,
    Outcome::Unknown,
    Outcome::Cancelled,
    Outcome::Skipped,
    Outcome::Running,
    Outcome::Pending,
];

const LONGEST_CHARS: usize = 300;
const LONGEST_MESSAGE_CHARS: usize = 2_000;

/// Text from outside as one bounded line without control characters.
pub fn one_line(text: &str) -> String {
    bounded(text, LONGEST_CHARS)
}

/// The same for a message that may list everything that would have been right.
pub fn long_line(text: &str) -> String {
    bounded(text, LONGEST_MESSAGE_CHARS)
}

fn bounded(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (i, c) in text.trim_end().chars().enumerate() {
        if i == most {
            line.push('…');
            break;
        }
        if is_unsafe(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

pub fn count(counts: &Counts, outcome: Outcome) -> u64 {
    counts.get(outcome.word()).copied().unwrap_or(0)
}

/// `2 success, 1 failed`; what is zero is left out.
pub fn counts_line(counts: &Counts) -> String {
    let told = SHOWN.iter().map(|o| (count(counts, *o), o)).filter(|(n, _)| *n > 0);
    let told: Vec<_> = told.map(|(n, outcome)| format!("{n} {outcome}")).collect();
    if told.is_empty() { "nothing yet".to_owned() } else { told.join(", ") }
}

/// Rows that count as failures (J1).
pub fn failures(counts: &Counts) -> u64 {
    Outcome::ALL.iter().filter(|o| o.is_failure()).map(|o| count(counts, *o)).sum()
}

/// Settled rows, and all of them.
pub fn progress(counts: &Counts) -> (u64, u64) {
    let done = Outcome::ALL.iter().filter(|o| o.is_settled()).map(|o| count(counts, *o)).sum();
    (done, Outcome::ALL.iter().map(|o| count(counts, *o)).sum())
}

pub fn step_name(step: &StepDoc) -> String {
    format!("step {} {}/{}", step.step, one_line(&step.backend), one_line(&step.action))
}

/// `web-02 step 1 test/fail: failed: boom (attempt 1)`; a step that never began, on a node that is offline, has no attempt.
pub fn failure_line(job: &JobDoc, step: u32, node: &str, result: &ResultDoc) -> String {
    let name = job.steps.iter().find(|s| s.step == step).map_or_else(|| format!("step {step}"), step_name);
    let why = message(result).map(|why| format!(": {why}")).unwrap_or_default();
    let attempt = if result.attempts > 0 { format!(" (attempt {})", result.attempts) } else { String::new() };
    format!("{} {name}: {}{why}{attempt}", one_line(node), result.status)
}

/// What there is to say about a result: its error, else its reason.
pub fn message(result: &ResultDoc) -> Option<String> {
    let text = result.error.as_deref().filter(|e| !e.is_empty()).or(result.reason.as_deref())?;
    Some(one_line(text)).filter(|line| !line.is_empty())
}

/// The target of a job with what narrows it.
pub fn aim(job: &JobDoc) -> String {
    let without = job.exclude.as_ref().map(|exclude| format!(", without {}", one_line(exclude))).unwrap_or_default();
    let limit = job.limit.as_ref().map(|limit| format!(", limited to {}", one_line(limit))).unwrap_or_default();
    format!("{}{without}{limit}", target(&job.target))
}

pub fn target(target: &TargetDoc) -> String {
    match &target.value {
        Some(expr) if target.scope == "where" => one_line(expr),
        Some(value) => one_line(&format!("{}:{value}", target.scope)),
        None => one_line(&target.scope),
    }
}

/// `3 nodes`, `1 node`
pub fn number(n: usize, noun: &str) -> String {
    many(u64::try_from(n).unwrap_or(u64::MAX), noun)
}

/// How many nodes a job runs on, in words.
pub fn nodes(job: &JobDoc) -> String {
    many(job.node_count(), "node")
}

fn many(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// As many names as a line takes, and how many more.
pub fn named(names: &[String]) -> String {
    const COLUMNS: usize = 64;
    let mut text = String::new();
    let mut shown = 0;
    for name in names {
        let next = format!("{}{}", if shown == 0 { "" } else { ", " }, one_line(name));
        if shown > 0 && width(&text) + width(&next) > COLUMNS {
            break;
        }
        text.push_str(&next);
        shown += 1;
    }
    let more = names.len() - shown;
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// `7s`, `3m 05s`, `2h 07m`: as exact as an operator wants it.
pub fn seconds(span: Duration) -> String {
    let s = span.as_secs();
    match (s / 3_600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::{counts_line, one_line, seconds};
    use std::time::Duration;

    #[test]
    fn spans_read_as_people_say_them() {
        for (s, text) in [(0, "0s"), (59, "59s"), (185, "3m 05s"), (7_620, "2h 07m"), (360_000, "100h 00m")] {
            assert_eq!(seconds(Duration::from_secs(s)), text);
        }
    }

    #[test]
    fn what_a_task_says_cannot_touch_the_terminal() {
        assert_eq!(one_line("a\u{1b}[31mb\r\nc\n"), "a\\u{1b}[31mb\\r\\nc");
        assert_eq!(one_line(&"x".repeat(1_000)).chars().count(), 301);
    }

    #[test]
    fn zeros_are_left_out() {
        let counts = [("pending", 0), ("failed", 1), ("success", 2)].map(|(w, n)| (w.to_owned(), n)).into();
        assert_eq!(counts_line(&counts), "2 success, 1 failed");
        assert_eq!(counts_line(&std::collections::BTreeMap::new()), "nothing yet");
    }
}
