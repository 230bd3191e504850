//! Live output over the real binaries: whole, in order, fair, bounded, over crashes of either side.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use grid_testkit::spec::{echo, job, sleep, task, with};
use grid_testkit::{Cluster, LIMIT, Method, Trio, command, ensure, wait_until};
use serde_json::{Value, json};

fn output(lines: u32, width: u32) -> Value {
    task("test", "output", &json!({"lines": lines, "width": width}))
}

fn slowly(delay: &str) -> Value {
    task("test", "succeed", &json!({"message": "done", "delay": delay}))
}

/// A `gridc` whose stdout is collected while it runs.
struct Follower {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Follower {
    fn start(server: &str, args: &[&str]) -> Self {
        let mut child = command("gridc")
            .args(args)
            .env("GRID_SERVER", server)
            .env("GRID_PATIENCE", "60s")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gridc starts");
        let lines = collect(child.stdout.take().expect("piped"));
        let errors = collect(child.stderr.take().expect("piped"));
        Self { child, lines, errors }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn wait_line(&self, what: &str, probe: impl Fn(&str) -> bool) {
        wait_until(what, LIMIT, || {
            let lines = self.lines();
            ensure(lines.iter().any(|line| probe(line)), format!("{} lines", lines.len()))
        });
    }

    fn wait_error(&self, what: &str, probe: impl Fn(&str) -> bool) {
        wait_until(what, LIMIT, || {
            let errors = self.errors.lock().unwrap().clone();
            ensure(errors.iter().any(|line| probe(line)), format!("{errors:?}"))
        });
    }

    fn wait_end(&mut self) -> i32 {
        let status = wait_until("the end of gridc", 2 * LIMIT, || match self.child.try_wait().expect("own child") {
            Some(status) => Ok(status),
            None => Err(format!("{} lines; {:?}", self.lines().len(), self.errors.lock().unwrap())),
        });
        status.code().unwrap_or(-1)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(pipe: impl Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let collected = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            collected.lock().unwrap().push(line);
        }
    });
    lines
}

/// Lines by node, without their prefix.
fn by_node(lines: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines {
        let (place, text) = line.split_once(" | ").unwrap_or_else(|| panic!("no prefix: {line:?}"));
        nodes.entry(place.trim_end().to_owned()).or_default().push(text.to_owned());
    }
    nodes
}

fn numbered(lines: u32, width: usize) -> Vec<String> {
    (1..=lines).map(|n| format!("{n:.<width$}")).collect()
}

#[test]
fn a_followed_run_prints_every_line_of_every_node_in_order() {
    let cluster = Cluster::start(&[("web-01", ""), ("db-1", "")]);
    let file = cluster.path("job.json");
    std::fs::write(&file, job("all", [output(2_000, 60), echo(), output(3, 5)]).to_string()).unwrap();
    let ran = cluster.gridc().run(&["job", "run", "-f", file.to_str().unwrap(), "--follow"]).exits(0);
    let lines: Vec<_> = ran.stdout.lines().map(str::to_owned).collect();
    let nodes = by_node(&lines);
    for node in ["web-01", "db-1"] {
        assert_eq!(nodes[&format!("{node}/0")], numbered(2_000, 60), "{node}");
        assert_eq!(nodes[&format!("{node}/1")], ["hello"]);
        let places: Vec<_> = lines.iter().filter(|line| line.starts_with(node)).map(|line| &line[..9]).collect();
        assert!(places.is_sorted(), "what a node prints stays in order");
    }
    assert!(ran.stderr.contains("completed"), "{}", ran.stderr);
    assert!(lines.iter().all(|line| line.find('|') == Some(9)), "aligned");
}

#[test]
fn the_past_is_shown_whole_or_as_its_end_with_a_note() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [output(5_000, 99)]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    let gridc = cluster.gridc();
    let whole = gridc.run(&["job", "logs", &id]).exits(0);
    let nodes = by_node(&whole.stdout.lines().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!((&nodes["web-01"], &nodes["web-02"]), (&numbered(5_000, 99), &numbered(5_000, 99)));
    let tail = gridc.run(&["job", "logs", &id, "--tail", "2", "--node", "web-02"]).exits(0);
    assert_eq!(
        by_node(&tail.stdout.lines().map(str::to_owned).collect::<Vec<_>>())["web-02"],
        numbered(5_000, 99)[4_998..]
    );
    let groups = gridc.run(&["job", "logs", &id, "--grouped"]).exits(0);
    assert!(groups.stdout.contains("2 nodes (web-01, web-02), the last 16,384 of 500,000 bytes:"), "{}", groups.stdout);

    cluster.worker("web-01").terminate();
    api.wait_node("web-01", "left");
    let ran = gridc.run(&["job", "logs", &id]).exits(0);
    let nodes = by_node(&ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(nodes["web-02"], numbered(5_000, 99));
    assert_eq!(nodes["web-01"][1..], numbered(5_000, 99)[5_000 - 163..], "the last 16 KiB");
    assert!(ran.stderr.contains("web-01: only the last 16384 bytes"), "{}", ran.stderr);
}

#[test]
fn raw_output_is_the_bytes_and_an_offset_begins_there() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [output(5_000, 99), sleep("20s")]));
    api.wait_job(&id, "the second step", |job| job.count("running") == 1 && job.count("success") == 1);
    let whole = cluster.gridc().run(&["job", "logs", &id, "--raw", "--node", "web-01", "--step", "0"]).exits(0);
    assert_eq!(whole.stdout.len(), 500_000);
    let rest = api.get(&format!("/job/{id}/output/0/web-01?offset=499990"));
    assert_eq!((rest.text.as_str(), rest.header("x-grid-output-offset")), (&whole.stdout[499_990..], Some("499990")));
    assert_eq!(api.get(&format!("/job/{id}/output/0/web-01?attempt=2")).status, 404);
    api.cancel(&id);
    assert_eq!(cluster.gridc().run(&["job", "logs", &id, "--raw", "--node", "web-01"]).code, 2, "which step?");
}

#[test]
fn a_follower_goes_on_where_it_was_when_the_server_is_killed() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [output(20_000, 99), slowly("3s"), output(20_000, 99)]));
    let mut follower = Follower::start(&cluster.server.url(), &["job", "logs", "-f", &id]);
    follower.wait_line("output", |line| line.contains(" | 10000."));
    cluster.server.kill9();
    cluster.server.restart();
    assert_eq!(follower.wait_end(), 0);
    let nodes = by_node(&follower.lines());
    for node in ["web-01", "web-02"] {
        for step in [0, 2] {
            assert!(nodes[&format!("{node}/{step}")] == numbered(20_000, 99), "{node} {step}: not every line once");
        }
    }
}

#[test]
fn a_follower_moves_to_the_new_leader_when_the_old_one_steps_down() {
    let trio = Trio::start(&[("web-01", "")]);
    let old = trio.wait_leader();
    let id = trio.submit("moves", &job("all", [output(5_000, 99), with(output(5_000, 99), json!({"confirm": true}))]));
    let mut follower = Follower::start(&trio.urls(), &["job", "logs", "-f", &id]);
    follower.wait_line("output", |line| line.contains(" | 5000."));
    trio.gridc().run(&["cluster", "step-down"]).exits(0);
    trio.wait_other_leader(&old);
    trio.gridc().run(&["job", "confirm", &id]).exits(0);
    assert_eq!(follower.wait_end(), 0);
    let nodes = by_node(&follower.lines());
    for step in [0, 1] {
        assert!(nodes[&format!("web-01/{step}")] == numbered(5_000, 99), "{step}: not every line once");
    }
}

#[test]
fn a_worker_that_is_killed_is_told_and_its_output_goes_on_when_it_is_back() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [output(1_000, 99), slowly("4s"), output(1_000, 99)]));
    let mut follower = Follower::start(&cluster.server.url(), &["job", "logs", "-f", &id]);
    api.wait_job(&id, "the second step", |job| {
        job.outcome(0, "web-01") == "success" && job.outcome(1, "web-01") == "running"
    });
    cluster.worker("web-01").kill9();
    follower.wait_error("a note", |line| line.starts_with("web-01/") && line.contains("away"));
    cluster.worker("web-01").restart();
    follower.wait_error("another note", |line| line.starts_with("web-01/") && line.contains("back"));
    assert_eq!(follower.wait_end(), 0);
    let nodes = by_node(&follower.lines());
    for node in ["web-01", "web-02"] {
        for step in [0, 2] {
            let (got, want) = (&nodes[&format!("{node}/{step}")], numbered(1_000, 99));
            let first = got.iter().zip(&want).position(|(got, want)| got != want);
            let errors = follower.errors.lock().unwrap().clone();
            assert!(*got == want, "{node} {step}: {} lines, the first that differs: {first:?}; {errors:?}", got.len());
        }
        assert_eq!(nodes[&format!("{node}/1")], ["done"]);
    }
}

#[test]
fn an_output_that_starts_over_because_its_worker_was_killed_says_so() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [task("test", "output", &json!({"lines": 60, "width": 9, "pause": "50ms"}))]));
    let mut follower = Follower::start(&cluster.server.url(), &["job", "logs", "-f", &id]);
    follower.wait_line("some lines, as they are printed", |line| line.contains(" | 5...."));
    assert_eq!(api.job(&id).status(), "running");
    cluster.worker("web-01").kill9();
    cluster.worker("web-01").restart();
    follower.wait_error("a note", |line| line.contains("starts over"));
    assert_eq!(follower.wait_end(), 0);
    let lines = by_node(&follower.lines()).remove("web-01").unwrap();
    let before = lines.len() - 60;
    assert!(before >= 5 && lines[..before] == numbered(60, 9)[..before], "{lines:?}");
    assert_eq!(lines[before..], numbered(60, 9), "all of it, from its beginning");
}

/// Resident memory of a process, in KiB.
fn rss_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn a_flood_that_nobody_reads_stops_at_the_workers_and_is_shown_whole_later() {
    let names: Vec<String> = (1..=20).map(|n| format!("w-{n:02}")).collect();
    let nodes: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let mut cluster = Cluster::start(&nodes);
    let api = cluster.api();
    let (url, pid) = (cluster.server.url(), cluster.server.process().pid());
    let before = rss_kib(pid);
    let mut child = command("gridc")
        .args(["job", "run", "-t", "all", "test", "output", "--lines", "100000", "--width", "99", "--follow"])
        .env("GRID_SERVER", url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("gridc starts");
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    // The first line only: from here on 200 MB wait for a reader that does not read.
    reader.read_line(&mut line).expect("a line");
    let id = api.get("/jobs").json()[0]["id"].as_str().expect("the job").to_owned();
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "a job does not wait for who looks at it: {ended}");
    let grown = rss_kib(pid).saturating_sub(before);
    assert!(grown < 100 * 1024, "{grown} KiB more while 200 MB wait");
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    while !line.is_empty() {
        let (node, text) = line.split_once(" | ").expect("a prefix");
        let count = counts.entry(node.to_owned()).or_default();
        *count += 1;
        assert!(text.starts_with(&format!("{count}.")), "{node}: line {count} is {text}");
        line.clear();
        reader.read_line(&mut line).expect("a line");
    }
    assert!(child.wait().expect("own child").success());
    assert_eq!(counts.len(), 20);
    assert!(counts.values().all(|count| *count == 100_000), "{counts:?}");
    let grown = rss_kib(pid).saturating_sub(before);
    assert!(grown < 100 * 1024, "{grown} KiB more after 200 MB");
    for name in &names {
        let end = api.get(&format!("/job/{id}/output/0/{name}?offset=9999900"));
        assert_eq!(end.text.len(), 100);
    }
    let groups = api.get(&format!("/job/{id}/outputs/0")).json();
    assert_eq!(groups["items"][0]["output"].as_str().map(str::len), Some(16 * 1024), "the inline part");
}

#[test]
fn a_cancelled_job_ends_its_followers() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [echo(), sleep("10m")]));
    let mut follower = Follower::start(&cluster.server.url(), &["job", "logs", "-f", &id]);
    follower.wait_line("the first step", |line| line.contains("hello"));
    assert_eq!(api.cancel(&id).status, 200);
    assert_eq!(follower.wait_end(), 0);
    let ran = cluster.gridc().run(&["job", "run", "-t", "all", "test", "fail", "--message", "boom", "--follow"]);
    assert_eq!(ran.code, 1, "{ran:?}");
}

#[test]
fn who_cannot_be_served_is_told() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    assert_eq!(api.get("/job/job-0c5t9v3k2m7qa/logs").status, 404);
    let id = api.submit(&job("all", [echo()]));
    api.wait_ended(&id);
    assert_eq!(api.get(&format!("/job/{id}/logs?tail=x")).status, 400);
    assert_eq!(cluster.gridc().run(&["job", "logs", &id, "--step", "7"]).code, 4);
    let answer = api.request(Method::GET, &format!("/job/{id}/logs?follow=true"), &[], None).unwrap();
    let last: Value = serde_json::from_str(answer.text.lines().last().unwrap()).unwrap();
    assert_eq!(last, json!({"kind": "end", "status": "completed"}), "a job that has ended is not waited for");
}
