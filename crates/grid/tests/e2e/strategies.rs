//! `fail-fast` and `continue`: which nodes still run after a failure, and which never run.

use grid_testkit::spec::{job, pipeline, record, sleep, task, with};
use grid_testkit::{Cluster, Job};
use serde_json::json;

use crate::staging::{Busy, at, closed_record, open, sorted_places, two_web_nodes};

#[test]
fn fail_fast_sends_no_further_lease_and_cleans_up_on_the_failed_node() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let (closed, lines) = (closed_record(&cluster), cluster.record("lines"));
    let busy = Busy::keep(&api, "web-02");
    let clean_up = with(pipeline([record(&lines), record(&lines)]), json!({"condition": "on_failure"}));
    let id = api.submit(&job("group:web", [record(&closed), record(&lines), clean_up]));
    api.wait_job(&id, "web-01 failed", |j| j.outcome(0, "web-01") == "failed");
    // From here on web-02 would succeed if it got an offer.
    open(&closed);
    busy.release();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "failed", "{ended}");
    assert_eq!(ended.outcome(0, "web-02"), "skipped", "no lease after the tolerance tripped: {ended}");
    assert_eq!(ended.outcomes(1), ["skipped", "skipped"], "{ended}");
    assert_eq!(ended.outcomes(2), ["success", "success"], "{ended}");
    assert_eq!(ended.outcomes(3), ["success", "success"], "{ended}");
    assert_eq!(closed.lines(), []);
    let cleaned = [(2, "web-01"), (2, "web-02"), (3, "web-01"), (3, "web-02")];
    assert_eq!(sorted_places(&lines, &id), at(&cleaned));
}

#[test]
fn continue_excludes_the_failed_node_from_every_later_phase() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let (closed, lines) = (closed_record(&cluster), cluster.record("lines"));
    let busy = Busy::keep(&api, "web-02");
    let phases = [record(&closed), record(&lines), pipeline([record(&lines), record(&lines)])];
    let id = api.submit(&with(job("group:web", phases), json!({"strategy": "continue"})));
    api.wait_job(&id, "web-01 failed", |j| j.outcome(0, "web-01") == "failed");
    open(&closed);
    busy.release();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "one node is left: {ended}");
    assert_eq!(ended.expected(), ["web-01", "web-02"], "{ended}");
    assert_eq!(ended.outcomes(0), ["failed", "success"], "{ended}");
    for step in 1..4 {
        assert_eq!(ended.outcomes(step), ["skipped", "success"], "{ended}");
    }
    let ran = [(1, "web-02"), (2, "web-02"), (3, "web-02")];
    assert_eq!(sorted_places(&lines, &id), at(&ran), "an excluded node never executes");
    assert_eq!(ended.count_all(), 8, "{ended}");
}

#[test]
fn j9_a_clean_up_runs_where_failures_were_tolerated_or_where_it_says() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let cases = [(None, vec!["web-01"]), (Some("healthy"), vec!["web-02"]), (Some("all"), vec!["web-01", "web-02"])];
    for (round, (nodes, cleaned)) in cases.into_iter().enumerate() {
        let closed = cluster.record(&format!("closed-{round}/record"));
        let lines = cluster.record(&format!("lines-{round}"));
        let busy = Busy::keep(&api, "web-02");
        let clean_up = with(record(&lines), json!({"condition": "on_failure", "nodes": nodes}));
        let body = with(job("group:web", [record(&closed), clean_up]), json!({"failure_tolerate": 1}));
        let id = api.submit(&body);
        api.wait_job(&id, "web-01 failed", |j| j.outcome(0, "web-01") == "failed");
        open(&closed);
        busy.release();
        let ended = api.wait_ended(&id);
        assert_eq!(ended.status(), "completed", "{nodes:?}: {ended}");
        assert_eq!(ended.outcomes(0), ["failed", "success"], "{ended}");
        let ran: Vec<_> = cleaned.iter().map(|node| (1, *node)).collect();
        assert_eq!(sorted_places(&lines, &id), at(&ran), "{nodes:?}");
    }
}

/// web-01 does not run the backend `ping`, so it fails the second step when it reaches it; web-02 has begun by then.
#[test]
fn j10_an_atomic_pipeline_is_walked_to_its_end_where_it_has_begun() {
    let cluster = Cluster::start(&[("web-01", "--groups web --disable-backend ping"), ("web-02", "--groups web")]);
    let api = cluster.api();
    for atomic in [true, false] {
        let lines = cluster.record(&format!("lines-{atomic}"));
        let wait = task("ping", "sleep", &json!({"duration": "2s"}));
        let steps = [sleep("500ms"), wait, record(&lines), record(&lines)];
        let clean_up = with(sleep("1ms"), json!({"condition": "on_failure"}));
        let id = api.submit(&job("group:web", [with(pipeline(steps), json!({"atomic": atomic})), clean_up]));
        let ended = api.wait_ended(&id);
        assert_eq!(ended.status(), "failed", "{ended}");
        assert_eq!(ended.outcome(1, "web-01"), "failed", "{ended}");
        assert_eq!(ended.outcomes(4), ["success", "success"], "the clean-up runs on both: {ended}");
        let last = if atomic { "success" } else { "skipped" };
        assert_eq!((ended.outcome(2, "web-02"), ended.outcome(3, "web-02")), (last, last), "{ended}");
        assert_eq!(sorted_places(&lines, &id).contains(&(3, "web-02".to_owned())), atomic, "{ended}");
    }
}

#[test]
fn j11_nodes_that_were_offline_are_said_and_can_fail_the_command_or_the_job() {
    let cluster = two_web_nodes();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    assert_eq!(api.post("/node/web-02/drain", &json!({})).status, 200);
    let run = ["job", "run", "-t", "group:web", "ping", "echo", "--wait"];
    let ran = gridc.run(&run).exits(0);
    let last = ran.stdout.lines().last().unwrap_or_default();
    assert!(last.ends_with("completed; 1 node was offline and skipped"), "{last}");
    let with_flags = |flags: &[&'static str]| [&run[..], flags].concat();
    gridc.run(&with_flags(&["--fail-on-skipped"])).exits(1);
    let doc = Job(gridc.run(&with_flags(&["--fail-on-skipped", "-o", "json"])).exits(1).json());
    assert_eq!((doc.status(), doc.reason()), ("completed", "1 node was offline and skipped"), "{doc}");
    assert_eq!(doc.0["skipped_offline"], 1, "{doc}");
    let failed = Job(gridc.run(&with_flags(&["--offline", "fail", "-o", "json"])).exits(1).json());
    assert_eq!((failed.status(), failed.outcome(0, "web-02")), ("failed", "failed"), "{failed}");
    assert_eq!(failed.result_reason(0, "web-02"), "offline: the node is draining", "{failed}");
    assert_eq!((failed.attempts(0, "web-02"), &failed.0["skipped_offline"]), (0, &json!(0)), "{failed}");
}

#[test]
fn issue13_25_jobs_are_found_by_name_and_labels_and_events_carry_them() {
    let cluster = two_web_nodes();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let run = ["job", "run", "-t", "group:web", "ping", "echo", "--concurrency", "50%", "--wait", "-o", "json"];
    let named = [&run[..], &["--name", "Deploy web", "--label", "team=web", "--label", "tier=front"]].concat();
    let doc = Job(gridc.run(&named).exits(0).json());
    assert_eq!(
        (&doc.0["name"], &doc.0["labels"]),
        (&json!("Deploy web"), &json!({"team": "web", "tier": "front"})),
        "{doc}"
    );
    assert_eq!(doc.0["tasks"][0]["concurrency"], "50%", "{doc}");
    let other = Job(gridc.run(&run).exits(0).json());
    let ids = |path: &str| -> Vec<String> {
        let jobs = api.get(path).json();
        jobs.as_array().into_iter().flatten().filter_map(|job| job["id"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(ids("/jobs"), [other.id(), doc.id()]);
    assert_eq!(ids("/jobs?name=Deploy%20web"), [doc.id()]);
    assert_eq!(ids("/jobs?label=tier=front,team=web"), [doc.id()]);
    assert_eq!(ids("/jobs?label=team=db").len() + ids("/jobs?name=Deploy").len(), 0);
    assert_eq!(api.get("/jobs?label=Team=web").status, 400);
    let listed = gridc.run(&["job", "list", "--name", "Deploy web", "--label", "team=web"]).exits(0).stdout;
    assert!(listed.contains("Deploy web") && listed.contains(doc.id()) && !listed.contains(other.id()), "{listed}");
    let events = gridc.run(&["events", "--job", doc.id(), "-o", "json"]).exits(0).stdout;
    assert!(events.contains("\"name\":\"Deploy web\"") || events.contains("\"name\": \"Deploy web\""), "{events}");
}

#[test]
fn j6_a_node_that_joins_the_group_later_never_executes() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let busy = Busy::keep(&api, "web-02");
    let id = api.submit(&job("group:web", [record(&lines), record(&lines)]));
    api.wait_job(&id, "started", |j| j.outcome(0, "web-01") == "success");
    cluster.add_worker("web-03", "--groups web");
    busy.release();

    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.expected(), ["web-01", "web-02"], "frozen when the job started: {ended}");
    let ran = [(0, "web-01"), (0, "web-02"), (1, "web-01"), (1, "web-02")];
    assert_eq!(sorted_places(&lines, &id), at(&ran));

    let next = api.submit(&job("group:web", [record(&lines)]));
    let next = api.wait_ended(&next);
    assert_eq!(next.expected(), ["web-01", "web-02", "web-03"], "the next job has it: {next}");
}

#[test]
fn a_node_that_left_is_skipped_by_name_and_not_in_silence() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    assert!(cluster.worker("web-02").terminate().success());
    api.wait_node("web-02", "left");
    let id = api.submit(&job("group:web", [record(&lines)]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcome(0, "web-01"), "success", "{ended}");
    if ended.expected().contains(&"web-02") {
        assert_eq!(ended.outcome(0, "web-02"), "skipped", "{ended}");
        assert!(ended.result_reason(0, "web-02").contains("offline"), "{ended}");
    }
    assert_eq!(sorted_places(&lines, &id), at(&[(0, "web-01")]));
}

#[test]
fn durations_and_start_times_are_true() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let id = api.submit(&job("group:web", [sleep("1s"), sleep("1200ms")]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    for node in ["web-01", "web-02"] {
        assert!(ended.duration_ms(0, node) >= 1000, "{ended}");
        assert!(ended.duration_ms(1, node) >= 1200, "{ended}");
        assert_eq!(ended.attempts(0, node), 1, "{ended}");
        assert!(ended.started_at(0, node) < ended.started_at(1, node), "{ended}");
    }
}
