//! Workers over NATS: real nats-servers, controllers and workers (N1–N8).
//!
//! What a job may rely on is tested by the suites of gRPC, which `nats_suites` runs again over NATS. Here is what only NATS has.

use std::time::{Duration, Instant};

use grid_testkit::spec::{echo, job, pipeline, record, record_slowly, sleep, task};
use grid_testkit::{Cluster, Fabric, Job, LIMIT, NatsTrio, Trio, ensure, wait_until};
use serde_json::{Value, json};

use crate::staging::QUICK_LIVENESS;

/// Of `QUICK_LIVENESS`.
const DEAD_AFTER: Duration = Duration::from_secs(4);

fn over_nats(flags: &str, workers: &[(&str, &str)]) -> Cluster {
    Cluster::start_over(Fabric::nats(), flags, workers)
}

const TWO: [(&str, &str); 2] = [("web-01", "--groups web"), ("web-02", "--groups web")];

fn is_running(node: &'static str) -> impl Fn(&Job) -> bool {
    move |job: &Job| job.outcome(0, node) == "running"
}

#[test]
fn a_day_over_nats_barriers_pipelines_once_steps_cancel_logs_drain_and_leave() {
    let mut cluster = over_nats("", &TWO);
    let (api, lines) = (cluster.api(), cluster.record("lines"));
    let tasks = [echo(), record(&lines), pipeline([echo(), echo()])];
    let id = api.submit(&job("group:web", tasks));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(lines.of(&id).len(), 2, "each node once");

    let spoken = api.submit(&job("node:web-01", [task("test", "output", &json!({"lines": 500, "width": 80}))]));
    let followed = cluster.gridc().run(&["job", "logs", "-f", &spoken]);
    assert_eq!(followed.stdout.lines().count(), 500, "{}", followed.stderr);

    let long = api.submit(&job("all", [sleep("10m")]));
    api.wait_job(&long, "running", is_running("web-01"));
    assert_eq!(api.cancel(&long).status, 200);
    let cancelled = api.wait_ended(&long);
    assert_eq!((cancelled.status(), cancelled.outcome(0, "web-02")), ("cancelled", "cancelled"), "{cancelled}");

    assert!(cluster.worker("web-02").terminate().success());
    api.wait_node("web-02", "left");
    let alone = api.wait_ended(&api.submit(&job("group:web", [echo()])));
    assert_eq!((alone.status(), alone.outcome(0, "web-01")), ("completed", "success"), "{alone}");
}

#[test]
fn n4_a_worker_killed_in_a_once_step_registers_at_once_and_the_step_is_unknown() {
    let mut cluster = over_nats("", &[("web-01", "")]);
    let (api, lines) = (cluster.api(), cluster.record("lines"));
    let id = api.submit(&job("all", [record_slowly(&lines, "250s")]));
    lines.wait_of(&id, 1);
    cluster.worker("web-01").kill9_tree();
    cluster.worker("web-01").restart();
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.outcome(0, "web-01")), ("failed", "unknown"), "{ended}");
    assert_eq!(lines.of(&id).len(), 1);
    let next = api.wait_ended(&api.submit(&job("all", [echo()])));
    assert_eq!(next.status(), "completed", "{next}");
}

#[test]
fn n5_a_nats_server_that_restarts_in_mid_job_loses_nothing_and_repeats_nothing() {
    let mut cluster = over_nats(QUICK_LIVENESS, &TWO);
    let (api, lines) = (cluster.api(), cluster.record("lines"));
    let before = sessions(&api.get("/api/v1/nodes").json());
    let id = api.submit(&job("all", [record_slowly(&lines, "3s"), echo(), record(&lines)]));
    lines.wait_of(&id, 2);
    cluster.fabric.server().kill9();
    // Submitted while nobody can be reached.
    let waiting = api.submit(&job("all", [record(&lines)]));
    let killed = Instant::now();
    wait_until("a silence that would be a death", LIMIT, || ensure(killed.elapsed() > 5 * DEAD_AFTER / 4, "not yet"));
    cluster.fabric.server().restart();
    for (id, steps) in [(&id, 2), (&waiting, 1)] {
        let ended = api.wait_ended(id);
        assert_eq!(ended.status(), "completed", "{ended}");
        assert_eq!(lines.of(id).len(), 2 * steps, "{ended}");
    }
    assert_eq!(lines.duplicates(), []);
    assert_eq!(sessions(&api.get("/api/v1/nodes").json()), before, "every session survived");
}

fn sessions(nodes: &Value) -> Vec<String> {
    let of = |node: &Value| format!("{} {} {}", node["id"], node["session"], node["state"]);
    nodes["items"].as_array().expect("nodes").iter().map(of).collect()
}

#[test]
fn a_controller_that_restarts_finds_its_workers_again() {
    let mut cluster = over_nats("", &TWO);
    let (api, lines) = (cluster.api(), cluster.record("lines"));
    let id = api.submit(&job("all", [record_slowly(&lines, "2s"), echo(), record(&lines)]));
    lines.wait_of(&id, 2);
    cluster.server.kill9();
    cluster.server.restart();
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), lines.of(&id).len()), ("completed", 4), "{ended}");
    assert_eq!(lines.duplicates(), []);
}

#[test]
fn a_worker_moves_between_fabrics_and_keeps_its_folder() {
    let fabric = Fabric::nats();
    let flags = format!("--fabric grpc,nats --nats {}", fabric.urls().unwrap());
    let mut cluster = Cluster::start_over(Fabric::Grpc, &flags, &[("web-01", "")]);
    let (api, lines) = (cluster.api(), cluster.record("lines"));
    for over in [&fabric, &Fabric::Grpc] {
        let id = api.submit(&job("all", [record(&lines)]));
        assert_eq!(api.wait_ended(&id).status(), "completed");
        assert!(cluster.worker("web-01").terminate().success());
        let (url, dir) = (cluster.server.url(), cluster.path("web-01"));
        let moved = grid_testkit::WorkerOptions::over(over, "web-01", &url, dir).start();
        cluster.workers.insert("web-01".to_owned(), moved);
        let id = api.submit(&job("all", [record(&lines)]));
        assert_eq!(api.wait_ended(&id).status(), "completed");
    }
    assert_eq!((lines.lines().len(), lines.duplicates()), (4, Vec::new()));
}

#[test]
fn a_worker_on_grpc_is_told_that_its_controllers_serve_nats_only() {
    let cluster = over_nats("", &[]);
    let dir = cluster.path("web-01");
    let mut lost = grid_testkit::WorkerOptions::new("web-01", &cluster.server.url(), dir).spawn();
    let told = || ensure(lost.process().log_text().contains("start this one with --nats"), "not told");
    wait_until("the worker to be told", LIMIT, told);
}

#[test]
fn three_controllers_hand_over_their_workers_when_the_leader_is_killed() {
    let mut trio = Trio::start_over(Fabric::nats(), "", &TWO);
    let lines = trio.record("lines");
    let leader = trio.wait_leader();
    let tasks = [record_slowly(&lines, "2s"), echo(), record(&lines), pipeline([echo(), record(&lines)])];
    let id = trio.submit("k1", &job("all", tasks));
    lines.wait_of(&id, 2);
    trio.server(&leader).kill9();
    let next = trio.wait_other_leader(&leader);
    let ended = trio.api(&next).wait_ended(&id);
    assert_eq!((ended.status(), lines.of(&id).len()), ("completed", 6), "{ended}");
    assert_eq!(lines.duplicates(), []);
    trio.server(&leader).restart();
}

#[test]
fn a_killed_nats_server_of_three_stops_no_job() {
    let mut trio = Trio::start_over(Fabric::NatsTrio(Box::new(NatsTrio::start())), "", &TWO);
    let lines = trio.record("lines");
    for round in 0..3 {
        let tasks = [record_slowly(&lines, "2s"), echo(), record(&lines)];
        let id = trio.submit(&format!("k{round}"), &job("all", tasks));
        lines.wait_of(&id, 2);
        trio.fabric.servers().server(round).kill9();
        let leader = trio.wait_leader();
        let ended = trio.api(&leader).wait_ended(&id);
        assert_eq!((ended.status(), lines.of(&id).len()), ("completed", 4), "{ended}");
        trio.fabric.servers().server(round).restart();
        trio.fabric.servers().wait_ready();
    }
    assert_eq!(lines.duplicates(), []);
}
