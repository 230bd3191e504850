//! Events over the real binaries: delivered as they happen, none lost or duplicated when the server is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use grid_testkit::spec::{echo, fail, job};
use grid_testkit::{LIMIT, Method, ServerOptions, command, ensure, wait_until};
use serde_json::Value;

use crate::staging::two_web_nodes;

/// `gridc events -f -o json`, its lines collected.
struct Listener {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Listener {
    fn start(server: &str, args: &[&str]) -> Self {
        let mut child = command("gridc")
            .args(["events", "-f", "-o", "json"])
            .args(args)
            .env("GRID_SERVER", server)
            .env("GRID_PATIENCE", "60s")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("gridc starts");
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (stdout, heard) = (child.stdout.take().expect("piped"), Arc::clone(&events));
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                heard.lock().unwrap().push(serde_json::from_str(&line).expect("one event a line"));
            }
        });
        Self { child, events }
    }

    fn heard(&self) -> Vec<Value> {
        self.events.lock().unwrap().clone()
    }

    fn wait_for(&self, what: &str, probe: impl Fn(&Value) -> bool) {
        wait_until(what, LIMIT, || {
            let heard = self.heard();
            ensure(heard.iter().any(&probe), format!("{heard:?}"))
        });
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ids(events: &[Value]) -> Vec<u64> {
    events.iter().filter_map(|event| event["id"].as_u64()).collect()
}

#[test]
fn a_listener_hears_every_event_once_although_the_server_is_killed_meanwhile() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let listener = Listener::start(&cluster.server.url(), &["--after", "0"]);
    let mut jobs = Vec::new();
    for _ in 0..2 {
        for _ in 0..5 {
            let id = api.submit(&job("group:web", [echo()]));
            api.wait_ended(&id);
            jobs.push(id);
        }
        // In the middle of the stream: some of it may be on its way.
        cluster.server.kill9();
        cluster.server.restart();
        for node in ["web-01", "web-02"] {
            api.wait_node(node, "ready");
        }
    }
    let last = api.submit(&job("group:web", [fail("boom")]));
    api.wait_ended(&last);
    listener.wait_for("the end of the last job", |event| event["kind"] == "JobEnded" && event["job"] == *last);
    let heard = listener.heard();
    let all: Vec<u64> = (1..=*ids(&heard).last().unwrap()).collect();
    assert_eq!(ids(&heard), all, "every number, in order, once");
    for id in jobs {
        let of_job = heard.iter().filter(|event| event["job"] == *id);
        let kinds: Vec<_> = of_job.map(|event| event["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["JobSubmitted", "JobStarted", "JobEnded"]);
    }
    let terms = heard.iter().filter(|event| event["kind"] == "TermBegun").count();
    assert_eq!(terms, 3);
    assert!(heard.iter().all(|event| event["role"].is_string() && event["leader_epoch"].is_u64()));
}

/// E2: after a restore the numbers continue beyond those of the lost time, so that no follower waits for them in vain.
#[test]
fn e2_a_follower_of_the_time_that_a_restore_lost_goes_on_and_an_unknown_number_is_refused() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let file = cluster.path("grid.backup");
    cluster.gridc().run(&["cluster", "backup", "-o", file.to_str().expect("a plain path")]).exits(0);
    let listener = Listener::start(&cluster.server.url(), &["--after", "0"]);
    let mut lost = String::new();
    for _ in 0..5 {
        lost = api.submit(&job("group:web", [echo()]));
        api.wait_ended(&lost);
    }
    listener.wait_for("the lost time", |event| event["kind"] == "JobEnded" && event["job"] == *lost);
    let last = *ids(&listener.heard()).last().expect("events");
    cluster.server.kill9();
    let options = ServerOptions::new("n1", cluster.path("restored")).restore(&file);
    cluster.server = options.spawn_at(cluster.server.ports());
    cluster.server.wait_ready();
    for node in ["web-01", "web-02"] {
        api.wait_node(node, "ready");
    }
    let id = api.submit(&job("group:web", [echo()]));
    api.wait_ended(&id);
    listener.wait_for("what happens now", |event| event["kind"] == "JobEnded" && event["job"] == *id);
    let heard = ids(&listener.heard());
    assert!(heard.is_sorted() && heard.last() > Some(&last), "{heard:?}");
    let json = [("accept", "application/json")];
    let page = |path: &str| api.request(Method::GET, path, &json, None).expect("answered");
    let next = page(&format!("/v1/events?after={last}")).json();
    assert_eq!(next["items"][0]["kind"], "TermBegun", "{next}");
    let newest = page("/v1/events?limit=1").json()["items"][0]["id"].as_u64().expect("an id");
    let beyond = (newest + 1_000).to_string();
    let refused = page(&format!("/v1/events?after={beyond}"));
    assert_eq!((refused.status, refused.error()), (400, "BAD_REQUEST".to_owned()), "{refused:?}");
    let stream = api.request(Method::GET, "/v1/events", &[("last-event-id", &beyond)], None).expect("answered");
    assert!(stream.status == 400 && stream.text.contains(&newest.to_string()), "{stream:?}");
    // All earlier events are still there, across the gap.
    let all = cluster.gridc().run(&["events", "--limit", "500", "--kind", "TermBegun"]).exits(0);
    assert_eq!(all.stdout.lines().count(), 2, "{all:?}");
}

#[test]
fn the_past_is_a_list_by_job_by_kind_and_by_node() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let id = api.submit(&job("group:web", [fail("boom")]));
    api.wait_ended(&id);
    let ran = cluster.gridc().run(&["events", "--job", &id]).exits(0);
    let kinds = ran.stdout.lines().filter_map(|line| line.split_whitespace().nth(1));
    let kinds: Vec<_> = kinds.filter(|kind| *kind != "StepFailed").collect();
    assert_eq!(kinds, ["JobSubmitted", "JobStarted", "JobTripped", "JobEnded"], "{ran:?}");
    cluster.worker("web-02").terminate();
    api.wait_node("web-02", "left");
    let headers = [("accept", "application/json")];
    let path = "/api/v1/events?node=web-02&limit=10";
    let list = api.request(grid_testkit::Method::GET, path, &headers, None).unwrap().json();
    let kinds: Vec<_> = list["items"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["NodeLeft", "NodeDrained", "NodeDraining", "StepFailed", "NodeRegistered"], "newest first");
}

#[test]
fn issue13_26_a_failed_step_is_an_event_that_names_its_nodes_and_what_they_said() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let id = api.submit(&job("group:web", [fail("boom")]));
    api.wait_ended(&id);
    // In one entry or in two: one event or two.
    let ran = cluster.gridc().run(&["events", "--job", &id, "--kind", "StepFailed"]).exits(0);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!((1..=2).contains(&lines.len()), "{ran:?}");
    assert!(lines.iter().all(|line| line.contains("step 0 failed") && line.contains("boom")), "{ran:?}");
    for node in ["web-01", "web-02"] {
        assert!(ran.stdout.contains(node), "{ran:?}");
        let of_node = cluster.gridc().run(&["events", "--node", node, "--kind", "StepFailed"]).exits(0);
        assert_eq!(of_node.stdout.lines().count(), 1, "{of_node:?}");
    }
}
