//! `max_retries`: only the failed nodes try again, and the attempts are reported correctly.

use grid_testkit::spec::{fail, job, pipeline, record, task, with};
use serde_json::json;

use crate::staging::{Busy, closed_record, open, two_web_nodes};

#[test]
fn a_retry_runs_only_on_the_node_that_failed() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let closed = closed_record(&cluster);
    let busy = Busy::keep(&api, "web-02");
    let stubborn = with(record(&closed), json!({"max_retries": 6}));
    let id = api.submit(&job("group:web", [stubborn]));
    // A second attempt proves that the first one ended: W8 allows it only after a definite failure.
    api.wait_job(&id, "a second attempt on web-01", |j| j.attempts(0, "web-01") >= 2);
    open(&closed);
    busy.release();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.outcomes(0), ["success", "success"], "{ended}");
    let attempts = ended.attempts(0, "web-01");
    assert!(attempts >= 2, "{ended}");
    assert_eq!(ended.attempts(0, "web-02"), 1, "{ended}");
    let mut lines = closed.of(&id);
    lines.sort();
    let expected = [(0, "web-01".to_owned(), attempts), (0, "web-02".to_owned(), 1)];
    assert_eq!(lines, expected, "the line names the attempt that the job shows");
}

#[test]
fn a_step_that_never_succeeds_uses_all_its_attempts_and_no_more() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let doomed = with(fail("always"), json!({"max_retries": 2}));
    let once = fail("at once");
    let handled = with(record(&cluster.record("lines")), json!({"condition": "on_failure"}));
    let id = api.submit(&with(job("group:web", [pipeline([doomed, once, handled])]), json!({"strategy": "continue"})));
    let ended = api.wait_ended(&id);
    for node in ["web-01", "web-02"] {
        assert_eq!(ended.outcome(0, node), "failed", "{ended}");
        assert_eq!(ended.attempts(0, node), 3, "{ended}");
        assert_eq!(ended.outcome(1, node), "skipped", "{ended}");
        assert_eq!(ended.attempts(1, node), 0, "{ended}");
        assert_eq!(ended.outcome(2, node), "success", "{ended}");
    }
    assert_eq!(ended.status(), "failed", "{ended}");
}

#[test]
fn flaky_steps_end_as_their_last_attempt_ended() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let never = task("test", "flaky", &json!({"rate": 0}));
    let often = with(task("test", "flaky", &json!({"rate": 50})), json!({"max_retries": 1}));
    let always = task("test", "flaky", &json!({"rate": 100}));
    let id = api.submit(&with(job("group:web", [never, often, always]), json!({"strategy": "continue"})));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "failed", "nobody survives the last phase: {ended}");
    assert_eq!(ended.outcomes(0), ["success", "success"], "{ended}");
    for node in ["web-01", "web-02"] {
        let (outcome, attempts) = (ended.outcome(1, node), ended.attempts(1, node));
        assert!(matches!((outcome, attempts), ("success", 1 | 2) | ("failed", 2)), "{ended}");
        let last = if outcome == "success" { "failed" } else { "skipped" };
        // With both nodes excluded the last phase has no node to run on and is skipped as well.
        assert_eq!(ended.outcome(2, node), last, "{ended}");
    }
}
