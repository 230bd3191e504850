//! Waits for an operator, for a place in a window, for a node; and what `why` reports about them (J2, J3, W8).

use grid_testkit::Cluster;
use grid_testkit::spec::{echo, job, record, record_slowly, with};
use serde_json::json;

use crate::staging::QUICK_LIVENESS;

fn why(cluster: &Cluster, id: &str) -> String {
    cluster.api().get(&format!("/job/{id}/why")).json()["why"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn j3_five_jobs_that_wait_for_a_person_do_not_block_the_sixth() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let held = with(echo(), json!({"confirm": true}));
    let waiting: Vec<_> = (0..5).map(|_| api.submit(&job("all", [held.clone()]))).collect();
    let sixth = api.submit(&job("all", [echo()]));
    assert_eq!(api.wait_ended(&sixth).status(), "completed");
    let listed = cluster.gridc().run(&["job", "list", "--waiting", "-o", "json"]).exits(0).json();
    let of =
        |field: &str| listed["items"].as_array().expect("a list").iter().map(|j| j[field].clone()).collect::<Vec<_>>();
    assert_eq!(
        of("id"),
        waiting.iter().rev().map(|id| json!(id)).collect::<Vec<_>>(),
        "newest first, without the sixth"
    );
    assert!(of("waiting_for").iter().all(|what| *what == "confirmation"), "{listed}");
    assert!(of("status").iter().all(|status| *status == "running"), "{listed}");
    let whys: Vec<_> = waiting.iter().rev().map(|id| json!(why(&cluster, id))).collect();
    assert_eq!(of("why"), whys);
    assert_eq!(api.job(&waiting[0]).0["why"], whys[4], "also in the job's own document");
    for id in &waiting {
        assert_eq!(why(&cluster, id), format!("phase 0 is waiting for confirmation: gridc job confirm {id}"));
        let confirmed = cluster.gridc().run(&["job", "confirm", id]);
        confirmed.exits(0);
        let ended = api.wait_ended(id);
        assert_eq!((ended.status(), ended.0.get("waiting_for"), ended.0.get("why")), ("completed", None, None));
        cluster.gridc().run(&["job", "confirm", id]).exits(5);
    }
    assert_eq!(api.get("/jobs?waiting=true").json(), json!([]));
}

#[test]
fn j3_a_gate_survives_a_kill_of_the_server() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [echo(), with(echo(), json!({"confirm": true}))]));
    api.wait_job(&id, "at the gate", |j| j.count("success") == 1);
    cluster.server.kill9();
    cluster.server.restart();
    assert!(why(&cluster, &id).contains("is waiting for confirmation"), "{}", why(&cluster, &id));
    cluster.gridc().run(&["job", "confirm", &id, "--phase", "1"]).exits(0);
    assert_eq!(api.wait_ended(&id).status(), "completed");
}

#[test]
fn j2_a_window_of_one_takes_one_node_at_a_time() {
    let cluster = Cluster::start(&[("web-01", ""), ("web-02", ""), ("web-03", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let rolling = with(record_slowly(&lines, "300ms"), json!({"concurrency": 1}));
    let id = api.submit(&job("all", [rolling]));
    let ended = api.wait_job(&id, "one at a time", |j| {
        assert!(j.count("running") <= 1, "I8: {j}");
        j.ended()
    });
    assert_eq!((ended.status(), lines.of(&id).len()), ("completed", 3), "{ended}");
}

#[test]
fn offline_wait_waits_until_the_node_is_back() {
    let mut cluster = Cluster::start_with(QUICK_LIVENESS, &[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    cluster.worker("web-02").terminate();
    let id = api.submit(&with(job("all", [record(&lines)]), json!({"offline": "wait"})));
    api.wait_job(&id, "web-01 is done", |j| j.outcome(0, "web-01") == "success");
    assert!(why(&cluster, &id).starts_with("step 0 waits for web-02, left"), "{}", why(&cluster, &id));
    cluster.worker("web-02").restart();
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.outcome(0, "web-02")), ("completed", "success"), "{ended}");
}

#[test]
fn w8_on_unknown_wait_a_person_resolves() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let spec = with(job("all", [record_slowly(&lines, "250s"), echo()]), json!({"on_unknown": "wait"}));
    let id = api.submit(&spec);
    lines.wait_of(&id, 1);
    cluster.worker("web-01").kill9_tree();
    cluster.worker("web-01").restart();
    let stuck = api.wait_job(&id, "unknown", |j| j.count("unknown") == 1);
    assert_eq!(stuck.status(), "running", "{stuck}");
    let resolve = ["job", "resolve", &id, "--step", "0", "--node", "web-01", "--as", "success"];
    cluster.gridc().run(&resolve).exits(0);
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.outcome(0, "web-01")), ("completed", "success"), "{ended}");
    assert_eq!(lines.of(&id).len(), 1, "it ran once");
    cluster.gridc().run(&resolve).exits(5);
}

#[test]
fn a_resumed_job_runs_only_what_is_missing() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "--slots 1")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let later = crate::staging::closed_record(&cluster);
    let id = api.submit(&job("all", [record(&lines), record(&later), record(&lines)]));
    let failed = api.wait_ended(&id);
    assert_eq!(failed.status(), "failed", "the folder of the second record is not there: {failed}");
    cluster.gridc().run(&["job", "confirm", &id]).exits(5);
    crate::staging::open(&later);
    cluster.server.kill9();
    cluster.server.restart();
    cluster.gridc().run(&["job", "resume", &id]).exits(0);
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), ended.count("success")), ("completed", 6), "{ended}");
    assert_eq!(lines.of(&id).len(), 4, "step 0 was done and did not run again");
    assert_eq!(later.of(&id).len(), 2);
    cluster.gridc().run(&["job", "resume", &id]).exits(5);
}

#[test]
fn w8_resume_lists_once_steps_that_may_have_run_and_needs_a_word() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let id = api.submit(&job("all", [record_slowly(&lines, "250s")]));
    lines.wait_of(&id, 1);
    cluster.worker("web-01").kill9_tree();
    cluster.worker("web-01").restart();
    assert_eq!(api.wait_ended(&id).outcome(0, "web-01"), "unknown");
    let refused = cluster.gridc().run(&["job", "resume", &id]);
    assert!(refused.stderr.contains("step 0 on web-01"), "{}", refused.stderr);
    refused.exits(5);
    cluster.gridc().run(&["job", "resume", &id, "--rerun-once"]).exits(0);
    lines.wait_of(&id, 2);
    assert_eq!(api.cancel(&id).status, 200);
}

#[test]
fn a_plan_binds_what_is_run_and_is_refused_when_anything_has_changed() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let file = cluster.path("job.json");
    let name = file.to_str().expect("a plain path").to_owned();
    let write = |delay: &str| {
        let spec = job("all", [with(echo(), json!({"timeout": delay}))]);
        std::fs::write(&file, spec.to_string()).expect("the job file");
    };
    write("9s");
    let hash = |cluster: &Cluster| {
        let planned = cluster.gridc().run(&["job", "plan", "-f", &name, "-o", "json"]).json();
        assert_eq!(planned["expected"], json!(["web-01"]), "{planned}");
        planned["hash"].as_str().expect("a hash").to_owned()
    };
    let seen = hash(&cluster);
    let run = ["job", "run", "-f", &name, "--plan", &seen, "--wait"];
    cluster.gridc().run(&run).exits(0);
    cluster.server.kill9();
    cluster.server.restart();
    assert_eq!(hash(&cluster), seen, "a plan outlives a restart");
    write("8s");
    cluster.gridc().run(&run).exits(5);
    write("9s");
    cluster.gridc().run(&run).exits(0);
    cluster.add_worker("web-02", "");
    let refused = cluster.gridc().run(&run);
    assert!(refused.stderr.contains("plan it again"), "{}", refused.stderr);
    refused.exits(5);
}
