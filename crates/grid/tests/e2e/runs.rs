//! Runs of a job: the newest is shown by default, and each can be shown (J8).

use grid_testkit::Cluster;
use grid_testkit::spec::{job, record, task, with};
use serde_json::json;

use crate::staging::{closed_record, open};

#[test]
fn j8_a_retried_job_shows_its_newest_run_and_each_earlier_one() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let closed = closed_record(&cluster);
    let printing = task("test", "output", &json!({"lines": 1, "width": 12}));
    let id = api.submit(&job("all", [record(&closed), with(printing, json!({"condition": "on_failure"}))]));
    assert_eq!(api.wait_ended(&id).status(), "failed");
    open(&closed);
    cluster.gridc().run(&["job", "retry", &id, "--wait"]).exits(0);
    // Runs are read from the store, not from memory.
    cluster.server.kill9();
    cluster.server.restart();
    api.wait_node("web-01", "ready");

    let newest = cluster.gridc().run(&["job", "status", &id]).exits(0).stdout;
    assert!(newest.contains("run        2 of 2\n") && newest.contains("status     completed\n"), "{newest}");
    assert!(newest.contains("skipped"), "nothing was to be cleaned up: {newest}");
    let lines: Vec<_> = newest.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert!(lines.iter().any(|line| line.starts_with(&["2", "retry", "completed"])), "{newest}");
    assert!(lines.iter().any(|line| line.starts_with(&["1", "submit", "failed"])), "{newest}");
    let first = cluster.gridc().run(&["job", "status", &id, "--run", "1"]).exits(0).stdout;
    assert!(first.contains("run        1 of 2\n") && first.contains("status     failed: step 0 failed"), "{first}");
    assert!(!first.contains("skipped"), "{first}");

    let printed = |args: &[&str]| cluster.gridc().run(&[&["job", "logs", &id], args].concat()).exits(0).stdout;
    assert!(!printed(&[]).contains("1..."), "the newest run skipped what printed: {}", printed(&[]));
    assert!(printed(&["--run", "1"]).contains("1..."), "{}", printed(&["--run", "1"]));
    assert!(printed(&["--run", "1", "--follow"]).contains("1..."), "nothing more comes of it");
    assert!(printed(&["--run", "1", "--grouped"]).contains("1..."));
    let missing = cluster.gridc().run(&["job", "status", &id, "--run", "9"]).exits(4);
    assert!(missing.stderr.contains("has no run 9; it has 2 runs"), "{}", missing.stderr);

    let get = |path: &str| api.get(&format!("/job/{id}{path}")).json();
    assert_eq!((get("?run=1")["status"].clone(), get("")["status"].clone()), (json!("failed"), json!("completed")));
    assert_eq!(get("")["results"]["0"]["web-01"]["attempts"], 2, "of both runs");
    assert_eq!(get("?run=1")["results"]["0"]["web-01"]["attempts"], 1);
    let kinds: Vec<_> = get("/runs")["items"].as_array().unwrap().iter().map(|run| run["kind"].clone()).collect();
    assert_eq!(kinds, ["retry", "submit"]);
    assert_eq!(get("/runs")["items"], get("")["runs"]);
    assert_eq!(get("/results?run=1&status=failed")["items"].as_array().unwrap().len(), 1);
    assert_eq!(get("/outputs/1")["items"], json!([]));
    assert_eq!(get("/outputs/1?run=1")["items"].as_array().unwrap().len(), 1);
    assert_eq!(api.get(&format!("/job/{id}/output/1/web-01")).status, 404);
    assert_eq!(api.get(&format!("/job/{id}/output/1/web-01?run=1")).status, 200);
}
