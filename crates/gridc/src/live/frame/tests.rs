//! Frames as text; `GRIDC_GOLDEN=write cargo test -p gridc` accepts what they are now.

use std::time::Duration;

use super::{Frame, Size, window};
use crate::fit::width;
use crate::live::{Look, Running};
use crate::samples::{golden, job};
use grid_types::api::JobDoc;

const NARROW: Size = Size { columns: 80, rows: 24 };
const ELAPSED: Duration = Duration::from_secs(72);
const WIDE: Size = Size { columns: 200, rows: 50 };

/// Four steps in three phases on 500 nodes; the second is under way, with failures.
fn rollout() -> JobDoc {
    let counts = |given: &[(&str, u64)]| job("running", given).counts;
    let mut doc = job("running", &[("success", 740), ("failed", 11), ("running", 8), ("pending", 1_241)]);
    doc.expected = Some((1..=500).map(|n| format!("node-{n:03}")).collect());
    let rows = [
        (0, "ping", "hostname", counts(&[("success", 500)])),
        (1, "test", "succeed", counts(&[("success", 240), ("failed", 11), ("running", 8), ("pending", 241)])),
        (1, "apt", "install", counts(&[("pending", 500)])),
        (2, "ping", "echo", counts(&[("pending", 500)])),
    ];
    doc.steps = rows
        .into_iter()
        .zip(0..)
        .map(|((phase, backend, action, counts), n)| {
            let (backend, action) = (backend.to_owned(), action.to_owned());
            grid_types::api::StepDoc { step: n, phase, backend, action, counts }
        })
        .collect();
    doc.step = 1;
    doc
}

fn failed(n: usize) -> Vec<String> {
    (1..=n)
        .map(|n| format!("node-{n:03} step 1 test/succeed: failed: cannot reach the mirror at 10.0.0.7 (attempt 1)"))
        .collect()
}

fn running(n: u64) -> Vec<Running> {
    (0..n).map(|i| Running { node: format!("node-{i:03}"), step: 1, for_long: Duration::from_secs(70 - i) }).collect()
}

fn text(frame: &Frame<'_>, size: Size) -> String {
    let lines = frame.lines(size);
    assert!(lines.len() < size.rows, "{} lines on {size:?}", lines.len());
    for line in &lines {
        assert!(width(&line.text) < size.columns, "{size:?}: {:?}", line.text);
    }
    lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

fn check(name: &str, frame: &Frame<'_>, size: Size) {
    golden(&format!("src/live/frame/golden/{name}.txt"), &text(frame, size));
}

#[test]
fn a_job_under_way_with_failures_narrow_and_wide() {
    let (job, failed, running) = (rollout(), failed(11), running(8));
    let frame = Frame {
        look: Look { job: &job, running: &running, why: None, elapsed: ELAPSED },
        failed: &failed,
        silent: Duration::ZERO,
        closing: false,
    };
    check("rollout-80x24", &frame, NARROW);
    check("rollout-200x50", &frame, WIDE);
    check("rollout-40x8", &frame, Size { columns: 40, rows: 8 });
    check("rollout-end", &Frame { closing: true, ..frame }, NARROW);
}

#[test]
fn a_job_that_waits_says_why_with_the_command_whole() {
    let mut job = rollout();
    job.steps.truncate(1);
    let why = "phase 1 waits for a person since 12 minutes: somebody has to agree before it begins; \
               gridc job confirm job-0c5t9v3k2m7qa";
    let frame = Frame {
        look: Look { job: &job, running: &[], why: Some(why), elapsed: Duration::from_secs(3_700) },
        failed: &[],
        silent: Duration::ZERO,
        closing: false,
    };
    check("waits-80x24", &frame, NARROW);
    let silent = Frame { silent: Duration::from_secs(4), ..frame };
    assert!(text(&silent, NARROW).contains("no answer from a controller for 4s\n"));
}

#[test]
fn a_frame_fits_whatever_the_size() {
    let (job, failed, running) = (rollout(), failed(50), running(70));
    let why = Some("step 1 waits for node-017, unhealthy for 41s; gridc node info node-017");
    let frame = Frame {
        look: Look { job: &job, running: &running, why, elapsed: ELAPSED },
        failed: &failed,
        silent: Duration::ZERO,
        closing: false,
    };
    for columns in (9..220).step_by(7) {
        for rows in (3..40).step_by(3) {
            text(&frame, Size { columns, rows });
        }
    }
    for (columns, rows) in [(0, 0), (1, 1), (5, 200)] {
        assert!(!frame.lines(Size { columns, rows }).is_empty());
    }
}

#[test]
fn the_window_follows_the_work() {
    let mut doc = rollout();
    let (done, open) = (doc.steps[0].clone(), doc.steps[3].clone());
    doc.steps = (0..300).map(|n| grid_types::api::StepDoc { step: n, ..open.clone() }).collect();
    for (at, first) in [(0, 0), (1, 0), (40, 39), (299, 290)] {
        doc.step = at;
        assert_eq!((window(&doc, 10)[0].step, window(&doc, 10).len()), (first, 10), "{at}");
    }
    doc.step = 0;
    doc.steps[..100].iter_mut().for_each(|step| step.counts = done.counts.clone());
    assert_eq!(window(&doc, 10)[0].step, 99, "a pipeline of 300 steps is one phase: what is done is left behind");
}
