//! Targets on real workers: every form picks the nodes it says, a job is tried on a part first, and faults point at the character.

use grid_testkit::spec::{task, with};
use grid_testkit::{Cluster, LIMIT, ensure, wait_until};
use serde_json::{Value, json};

/// Two of group web, one of db, one of both.
fn fleet() -> Cluster {
    Cluster::start(&[
        ("web-01", "--enable-backend test --groups web,eu --labels zone=a,rack=r1"),
        ("web-02", "--enable-backend test --groups web,us --labels zone=b,rack=r2"),
        ("db-01", "--groups db,eu --labels zone=a"),
        ("mix-01", "--enable-backend test --groups web,db"),
    ])
}

fn ping() -> Value {
    task("ping", "echo", &json!({}))
}

fn aimed(target: &Value, more: Value) -> Value {
    with(json!({"target": target, "tasks": [ping()]}), more)
}

#[test]
fn every_form_of_a_target_runs_on_the_nodes_it_says() {
    let cluster = fleet();
    let api = cluster.api();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let kernel = kernel.trim();
    let everyone = ["db-01", "mix-01", "web-01", "web-02"];
    for (target, nodes) in [
        ("all", &everyone[..]),
        ("node:web-01,db-01", &["db-01", "web-01"]),
        ("node:web-*", &["web-01", "web-02"]),
        ("node:?????1", &["mix-01", "web-01"]),
        ("group:web", &["mix-01", "web-01", "web-02"]),
        ("group:e*,us", &["db-01", "web-01", "web-02"]),
        ("labels:zone=a", &["db-01", "web-01"]),
        ("labels:zone=a,rack=r?", &["web-01"]),
        ("group:web and not group:db", &["web-01", "web-02"]),
        ("group:web and (labels:zone=b or group:db)", &["mix-01", "web-02"]),
        ("not labels:zone=*", &["mix-01"]),
        ("first 2 of all", &["db-01", "mix-01"]),
        ("50% of group:web", &["mix-01"]),
        ("group:db or (first 1 of node:web-*)", &["db-01", "mix-01", "web-01"]),
        (&format!("facts:kernel.release={kernel} and node:web-01"), &["web-01"]),
        ("facts:cpu.count>=1,memory.total_bytes>1Mi,kernel.name=Linux", &everyone),
        ("facts:hostname=* and not facts:no.such=*", &everyone),
    ] {
        let ended = api.wait_ended(&api.submit(&aimed(&json!(target), json!({}))));
        assert_eq!(ended.expected(), nodes, "{target}");
        assert_eq!(ended.status(), "completed", "{target}: {ended}");
        let shown = &ended.0["target"];
        let again = api.wait_ended(&api.submit(&aimed(shown, json!({}))));
        assert_eq!(again.expected(), nodes, "{target} as it is shown: {shown}");
    }
    let one = api.wait_ended(&api.submit(&aimed(&json!("any"), json!({"exclude": "group:web"}))));
    assert_eq!(one.expected(), ["db-01"]);
}

#[test]
fn a_job_file_is_tried_on_one_node_and_then_run_on_the_rest() {
    let cluster = fleet();
    let gridc = cluster.gridc();
    let file = cluster.path("job.yaml");
    std::fs::write(&file, "target: group:web\ntasks: [{backend: ping, action: echo}]\n").expect("file");
    let file = file.to_str().expect("utf-8");
    let expected = |options: &[&str]| {
        let run = [&["job", "run", "-f", file, "--wait", "-o", "json"], options].concat();
        let doc = gridc.run(&run).exits(0).json();
        (doc["expected"].clone(), doc["exclude"].clone(), doc["limit"].clone())
    };
    assert_eq!(expected(&["--limit", "1"]), (json!(["mix-01"]), json!(null), json!("1")));
    let rest = json!(["web-01", "web-02"]);
    assert_eq!(expected(&["--exclude", "node:mix-01"]), (rest, json!("node:mix-01"), json!(null)));
    assert_eq!(expected(&["--limit", "70%", "--exclude", "group:us"]).0, json!(["mix-01"]));
    assert_eq!(expected(&["--limit", "labels:zone=b"]).0, json!(["web-02"]));

    let plan = gridc.run(&["job", "plan", "-f", file, "--exclude", "node:mix-01", "--limit", "1"]).exits(0).stdout;
    for line in [
        "exclude    node:mix-01",
        "limit      1",
        "nodes      1: web-01",
        "left out   1 of 4 do not match group:web: db-01",
        "left out   1 of 4 match exclude: node:mix-01: mix-01",
        "left out   1 of 4 are beyond limit: 1: web-02",
    ] {
        assert!(plan.lines().any(|found| found == line), "{line}\n{plan}");
    }
    let none = gridc.run(&["job", "run", "-f", file, "--exclude", "all"]).exits(2);
    assert!(none.stderr.contains("no known node matches group:web, without all"), "{none:?}");
    let listed = gridc.run(&["node", "list", "-t", "group:web and not node:mix-01", "-o", "json"]).exits(0).json();
    let ids: Vec<_> = listed["items"].as_array().expect("a list").iter().map(|node| node["id"].clone()).collect();
    assert_eq!(ids, ["web-01", "web-02"]);
    assert_eq!(listed["items"][0].get("facts"), None, "lists are short");
}

#[test]
fn j13_a_canary_runs_first_and_the_others_follow_after_a_confirmation() {
    let cluster = fleet();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let id = api.submit(&aimed(&json!("group:web"), json!({"first": 1})));
    let said = wait_until("the wait for a person", LIMIT, || {
        let why = gridc.run(&["job", "why", &id]).exits(0).stdout;
        ensure(why.contains("has run on its first 1 node; 2 more are waiting for confirmation"), &why).map(|()| why)
    });
    assert!(said.contains(&format!("gridc job confirm {id}")), "{said}");
    let waiting = api.job(&id);
    assert_eq!((waiting.outcome(0, "mix-01"), waiting.count("pending")), ("success", 2), "{waiting}");
    gridc.run(&["job", "confirm", &id]).exits(0);
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.count("success")), ("completed", 3), "{ended}");

    // A canary that fails leaves the others alone.
    let failing = json!({"target": "group:web", "tasks": [task("test", "fail", &json!({}))], "first": 1});
    let ended = api.wait_ended(&api.submit(&failing));
    assert_eq!((ended.status(), ended.count("skipped")), ("failed", 2), "{ended}");
}

#[test]
fn faults_of_targets_point_at_the_character_and_names_are_suggested() {
    let cluster = fleet();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let refused = api.post("/job", &aimed(&json!("group:web and nod:x"), json!({})));
    assert_eq!((refused.status, &refused.json()["details"][0]["at"]), (422, &json!(14)), "{refused:?}");
    assert_eq!(refused.json()["details"][0]["field"], "target");
    let ran = gridc.run(&["job", "run", "-t", "group:web and nod:x", "ping", "echo"]).exits(2);
    assert!(ran.stderr.contains("    group:web and nod:x\n                  ^\n"), "{}", ran.stderr);
    for (typed, meant) in [("web", "group:web"), ("db-01", "node:db-01"), ("group:wbe", "group:web")] {
        let ran = gridc.run(&["job", "run", "-t", typed, "ping", "echo"]).exits(2);
        assert!(ran.stderr.ends_with(&format!("hint: did you mean {meant}?\n")), "{typed}: {}", ran.stderr);
    }
}

#[test]
fn a_node_shows_the_facts_of_its_machine() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let doc = cluster.api().get("/node/web-01").json();
    let facts = &doc["facts"];
    for key in
        ["kernel.release", "cpu.count", "memory.total_bytes", "virtualization.kind", "disk.count", "network.count"]
    {
        assert!(facts[key].is_string(), "{key}: {facts}");
    }
    let info = cluster.gridc().run(&["node", "info", "web-01"]).exits(0).stdout;
    let kernel = facts["kernel.release"].as_str().expect("text");
    assert!(info.lines().any(|line| line.starts_with("kernel.release") && line.ends_with(kernel)), "{info}");
}
