//! The job files and command lines of the architecture documents against `grid dev`, as a newcomer would run them; and
//! `grid demo`.
//!
//! Once with `ping` and `test` in place of packages, where the order can be checked; once verbatim, with stubs in place of
//! `apt-get` and `systemctl`, since no test may turn the machine it runs on into a web server.

use grid_testkit::{Dev, Gridc, Job, LIMIT, Process, Record, Stubs, command};
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

/// The command lines of the documents, verbatim.
const LINES: [(&str, &str); 3] = [
    ("job run --target all apt install --package curl", "apt/install"),
    ("job run --target group:web systemd restart --unit nginx", "systemd/restart"),
    ("job run --target node:web-01 rke2 start --mode server", "rke2/start"),
];

/// The job files of the documents, verbatim.
const FILES: [(&str, &str, u64); 3] = [
    (
        "flat",
        "target:
  scope: group
  value: web
tasks:
  - backend: apt
    action: update
  - backend: apt
    action: install
    params: { package: nginx }
  - backend: systemd
    action: start
    params: { unit: nginx }
",
        6,
    ),
    (
        "hierarchical",
        "target:
  scope: group
  value: web
tasks:
  - tasks:                              # pipeline: per-node, no cross-node sync
      - backend: apt
        action: update
      - backend: apt
        action: install
        params: { package: nginx }
      - backend: systemd
        action: enable
        params: { unit: nginx }
  - backend: systemd                    # barrier: all nodes sync before this
    action: start
    params: { unit: nginx }
",
        8,
    ),
    (
        "handled",
        "target:
  scope: all
strategy: fail-fast
tasks:
  - backend: apt
    action: install
    params: { package: myapp }
  - backend: systemd
    action: start
    params: { unit: myapp }
  - condition: on_failure
    tasks:
      - backend: apt
        action: remove
        params: { package: myapp }
",
        6,
    ),
];

#[test]
fn every_line_and_file_of_the_seed_runs_as_written() {
    let dir = tempfile::tempdir().expect("temp dir");
    let stubs = Stubs::at(dir.path().join("stubs")).program("apt-get", "").program("systemctl", "").program("curl", "");
    let dev = Dev::start_with_path(3, &stubs.path());
    let (api, gridc) = (dev.api(), Gridc::new(dev.url()));
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let run = |line: &str| {
        let words = words(line);
        gridc.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).exits(0)
    };

    let mut last = String::new();
    for (line, task) in LINES {
        let submitted = run(line).stdout;
        let id = submitted.split(' ').next().unwrap_or_default();
        let ended = api.wait_ended(id);
        assert_eq!(ended.status(), "completed", "{line}: {ended}");
        let step = &ended.0["steps"][0];
        assert_eq!(format!("{}/{}", step["backend"], step["action"]).replace('"', ""), task, "{ended}");
        last = id.to_owned();
    }
    for (name, file, success) in FILES {
        let path = dir.path().join("deploy-web.yaml");
        std::fs::write(&path, file).expect("the job file");
        let ran = run(&format!("job run -f {} --wait -o json", path.display()));
        assert_eq!(Job(ran.json()).count("success"), success, "{name}");
    }
    let body = json!({
        "target": {"scope": "group", "value": "web"},
        "tasks": [
            {"backend": "apt", "action": "install", "params": {"package": "curl"}},
            {"backend": "systemd", "action": "restart", "params": {"unit": "nginx"}},
        ],
    });
    let id = api.submit(&body);
    assert_eq!(api.wait_ended(&id).count("success"), 4);

    assert!(run(&format!("job status {last}")).stdout.contains("rke2/start"));
    assert!(run("job list").stdout.contains(&last));
    assert!(run("node list").stdout.contains("apt,ping,rke2,systemd,test"));
    assert!(run("node info web-01").stdout.contains("web-01"));
    let calls = stubs.calls();
    for (end, times) in [
        ("install -- curl", 3 + 2),
        ("install -- nginx", 2 + 2),
        ("restart -- nginx", 2 + 2),
        ("enable -- nginx", 2),
        ("start -- rke2-server.service", 1),
        ("remove -- myapp", 0),
    ] {
        assert_eq!(calls.iter().filter(|call| call.ends_with(&format!(" {end}"))).count(), times, "{end}: {calls:#?}");
    }
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

#[test]
fn every_http_example_of_the_seed_answers_as_written() {
    let dir = tempfile::tempdir().expect("temp dir");
    let stubs = Stubs::at(dir.path().join("stubs"))
        .program("apt-get", "")
        .program("systemctl", "sleep 250")
        .program("curl", "");
    let dev = Dev::start_with_path(3, &stubs.path());
    let api = dev.api();
    let tasks = json!([
        {"backend": "apt", "action": "install", "params": {"package": "curl"}},
        {"backend": "systemd", "action": "restart", "params": {"unit": "nginx"}},
    ]);
    let posted = api.post("/job", &json!({"target": {"scope": "group", "value": "web"}, "tasks": tasks}));
    assert_eq!(posted.status, 201, "{posted:?}");
    let id = posted.json()["id"].as_str().expect("an id").to_owned();
    let running = api.wait_job(&id, "step 1 under way", |job| job.outcome(1, "web-02") == "running");
    let doc = &running.0;
    assert_eq!(doc["target"], json!({"scope": "group", "value": "web"}), "{doc}");
    assert_eq!((&doc["tasks"], &doc["status"], &doc["step"]), (&tasks, &json!("running"), &json!(1)), "{doc}");
    assert_eq!(doc["expected"], json!(["web-01", "web-02"]), "{doc}");
    assert_eq!(doc["results"]["0"]["web-01"]["status"], "success", "{doc}");
    assert!(doc["results"]["0"]["web-01"]["duration"].as_str().is_some_and(|text| text.ends_with('s')), "{doc}");
    assert!(doc["created_at"].as_str().is_some_and(|text| text.ends_with('Z')), "{doc}");
    let listed = api.get("/jobs").json();
    assert_eq!(listed[0]["id"], json!(id), "{listed}");
    let cancelled = api.post(&format!("/job/{id}/cancel"), &json!({}));
    assert_eq!((cancelled.status, cancelled.json()), (200, json!({"id": id, "status": "cancelled"})));
    let nodes = api.get("/nodes").json();
    assert_eq!((nodes[1]["id"].as_str(), nodes[1]["status"].as_str()), (Some("web-01"), Some("online")), "{nodes}");
    let node = api.get("/node/web-01").json();
    assert_eq!((&node["groups"], &node["status"]), (&json!(["prod", "web"]), &json!("online")), "{node}");
    for field in ["hostname", "backends", "last_seen"] {
        assert!(!node[field].is_null(), "{field}: {node}");
    }
    assert_eq!(api.get("/status").json()["nodes"]["ready"], 3);
}
