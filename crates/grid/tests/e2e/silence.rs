//! Workers that fall silent: stopped, gone for good, or gone while the server restarts (V1–V3, W6, I15). Whatever happens,
//! every job ends.

use grid_testkit::spec::{echo, job, sleep};
use grid_testkit::{Cluster, Job};

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
