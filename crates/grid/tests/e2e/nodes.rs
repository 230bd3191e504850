//! Workers as nodes: the facts that they report, how they leave, which ones are refused (W1).

use grid_testkit::spec::{job, record, sleep};
use grid_testkit::{Cluster, LIMIT, ensure, wait_until};
use serde_json::json;

use crate::staging::{QUICK_LIVENESS, two_web_nodes};

#[test]
fn a_node_describes_itself() {
    let cluster = Cluster::start(&[("web-01", "--groups web,prod --labels rack=r1,disk=ssd --slots 3")]);
    let api = cluster.api();
    let node = api.wait_node("web-01", "ready");
    assert_eq!(node["id"], "web-01");
    assert_eq!(node["status"], "online");
    let mut groups: Vec<&str> = node["groups"].as_array().into_iter().flatten().filter_map(|g| g.as_str()).collect();
    groups.sort_unstable();
    assert_eq!(groups, ["prod", "web"]);
    assert_eq!(node["labels"], json!({"rack": "r1", "disk": "ssd"}));
    assert_eq!(node["capacity"]["slots"], 3);
    for backend in ["ping", "test"] {
        assert!(node["backends"][backend].is_array(), "{node}");
    }
    for field in ["hostname", "address", "os", "arch", "version", "last_seen"] {
        assert!(node[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {node}");
    }
    let list = api.get("/nodes").json();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "a bare array: {list}");
    assert_eq!(list[0]["id"], "web-01");
}

#[test]
fn sigterm_finishes_the_lease_then_leaves() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job("node:web-01", [sleep("3s"), record(&lines)]));
    api.wait_job(&id, "running", |j| j.outcome(0, "web-01") == "running");
    let status = cluster.worker("web-01").terminate();
    assert!(status.success(), "{status}");
    api.wait_node("web-01", "left");
    assert_eq!(api.try_node("web-01").map(|n| n["status"].clone()), Ok(json!("offline")));

    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(0, "web-01"), "success", "the lease it held was finished: {ended}");
    assert!(ended.duration_ms(0, "web-01") >= 3000, "{ended}");
    assert_eq!(ended.outcome(1, "web-01"), "skipped", "it took no new one: {ended}");
    assert_eq!(lines.lines(), []);

    cluster.worker("web-01").restart();
    api.wait_node("web-01", "ready");
    let again = api.submit(&job("node:web-01", [record(&lines)]));
    assert_eq!(api.wait_ended(&again).status(), "completed", "who left may come back");
}

#[test]
fn w1_a_second_worker_under_a_living_name_is_refused() {
    let mut cluster = Cluster::start(&[("web-01", "--groups web")]);
    let api = cluster.api();
    let mut twin = cluster.worker_options("web-01");
    twin.dir = cluster.path("twin");
    let mut twin = twin.flags("--groups web").spawn();
    let status = twin.process().wait_exit(LIMIT);
    assert!(!status.success(), "refused is not done: {status}");
    let log = twin.process().log_text();
    assert!(log.contains("DUPLICATE_NODE"), "the refusal is named as in the table of errors: {log}");
    assert!(log.contains("--reset-journal"), "the way out is named: {log}");
    assert_eq!(twin.process().stdout_lines(), Vec::<String>::new(), "it never became ready");
    drop(twin);

    let lines = cluster.record("lines");
    let id = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    assert_eq!(lines.of(&id).len(), 1, "the first one is still the node");
    assert!(cluster.worker("web-01").process().is_running());
}

#[test]
fn v1_a_silent_node_turns_dead_and_a_returning_one_ready() {
    let workers = [("a", "--groups x"), ("b", "--groups x"), ("c", "--groups x")];
    let mut cluster = Cluster::start_with(QUICK_LIVENESS, &workers);
    let api = cluster.api();
    cluster.worker("c").kill9();
    let silent = wait_until("silence", LIMIT, || {
        let node = api.try_node("c")?;
        ensure(node["state"] != "ready", &node)?;
        Ok(node)
    });
    let dead = api.wait_node("c", "dead");
    assert_eq!(dead["last_seen"], silent["last_seen"], "its state changed, and nobody saw it");
    for living in ["a", "b"] {
        assert_eq!(api.try_node(living).map(|n| n["status"].clone()), Ok(json!("online")));
    }
    cluster.worker("c").restart();
    api.wait_node("c", "ready");
}

#[test]
fn a_drained_node_finishes_takes_nothing_new_and_stays_drained_until_it_is_taken_back() {
    let mut cluster = two_web_nodes();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let id = api.submit(&job("node:web-01", [sleep("2s")]));
    api.wait_job(&id, "running", |j| j.outcome(0, "web-01") == "running");
    let ran = gridc.run(&["node", "drain", "web-01", "--wait"]).exits(0);
    assert_eq!(ran.stdout, "web-01 draining\n", "{ran:?}");
    assert_eq!(api.wait_ended(&id).outcome(0, "web-01"), "success", "what ran there was finished");

    cluster.worker("web-01").kill9();
    cluster.worker("web-01").restart();
    api.wait_node("web-01", "draining");
    let skipped = api.submit(&job("all", [sleep("10ms")]));
    let skipped = api.wait_ended(&skipped);
    assert_eq!((skipped.outcome(0, "web-01"), skipped.outcome(0, "web-02")), ("skipped", "success"), "{skipped}");

    gridc.run(&["node", "drain", "web-01", "--undo"]).exits(0);
    api.wait_node("web-01", "ready");
    let again = api.submit(&job("all", [sleep("10ms")]));
    assert_eq!(api.wait_ended(&again).outcomes(0), ["success"; 2]);
}

#[test]
fn a_removed_node_is_gone_its_worker_ends_and_started_again_it_is_new() {
    let mut cluster = two_web_nodes();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let old = api.submit(&job("all", [sleep("10ms")]));
    api.wait_ended(&old);
    let refused = gridc.run(&["node", "remove", "web-01"]).exits(5);
    assert!(refused.stderr.contains("gridc node drain web-01"), "it says what to do: {refused:?}");
    gridc.run(&["node", "drain", "web-01", "--wait"]).exits(0);
    gridc.run(&["node", "remove", "web-01"]).exits(0);
    let status = cluster.worker("web-01").process().wait_exit(LIMIT);
    assert!(!status.success(), "{status}");
    let log = cluster.worker("web-01").process().log_text();
    assert!(log.contains("was removed from the cluster"), "{log}");

    gridc.run(&["node", "info", "web-01"]).exits(4);
    gridc.run(&["node", "remove", "web-01"]).exits(4);
    assert_eq!(api.get("/nodes").json().as_array().map(Vec::len), Some(1));
    assert_eq!(api.job(&old).outcomes(0), ["success"; 2], "old results keep its name");
    let id = api.submit(&job("group:web", [sleep("10ms")]));
    assert_eq!(api.wait_ended(&id).expected(), ["web-02"]);

    cluster.worker("web-01").restart();
    let node = api.wait_node("web-01", "ready");
    assert_eq!(node["drained"], false, "{node}");
    let id = api.submit(&job("all", [sleep("10ms")]));
    assert_eq!(api.wait_ended(&id).outcomes(0), ["success"; 2]);
}

#[test]
fn force_removes_a_living_node_and_what_ran_there_is_unknown_and_ended() {
    let mut cluster = two_web_nodes();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let id = api.submit(&job("node:web-01", [sleep("250s")]));
    api.wait_job(&id, "running", |j| j.outcome(0, "web-01") == "running");
    gridc.run(&["node", "remove", "web-01", "--force"]).exits(0);
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.outcome(0, "web-01")), ("failed", "unknown"), "{ended}");
    assert!(!cluster.worker("web-01").process().wait_exit(LIMIT).success());
    cluster.server.kill9();
    cluster.server.restart();
    gridc.run(&["node", "info", "web-01"]).exits(4);
}
