//! The three job files of the architecture document, `ping` and `test` in place of packages, against `grid dev`
//! as a newcomer would run them; and `grid demo`.

use grid_testkit::{Dev, Gridc, Job, LIMIT, Process, Record, command};
use serde_json::json;

const FLAT: &str = "
target:
  scope: group
  value: web
tasks:
  - backend: ping
    action: hostname
  - backend: test
    action: record
    params: { path: LINES }
  - backend: ping
    action: echo
    params: { message: nginx }
";

const HIERARCHICAL: &str = "
target:
  scope: group
  value: web
tasks:
  - tasks:                              # pipeline: per-node, no cross-node sync
      - backend: ping
        action: hostname
      - backend: test
        action: record
        params: { path: LINES }
      - backend: test
        action: succeed
        params: { message: nginx }
  - backend: test                       # barrier: all nodes sync before this
    action: record
    params: { path: LINES }
";

const HANDLED: &str = "
target:
  scope: all
strategy: fail-fast
tasks:
  - backend: test
    action: succeed
    params: { message: myapp }
  - backend: test
    action: fail
    params: { message: myapp does not start }
  - condition: on_failure
    tasks:
      - backend: test
        action: record
        params: { path: LINES }
";

fn run(dev: &Dev, name: &str, file: &str, lines: &Record, code: i32) -> Job {
    let path = dev.dir().join(name);
    std::fs::write(&path, file.replace("LINES", lines.param())).expect("the job file");
    let gridc = Gridc::new(dev.url());
    let path = path.to_str().expect("UTF-8");
    let ran = gridc.run(&["job", "run", "-f", path, "--wait", "-o", "json"]).exits(code);
    Job(ran.json())
}

#[test]
fn the_three_job_files_of_the_seed_run_against_grid_dev() {
    let dev = Dev::start(3);
    let lines = Record::at(dev.dir().join("lines"));

    let flat = run(&dev, "flat.yaml", FLAT, &lines, 0);
    assert_eq!(flat.status(), "completed", "{flat}");
    assert_eq!(flat.expected(), ["web-01", "web-02"], "{flat}");
    assert_eq!(flat.count("success"), 6, "{flat}");
    assert_eq!(lines.of(flat.id()).len(), 2);

    let hierarchical = run(&dev, "hierarchical.yaml", HIERARCHICAL, &lines, 0);
    assert_eq!(hierarchical.status(), "completed", "{hierarchical}");
    assert_eq!(hierarchical.count("success"), 8, "{hierarchical}");
    let steps: Vec<usize> = lines.of(hierarchical.id()).into_iter().map(|(step, ..)| step).collect();
    assert_eq!(steps, [1, 1, 3, 3], "depth-first numbers, the barrier last");

    let handled = run(&dev, "handled.yaml", HANDLED, &lines, 1);
    assert_eq!(handled.status(), "failed", "{handled}");
    assert_eq!(handled.expected(), ["db-01", "web-01", "web-02"], "{handled}");
    assert_eq!(handled.outcomes(0), ["success"; 3], "{handled}");
    assert!(handled.count("failed") >= 1, "{handled}");
    assert_eq!(handled.outcomes(2), ["success"; 3], "clean-up runs on every expected node: {handled}");
    assert_eq!(lines.of(handled.id()).len(), 3);
    assert_eq!(lines.duplicates(), []);
}

#[test]
fn grid_dev_names_its_workers_and_ends_on_sigterm() {
    let mut dev = Dev::start(4);
    let nodes = dev.api().get("/nodes").json();
    let mut ids: Vec<&str> = nodes.as_array().into_iter().flatten().filter_map(|n| n["id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["db-01", "node-04", "web-01", "web-02"], "{nodes}");
    assert_eq!(dev.api().get("/node/db-01").json()["groups"], json!(["db", "prod"]));
    dev.process().terminate();
    let status = dev.process().wait_exit(LIMIT);
    assert!(status.success(), "{status}");
}

#[test]
fn grid_demo_runs_a_job_and_exits_0() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut demo = command("grid");
    demo.arg("demo").current_dir(dir.path());
    let mut demo = Process::spawn("grid demo", demo, &dir.path().join("demo.log"));
    let status = demo.wait_exit(LIMIT);
    assert!(status.success(), "{status}: {}", demo.log_text());
    assert!(!demo.stdout_lines().is_empty(), "results are data and go to stdout");
}
