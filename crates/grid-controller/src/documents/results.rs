//! Documents of results and outputs.

use grid_store::{Note, OutputGroup, ResultRow, StepResult};
use grid_types::api::{OutputGroupDoc, ResultDoc, ResultRowDoc};
use grid_types::span::seconds_text;
use grid_types::{JobId, Revoked};

use crate::time::time_text;

pub fn result_row(row: ResultRow) -> ResultRowDoc {
    ResultRowDoc { step: row.step, node: row.node, result: result(row.result, row.job) }
}

pub fn result(row: StepResult, job: JobId) -> ResultDoc {
    ResultDoc {
        status: row.status,
        duration: row.duration_ms.map(seconds_text),
        attempts: row.attempts,
        error: row.error,
        reason: row.note.map(|note| note_text(&note, job)),
        started_at: row.started_wall_ms.map(time_text),
        exit_code: row.exit_code,
        signal: row.signal,
        changed: row.changed,
    }
}

fn note_text(note: &Note, job: JobId) -> String {
    match note {
        Note::Reason(reason) => reason.text(job),
        Note::Parked => "waiting for its turn in the phase (concurrency or first)".to_owned(),
        Note::Unresolved => "its outcome is unknown; waiting for an operator to resolve it".to_owned(),
        Note::Held => "held after a restore; waiting for an operator to confirm the job".to_owned(),
        Note::Queued { attempt } if *attempt > 1 => format!("attempt {attempt} waits for a free slot"),
        Note::Queued { .. } => "waiting for a free slot of the node, or for the node itself".to_owned(),
        Note::Backoff { attempt, until_wall_ms } => format!("attempt {attempt} at {}", time_text(*until_wall_ms)),
        Note::Stopping(Revoked::Cancel) => "job cancelled; waiting for the worker to confirm".to_owned(),
        Note::Stopping(Revoked::JobTimeout) => "job timeout; waiting for the worker to confirm".to_owned(),
    }
}

pub fn output_group(group: OutputGroup) -> OutputGroupDoc {
    let output = String::from_utf8(group.tail);
    OutputGroupDoc {
        count: u64::try_from(group.nodes.len()).unwrap_or(u64::MAX),
        nodes: group.nodes,
        output: output.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
        total_bytes: group.total_bytes,
    }
}

#[cfg(test)]
mod tests {
    use grid_store::{Note, OutputGroup, StepResult};
    use grid_types::{JobId, Outcome, Revoked};

    use super::{output_group, result};

    const JOB: JobId = JobId(7);

    fn noted(note: Note) -> StepResult {
        StepResult {
            status: Outcome::Pending,
            attempts: 1,
            duration_ms: Some(2_345),
            started_wall_ms: Some(1_790_000_000_000),
            error: None,
            note: Some(note),
            exit_code: None,
            signal: None,
            changed: None,
        }
    }

    #[test]
    fn a_note_says_what_a_step_waits_for() {
        let text = |note| result(noted(note), JOB).reason.unwrap();
        let until_wall_ms = 1_790_000_005_000;
        assert_eq!(text(Note::Backoff { attempt: 2, until_wall_ms }), "attempt 2 at 2026-09-21T14:13:25.000Z");
        let queued = "waiting for a free slot of the node, or for the node itself";
        assert_eq!(text(Note::Queued { attempt: 1 }), queued);
        assert_eq!(text(Note::Queued { attempt: 3 }), "attempt 3 waits for a free slot");
        assert!(text(Note::Stopping(Revoked::Cancel)).contains("confirm"));
    }

    #[test]
    fn durations_and_times_are_text() {
        let doc = result(noted(Note::Parked), JOB);
        assert_eq!(doc.duration.as_deref(), Some("2.3s"));
        assert_eq!(doc.started_at.as_deref(), Some("2026-09-21T14:13:20.000Z"));
    }

    #[test]
    fn an_output_that_is_not_utf_8_is_shown_with_replacements() {
        let nodes = vec!["a".to_owned(), "b".to_owned()];
        let doc = output_group(OutputGroup { nodes, tail: b"a\xff".to_vec(), total_bytes: 2 });
        assert_eq!((doc.output.as_str(), doc.count), ("a\u{fffd}", 2));
    }
}
