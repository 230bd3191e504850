//! `gridc`: exit codes, what goes to stdout and what to stderr.

use std::time::Duration;

use grid_testkit::spec::{echo, fail, job, sleep};
use grid_testkit::{Cluster, Gridc, Job};

fn two_nodes() -> Cluster {
    Cluster::start(&[("web-01", "--groups web"), ("db-01", "--groups db")])
}

#[test]
fn exit_0_a_job_that_completes_and_its_document_on_stdout() {
    let cluster = two_nodes();
    let gridc = cluster.gridc();
    let ran = gridc
        .run(&["job", "run", "--target", "all", "ping", "echo", "--message", "hi", "--wait", "-o", "json"])
        .exits(0);
    let document = Job(ran.json());
    assert_eq!(document.status(), "completed", "{document}");
    assert_eq!(document.count("success"), 2, "{document}");
    assert_eq!(document.0["tasks"][0]["params"]["message"], "hi", "{document}");
    assert_eq!(document.0, cluster.api().job(document.id()).0, "the final document, whole");

    let short = gridc.run(&["-o", "json", "job", "run", "-t", "group:db", "ping", "echo", "message=ho", "--wait"]);
    let short = Job(short.exits(0).json());
    assert_eq!(short.expected(), ["db-01"], "options may stand before or after: {short}");
    assert_eq!(short.0["tasks"][0]["params"]["message"], "ho", "{short}");
}

#[test]
fn exit_1_a_job_that_ends_other_than_completed() {
    let cluster = two_nodes();
    let gridc = cluster.gridc();
    let args = ["job", "run", "-t", "all", "test", "fail", "--message", "no luck", "--wait"];
    let ran = gridc.run(&args).exits(1);
    assert!(ran.stderr.contains("no luck"), "failures are told as they happen: {ran:?}");
    let json = gridc.run(&[&args[..], &["-o", "json"]].concat()).exits(1);
    assert_eq!(json.json()["status"], "failed");
}

#[test]
fn exit_2_usage_or_refused_input() {
    let cluster = two_nodes();
    let gridc = cluster.gridc();
    let file = cluster.path("bad.yaml");
    std::fs::write(&file, "target: {scope: all}\ntasks: [{backend: apt, action: install}]\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    let cases: &[&[&str]] = &[
        &["job", "run", "--no-such-flag"],
        &["job", "dance"],
        &["job", "run", "-t", "everyone", "ping", "echo"],
        &["job", "run", "-t", "all", "apt", "install"],
        &["job", "run", "-t", "group:nobody", "ping", "echo"],
        &["job", "run", "-f", file],
        &["job", "run", "-f", "/no/such/file.yaml"],
    ];
    for args in cases {
        let ran = gridc.run(args).exits(2);
        assert_eq!(ran.stdout, "", "errors go to stderr: {args:?} {ran:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn exit_3_no_controller_reachable() {
    let nobody = format!("http://127.0.0.1:{}", grid_testkit::free_port());
    let ran = Gridc::new(&nobody).run(&["node", "list"]).exits(3);
    assert!(ran.stderr.contains(&nobody), "the address it tried is named: {ran:?}");
    assert_eq!(ran.stdout, "");
}

#[test]
fn exit_4_not_found() {
    let cluster = two_nodes();
    let gridc = cluster.gridc();
    for args in [["job", "get", "nope"], ["job", "status", "nope"], ["job", "cancel", "nope"], ["node", "info", "nope"]]
    {
        let ran = gridc.run(&args).exits(4);
        assert!(ran.stderr.contains("nope"), "it names what is not there: {ran:?}");
    }
}

#[test]
fn exit_5_conflict() {
    let cluster = two_nodes();
    let api = cluster.api();
    let id = api.submit(&job("all", [echo()]));
    api.wait_ended(&id);
    cluster.gridc().run(&["job", "cancel", &id]).exits(5);
}

#[test]
fn exit_124_the_wait_timed_out_and_the_job_goes_on() {
    let cluster = two_nodes();
    let gridc = cluster.gridc();
    let args = ["job", "run", "-t", "node:web-01", "test", "sleep", "--duration", "250s"];
    let ran = gridc.run(&[&args[..], &["--wait", "--wait-timeout", "1s"]].concat()).exits(124);
    assert!(!ran.stderr.is_empty(), "{ran:?}");
    let list = cluster.api().get("/jobs").json();
    assert_eq!(list[0]["status"], "running", "{list}");
}

#[test]
fn jobs_and_nodes_are_listed_shown_and_cancelled() {
    let cluster = two_nodes();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let failed = api.submit(&job("node:web-01", [fail("no luck")]));
    api.wait_ended(&failed);
    let running = api.submit(&job("node:web-01", [sleep("250s")]));
    api.wait_job(&running, "running", |j| j.count("running") == 1);

    let list = gridc.run(&["job", "list"]).exits(0);
    assert!(list.stdout.contains(&failed) && list.stdout.contains(&running), "{list:?}");
    let status = gridc.run(&["job", "status", &failed]).exits(0);
    for word in [failed.as_str(), "failed", "web-01", "no luck"] {
        assert!(status.stdout.contains(word), "{word}: {status:?}");
    }
    assert!(!status.stdout.contains('\u{1b}'), "no colours when stdout is no terminal");
    let got = gridc.run(&["job", "get", &failed, "-o", "json"]).exits(0);
    assert_eq!(got.json(), api.job(&failed).0);
    gridc.run(&["job", "cancel", &running]).exits(0);
    let ended = api.wait_job_within(&running, "cancelled", Duration::from_secs(60), |j| j.count("running") == 0);
    assert_eq!(ended.status(), "cancelled");

    let nodes = gridc.run(&["node", "list"]).exits(0);
    assert!(nodes.stdout.contains("web-01") && nodes.stdout.contains("db-01"), "{nodes:?}");
    let info = gridc.run(&["node", "info", "db-01", "-o", "json"]).exits(0);
    assert_eq!(info.json()["id"], "db-01");
    let role = gridc.run(&["role", "-o", "json"]).exits(0);
    assert_eq!(role.json()["role"], "LEADER");
    let cluster_status = gridc.run(&["status", "-o", "json"]).exits(0);
    assert_eq!(cluster_status.json()["node_id"], "n1");
}
