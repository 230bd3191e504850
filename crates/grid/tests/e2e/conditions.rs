//! `condition` at every level (J5): on a phase it looks at the job, in a pipeline at the node.

use grid_testkit::spec::{echo, fail, job, pipeline, record, with};
use grid_testkit::{Cluster, Job};
use serde_json::{Value, json};

use crate::staging::{at, sorted_places};

fn one_node() -> Cluster {
    Cluster::start(&[("web-01", "--groups web")])
}

fn when(condition: &str, phase: Value) -> Value {
    with(phase, json!({"condition": condition}))
}

/// I9: every expected node has one outcome per step, and the counts say so.
fn adds_up(job: &Job, steps: u64) {
    let nodes = job.expected().len() as u64;
    assert_eq!(job.count_all(), steps * nodes, "{job}");
    for outcome in ["success", "failed", "skipped"] {
        assert_eq!(job.count(outcome), job.rows(outcome), "{outcome}: {job}");
    }
}

#[test]
fn without_a_failure_on_failure_is_skipped_at_every_level() {
    let cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job(
        "all",
        [
            echo(),
            when("on_failure", record(&lines)),
            when("on_success", record(&lines)),
            when("on_failure", pipeline([record(&lines), record(&lines)])),
            pipeline([
                when("on_failure", record(&lines)),
                when("on_success", record(&lines)),
                when("always", record(&lines)),
            ]),
        ],
    ));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    let outcomes: Vec<&str> = (0..8).map(|step| ended.outcome(step, "web-01")).collect();
    assert_eq!(
        outcomes,
        ["success", "skipped", "success", "skipped", "skipped", "skipped", "success", "success"],
        "{ended}"
    );
    assert_eq!(sorted_places(&lines, &id), at(&[(2, "web-01"), (6, "web-01"), (7, "web-01")]));
    adds_up(&ended, 8);
}

#[test]
fn after_fail_fast_only_on_failure_phases_run() {
    let cluster = one_node();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job(
        "all",
        [
            fail("no luck"),
            record(&lines),
            when("on_success", record(&lines)),
            when("on_failure", record(&lines)),
            when("on_failure", pipeline([record(&lines), record(&lines)])),
        ],
    ));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "failed", "{ended}");
    assert_eq!(ended.error(0, "web-01"), "no luck", "{ended}");
    let outcomes: Vec<&str> = (0..6).map(|step| ended.outcome(step, "web-01")).collect();
    assert_eq!(outcomes, ["failed", "skipped", "skipped", "success", "success", "success"], "{ended}");
    assert_eq!(sorted_places(&lines, &id), at(&[(3, "web-01"), (4, "web-01"), (5, "web-01")]));
    adds_up(&ended, 6);
}

#[test]
fn j5_in_a_pipeline_the_node_itself_decides_under_both_strategies() {
    let cluster = one_node();
    let api = cluster.api();
    for strategy in ["fail-fast", "continue"] {
        let lines = cluster.record(strategy);
        let steps =
            [fail("no luck"), record(&lines), when("on_success", record(&lines)), when("on_failure", record(&lines))];
        let id = api.submit(&with(job("all", [pipeline(steps)]), json!({"strategy": strategy})));
        let ended = api.wait_ended(&id);
        assert_eq!(ended.status(), "failed", "no node is left: {ended}");
        let outcomes: Vec<&str> = (0..4).map(|step| ended.outcome(step, "web-01")).collect();
        assert_eq!(outcomes, ["failed", "skipped", "skipped", "success"], "{strategy}: {ended}");
        assert_eq!(sorted_places(&lines, &id), at(&[(3, "web-01")]), "{strategy}");
        adds_up(&ended, 4);
    }
}
