//! Barriers and pipelines (I5, I6): the order in which things ran, read from record lines.

use grid_testkit::spec::{job, pipeline, record};

use crate::staging::{Busy, at, places, two_web_nodes};

#[test]
fn i5_a_barrier_waits_for_the_slowest_node() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let busy = Busy::keep(&api, "web-02");
    let id = api.submit(&job("group:web", [record(&lines), record(&lines)]));
    api.wait_job(&id, "web-01 done with step 0", |j| j.outcome(0, "web-01") == "success");
    busy.release();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    let ran = places(&lines, &id);
    assert_eq!(ran[..2], at(&[(0, "web-01"), (0, "web-02")]), "{ran:?}");
    assert_eq!(ran.len(), 4, "{ran:?}");
    assert!(ran[2..].iter().all(|(step, _)| *step == 1), "{ran:?}");
    let slowest_first = ended.started_at(0, "web-02").to_owned();
    assert!(!slowest_first.is_empty(), "{ended}");
    for node in ["web-01", "web-02"] {
        assert!(ended.started_at(1, node) >= slowest_first.as_str(), "{ended}");
    }
}

#[test]
fn i6_in_a_pipeline_a_node_goes_on_alone_and_the_next_phase_waits_for_all() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let busy = Busy::keep(&api, "web-02");
    let steps = [record(&lines), record(&lines), record(&lines)];
    let id = api.submit(&job("group:web", [pipeline(steps), record(&lines)]));
    let alone = api.wait_job(&id, "web-01 through its pipeline", |j| j.outcome(2, "web-01") == "success");
    assert!(matches!(alone.outcome(0, "web-02"), "pending" | ""), "web-02 is busy elsewhere: {alone}");
    assert_eq!(places(&lines, &id), at(&[(0, "web-01"), (1, "web-01"), (2, "web-01")]));
    busy.release();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    let ran = places(&lines, &id);
    assert_eq!(ran[3..6], at(&[(0, "web-02"), (1, "web-02"), (2, "web-02")]), "{ran:?}");
    let mut last = ran[6..].to_vec();
    last.sort();
    assert_eq!(last, at(&[(3, "web-01"), (3, "web-02")]), "{ran:?}");
}
