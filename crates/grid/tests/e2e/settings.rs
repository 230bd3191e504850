//! `-c FILE`, then `GRID_*` variables, then flags: which setting wins on running processes, and which settings are refused
//! before anything starts.

use std::path::Path;
use std::process::Command;

use grid_testkit::{Api, LIMIT, Process, command, ensure, wait_until};
use serde_json::json;

const CLUSTER: &str = "
api:
  listen: 127.0.0.1:0
controller:
  node_id: c1
  data_dir: c1
  raft: 127.0.0.1:0
  grpc: 127.0.0.1:0
scheduler: {max_concurrent: 1, max_pending: 0}
worker:
  node_id: web-07
  data_dir: web-07
  groups: [web, production]
  labels: {rack: r7}
  slots: 3
  enable_backends: [test]
  heartbeat_interval: 200ms
  inactive_threshold: 2s
  stale_threshold: 4s
";

fn grid(dir: &Path, line: &str) -> Command {
    let mut grid = command("grid");
    grid.args(line.split_whitespace()).current_dir(dir);
    grid
}

fn value(line: &str, key: &str) -> String {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("{key} in {line}")).to_owned()
}

#[test]
fn a_file_sets_up_a_server_and_a_worker_and_variables_and_flags_beat_it() {
    let dir = tempfile();
    std::fs::write(dir.path().join("grid.yaml"), CLUSTER).expect("the settings");
    let log = dir.path().join("log");
    let mut server = Process::spawn("grid server", grid(dir.path(), "server -c grid.yaml --bootstrap"), &log);
    let ready = server.wait_line("grid ready ");
    assert_eq!(value(&ready, "node"), "c1");
    let api = Api::new(&value(&ready, "api"));

    let line = format!("-c grid.yaml worker --server {} --groups db", value(&ready, "api"));
    let mut started = grid(dir.path(), &line);
    started.env("GRID_SLOTS", "5").env("GRID_GROUPS", "nobody");
    let mut worker = Process::spawn("grid worker", started, &log);
    worker.wait_line("grid worker ready node=web-07");
    let node = api.try_node("web-07").expect("the worker");
    assert_eq!(node["labels"], json!({"rack": "r7"}), "by the file");
    assert_eq!(node["capacity"]["slots"], 5, "a variable overrides the file");
    assert_eq!(node["groups"], json!(["db"]), "a flag overrides both");
    assert!(node["backends"]["test"].is_array(), "{node}");

    let running = api.submit(&grid_testkit::spec::job("all", [grid_testkit::spec::sleep("250s")]));
    api.wait_job(&running, "running", |j| j.status() == "running");
    let more = api.post("/job", &grid_testkit::spec::job("all", [grid_testkit::spec::echo()]));
    assert_eq!(more.status, 429, "max_concurrent and max_pending are the file's: {more:?}");
    worker.kill9_tree();
    wait_until("a death by the file's thresholds", LIMIT, || {
        let seen = api.try_node("web-07")?;
        ensure(seen["state"] == "dead", seen)
    });
}

#[test]
fn a_file_that_nobody_understands_is_refused_by_key_before_anything_starts() {
    let dir = tempfile();
    let cases = [
        ("worker: {grops: [web]}", vec!["worker.grops: unknown key; did you mean groups?"]),
        (
            "workers: {groups: [web]}\nworker: {slots: lots}",
            vec![
                "workers: unknown section; did you mean worker?",
                "worker.slots: must be a whole number from 1 to 1024",
            ],
        ),
        ("nats: {url: 'nats://x:4222'}", vec!["nats.url: unknown key; did you mean urls?"]),
        ("nats: {urls: 'http://x'}", vec!["nats.urls: an address like nats://"]),
        ("worker: {slots: 1, slots: 2}", vec!["worker.slots: is given twice"]),
        ("worker: {heartbeat_interval: 5}", vec!["worker.heartbeat_interval: must be a duration like"]),
        ("worker: [", vec!["cannot read the settings in grid.yaml"]),
    ];
    for (text, expected) in cases {
        std::fs::write(dir.path().join("grid.yaml"), text).expect("the settings");
        for verb in ["dev", "server --node-id c1 --data-dir d --bootstrap", "worker --data-dir d"] {
            let ran = grid(dir.path(), &format!("{verb} -c grid.yaml")).output().expect("grid runs");
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{verb}: {said}");
            for line in &expected {
                assert!(said.contains(line), "{verb}: {line:?} is missing in {said}");
            }
        }
    }
    assert!(!dir.path().join("d").exists(), "nothing was started");
    let ran = grid(dir.path(), "worker --data-dir d -c missing.yaml").output().expect("grid runs");
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("missing.yaml"), "{ran:?}");
}

fn tempfile() -> tempfile::TempDir {
    tempfile::tempdir().expect("temp dir")
}
