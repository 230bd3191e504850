//! Workers that fall silent: stopped, lost, or lost while the server restarts (V1–V3, W6, I15). Whatever happens,
//! every job ends.

use std::time::Duration;

use grid_testkit::spec::{echo, job, sleep, with};
use grid_testkit::{Api, Cluster, Job, Trio, ensure, wait_until};
use serde_json::json;

use crate::staging::QUICK_LIVENESS;

fn running(j: &Job) -> bool {
    j.outcome(0, "web-01") == "running"
}

#[test]
fn v3_a_worker_that_slept_until_it_was_dead_registers_again_and_works() {
    let workers = [("web-01", ""), ("web-02", ""), ("web-03", "")];
    let mut cluster = Cluster::start_with(QUICK_LIVENESS, &workers);
    let api = cluster.api();
    cluster.worker("web-01").process().pause();
    api.wait_node("web-01", "dead");
    cluster.worker("web-01").process().resume();
    api.wait_node("web-01", "ready");
    let id = api.submit(&job("node:web-01", [echo()]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(0, "web-01"), "success", "{ended}");
}

#[test]
fn i15_a_lone_worker_that_never_comes_back_does_not_keep_its_job() {
    let mut cluster = Cluster::start_with(QUICK_LIVENESS, &[("web-01", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [sleep("280s")]));
    api.wait_job(&id, "running", running);
    cluster.worker("web-01").kill9_tree();
    cluster.server.kill9();
    cluster.server.restart();
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.outcome(0, "web-01")), ("failed", "unknown"), "{ended}");
}

#[test]
fn w9_a_cancelled_step_whose_worker_died_first_is_unknown() {
    let mut cluster = Cluster::start_with(QUICK_LIVENESS, &[("web-01", ""), ("web-02", ""), ("web-03", "")]);
    let api = cluster.api();
    let id = api.submit(&job("node:web-01", [sleep("280s")]));
    api.wait_job(&id, "running", running);
    cluster.worker("web-01").kill9_tree();
    assert_eq!(api.cancel(&id).status, 200);
    let settled = api.wait_job(&id, "nothing runs", |j| j.count("running") == 0);
    assert_eq!((settled.status(), settled.outcome(0, "web-01")), ("cancelled", "unknown"), "{settled}");
}

/// How often `w2` became ready again without registering.
fn times_ready(trio: &Trio) -> usize {
    let ran = trio.gridc().run(&["events", "--kind", "NodeReady", "--limit", "1000"]).exits(0);
    ran.stdout.lines().filter(|line| line.contains("w2")).count()
}

/// For how many seconds `why` says that `w2` is unhealthy.
fn seconds_away(api: &Api, id: &str) -> Result<u64, String> {
    let why = api.get(&format!("/job/{id}/why")).json()["why"].as_str().unwrap_or_default().to_owned();
    let seconds = why.split("step 0 waits for w2, unhealthy for ").nth(1).and_then(|text| text.strip_suffix('s'));
    seconds.and_then(|seconds| seconds.parse().ok()).ok_or(why)
}

#[test]
fn v1_a_step_down_does_not_make_a_worker_ready_that_is_gone() {
    let flags = "--heartbeat-interval 200ms --warning-after 1s --unhealthy-after 2s --dead-after 10m";
    let mut trio = Trio::start_with(flags, &[("w1", ""), ("w2", "")]);
    let leader = trio.wait_leader();
    let api = trio.api(&leader);
    trio.workers.get_mut("w2").expect("a worker").kill9_tree();
    api.wait_node("w2", "unhealthy");
    let waiting = api.submit(&with(job("node:w2", [echo()]), json!({"offline": "wait"})));
    let before = times_ready(&trio);
    trio.gridc().run(&["cluster", "step-down"]).exits(0);
    let api = trio.api(&trio.wait_other_leader(&leader));
    let other = api.submit(&job("node:w1", [echo()]));
    assert_eq!(api.wait_ended(&other).status(), "completed");
    // In an idle cluster the time advances too, on every controller.
    for server in trio.servers.values() {
        wait_until("why counts the seconds", Duration::from_secs(25), || {
            let seconds = seconds_away(&server.api(), &waiting)?;
            ensure(seconds >= 4, seconds)
        });
    }
    let skipped = api.wait_ended(&api.submit(&job("node:w2", [echo()])));
    assert_eq!(skipped.outcome(0, "w2"), "skipped", "{skipped}");
    assert_eq!(skipped.result_reason(0, "w2"), "offline: the node is unhealthy", "{skipped}");
    assert_eq!((times_ready(&trio), api.job(&waiting).outcome(0, "w2")), (before, "pending"));
    trio.workers.get_mut("w2").expect("a worker").restart();
    assert_eq!(api.wait_ended(&waiting).outcome(0, "w2"), "success");
}
