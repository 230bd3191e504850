//! What is read: plain columns on a pipe, whole documents on request.

use serde_json::{Value, json};

use crate::fake::{Fake, JOB, boom, job, job_line};
use crate::run;

pub fn node(id: &str, state: &str) -> Value {
    json!({
        "id": id, "hostname": format!("{id}.lan"), "address": "10.0.0.7:0", "groups": ["web", "prod"],
        "labels": {"rack": "a"}, "backends": {"ping": ["echo", "sleep"]}, "os": "linux", "arch": "x86_64",
        "capacity": {"cpu_milli": 2500, "memory_bytes": 8_589_934_592_u64, "disk_bytes": 1536, "slots": 8},
        "version": "0.1.0", "status": state, "state": state, "ordinal": 1, "session": 7, "agent": false, "drained": false, "leases": 2,
        "last_seen": "2026-02-12T10:30:00Z", "registered_at": "2026-02-12T10:00:00Z", "leader_epoch": 1,
    })
}

#[tokio::test]
async fn job_status_is_facts_steps_and_nodes_failures_first() {
    let results = json!({"0": {"web-01": {"status": "success", "duration": "0.1s", "attempts": 1}, "web-02": boom()}});
    let server = Fake::job(vec![job("failed", &[("success", 1), ("failed", 1)], Some(results))]).await;
    let ran = run(&server.url(), &format!("job status {JOB}")).await.exits(0);
    let want = format!(
        "\
job        {JOB}
namespace  default
status     failed
target     group:web
nodes      2
strategy   fail-fast
tolerates  0
created    3m ago (2026-02-12T10:30:00Z)
updated    3m ago (2026-02-12T10:30:01Z)

STEP  PHASE  TASK       DONE  OUTCOMES
0     0      test/fail  2/2   1 success, 1 failed

STEP  NODE    STATUS   ATTEMPTS  DURATION  MESSAGE
0     web-02  failed   1         0.2s      boom
0     web-01  success  1         0.1s      -
"
    );
    assert_eq!((ran.stdout, ran.stderr), (want, String::new()));
}

#[tokio::test]
async fn job_status_of_a_large_job_is_bounded_and_says_where_the_rest_is() {
    let server = Fake::start(|_, seen| {
        let rows = |status: &str, n: usize| -> Value {
            let rows = (0..n).map(|n| json!({"step": 0, "node": format!("{status}-{n:02}"), "status": status}));
            json!({"items": rows.collect::<Vec<_>>(), "next": "0:x"})
        };
        match seen.line.as_str() {
            line if line == job_line() => (200, job("running", &[("success", 2_997), ("failed", 3)], None)),
            line if line.ends_with("results?status=failed&limit=50") => (200, rows("failed", 3)),
            line if line.ends_with("results?limit=50") => (200, rows("success", 50)),
            line => panic!("{line}"),
        }
    })
    .await;
    let ran = run(&server.url(), &format!("job status {JOB}")).await.exits(0);
    let rows: Vec<_> = ran.stdout.lines().skip_while(|l| !l.contains("ATTEMPTS")).skip(1).collect();
    assert_eq!(rows.len(), 51, "{ran:?}");
    assert!(rows[2].contains("failed-02") && rows[3].contains("success-00"), "{ran:?}");
    assert_eq!(
        rows[50],
        format!("… 2950 more; --failed, --node, --step and --status choose, gridc job get {JOB} has all of them")
    );
}

fn two_steps() -> Value {
    let ok = json!({"status": "success", "duration": "0.1s", "attempts": 1});
    let results = json!({"0": {"web-01": ok, "web-02": boom()}, "1": {"web-01": ok, "web-02": {"status": "unknown", "attempts": 1}}});
    let mut doc = job("failed", &[("success", 2), ("failed", 1), ("unknown", 1)], Some(results));
    let mut second = doc["steps"][0].clone();
    second["step"] = json!(1);
    doc["steps"] = json!([doc["steps"][0], second]);
    doc
}

/// STEP NODE STATUS of each row.
fn shown(stdout: &str) -> Vec<String> {
    let rows = stdout.lines().skip_while(|line| !line.contains("ATTEMPTS")).skip(1);
    rows.map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn job_status_shows_only_what_the_filters_choose() {
    let server = Fake::job(vec![two_steps()]).await;
    for (filter, rows) in [
        ("", &["0 web-02 failed", "1 web-02 unknown", "0 web-01 success", "1 web-01 success"][..]),
        ("--failed", &["0 web-02 failed", "1 web-02 unknown"]),
        ("--status unknown,success", &["1 web-02 unknown", "0 web-01 success", "1 web-01 success"]),
        ("--node web-01", &["0 web-01 success", "1 web-01 success"]),
        ("--node web-01,web-02 --step 1 --failed", &["1 web-02 unknown"]),
    ] {
        let ran = run(&server.url(), &format!("job status {JOB} {filter}")).await.exits(0);
        assert_eq!(shown(&ran.stdout), rows, "{filter}: {ran:?}");
    }
    let ran = run(&server.url(), &format!("job status {JOB} --status skipped")).await.exits(0);
    assert!(ran.stdout.ends_with("\nno result matches\n"), "{ran:?}");
    let doc = run(&server.url(), &format!("job status {JOB} --failed -o json")).await.exits(0).json();
    assert_eq!(doc["results"], json!({"0": {"web-02": boom()}, "1": {"web-02": {"status": "unknown", "attempts": 1}}}));
    for (filter, told) in [
        ("--node web-09", format!("error: {JOB} does not run on web-09; gridc job status {JOB} shows where it does\n")),
        ("--step 7", format!("error: {JOB} has no step 7: it has 2\n")),
    ] {
        let ran = run(&server.url(), &format!("job status {JOB} {filter}")).await.exits(4);
        assert_eq!((ran.stdout, ran.stderr), (String::new(), told));
    }
    run(&server.url(), &format!("job status {JOB} --failed --status success")).await.exits(2);
}

#[tokio::test]
async fn job_status_asks_a_large_job_only_for_what_the_filters_choose() {
    let server = Fake::start(|_, seen| match seen.line.as_str() {
        line if line == job_line() => {
            let mut doc = job("failed", &[("success", 9_000), ("failed", 2)], None);
            doc.as_object_mut().unwrap().remove("expected");
            (200, doc)
        }
        _ => (200, json!({"items": [{"step": 0, "node": "web-02", "status": "failed", "attempts": 1}], "next": null})),
    })
    .await;
    let ran = run(&server.url(), &format!("job status {JOB} --failed --node web-02 --step 0")).await.exits(0);
    assert_eq!(shown(&ran.stdout), ["0 web-02 failed"]);
    let asked: Vec<_> =
        server.seen().into_iter().filter_map(|s| Some(s.line.split_once("results?")?.1.to_owned())).collect();
    assert_eq!(
        asked,
        ["step=0&status=failed&node=web-02&limit=1000"],
        "outcomes that it does not have are not asked for"
    );
}

#[tokio::test]
async fn jobs_that_wait_for_an_operator_are_marked_and_filtered() {
    let server = Fake::start(|_, seen| {
        let mut waits = job("running", &[("pending", 2)], None);
        waits["waiting_for"] = json!("confirmation");
        waits["why"] = json!(format!("phase 0 is waiting for confirmation: gridc job confirm {JOB}"));
        match seen.line.split('?').nth(1) {
            Some("waiting=true&limit=100") => (200, json!({"items": [waits], "next": null})),
            Some("limit=100") => {
                (200, json!({"items": [waits, job("running", &[("running", 2)], None)], "next": null}))
            }
            Some("waiting=true&limit=7") => (200, json!({"items": [], "next": null})),
            query => panic!("{query:?}"),
        }
    })
    .await;
    let words =
        |text: &str| text.lines().skip(1).map(|l| l.split_whitespace().nth(1).unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(words(&run(&server.url(), "job list").await.exits(0).stdout), ["waiting", "running"]);
    for line in ["job list --waiting", "job list --status waiting"] {
        assert_eq!(words(&run(&server.url(), line).await.exits(0).stdout), ["waiting"]);
    }
    let doc = run(&server.url(), "job list --waiting -o json").await.exits(0).json();
    assert_eq!(
        (&doc["items"][0]["status"], &doc["items"][0]["waiting_for"]),
        (&json!("running"), &json!("confirmation"))
    );
    assert!(doc["items"][0]["why"].as_str().is_some_and(|why| why.contains("gridc job confirm")), "{doc}");
    let ran = run(&server.url(), "job list --waiting --limit 7").await.exits(0);
    assert_eq!(ran.stderr, "hint: no job in namespace default waits for an operator\n");
}

#[tokio::test]
async fn colours_are_used_on_demand_and_never_by_accident() {
    let server =
        Fake::start(|_, _| (200, json!({"items": [job("failed", &[("failed", 2)], None)], "next": null}))).await;
    let ran = run(&server.url(), "job list --color always").await.exits(0);
    assert!(ran.stdout.contains("\u{1b}[31mfailed\u{1b}[0m  group:web"), "{ran:?}");
    for line in ["job list", "job list --color never", "job list --color auto", "job list -o json --color always"] {
        assert!(!run(&server.url(), line).await.exits(0).stdout.contains('\u{1b}'), "{line}");
    }
    run(&server.url(), "job list --color sometimes").await.exits(2);
}

#[tokio::test]
async fn job_get_is_the_whole_document_page_by_page() {
    let server = Fake::start(|_, seen| {
        let row = |node: &str| json!({"step": 10, "node": node, "status": "success", "attempts": 1});
        match seen.line.as_str() {
            line if line == job_line() => (200, job("completed", &[("success", 2)], None)),
            line if line.ends_with("results?limit=1000") => {
                (200, json!({"items": [row("web-01")], "next": "10:web-01"}))
            }
            line if line.ends_with("results?after=10%3Aweb-01&limit=1000") => {
                (200, json!({"items": [row("web-02")], "next": null}))
            }
            line => panic!("{line}"),
        }
    })
    .await;
    let doc = run(&server.url(), &format!("job get {JOB}")).await.exits(0).json();
    assert_eq!(doc["results"]["10"]["web-01"]["status"], "success");
    assert_eq!(doc["results"]["10"]["web-02"]["status"], "success");
    let ran = run(&server.url(), &format!("job get {JOB} -o yaml")).await.exits(0);
    assert!(ran.stdout.starts_with(&format!("id: {JOB}\n")), "{ran:?}");
}

#[tokio::test]
async fn job_list_asks_for_pages_until_the_limit() {
    let server = Fake::start(|_, seen| {
        let page = |n: usize, next: Value| {
            (200, json!({"items": vec![job("failed", &[("failed", 2)], None); n], "next": next}))
        };
        match seen.line.as_str().split('?').nth(1) {
            Some("status=failed&limit=1000") => page(1_000, json!("job-x")),
            Some("status=failed&after=job-x&limit=500") => page(500, json!("job-y")),
            Some("status=pending&limit=100") => page(0, Value::Null),
            query => panic!("{query:?}"),
        }
    })
    .await;
    let ran = run(&server.url(), "job list --status failed --limit 1500").await.exits(0);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 1_501);
    assert_eq!(lines[0], "ID                 STATUS  TARGET     NODES  FAILED  CREATED  OUTCOMES");
    assert_eq!(lines[1], format!("{JOB}  failed  group:web  2      2       3m ago   2 failed"));
    assert_eq!(ran.stderr, "hint: only the newest 1500 are shown; --limit N shows more\n");
    let ran = run(&server.url(), "job list --status pending").await.exits(0);
    let hint = "hint: no job in namespace default matches; gridc job list without filters shows all of them\n";
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, hint));
    assert_eq!(
        run(&server.url(), "job list --status pending -o json").await.exits(0).json(),
        json!({"items": [], "next": null})
    );
}

#[tokio::test]
async fn nodes_are_listed_and_described() {
    let server = Fake::start(|_, seen| match seen.line.as_str() {
        "GET /api/v1/nodes?limit=1000" => (200, json!({"items": [node("web-01", "ready")], "next": "web-01"})),
        "GET /api/v1/nodes?after=web-01&limit=1000" => (200, json!({"items": [node("web-02", "dead")], "next": null})),
        "GET /api/v1/nodes/web-01" => (200, node("web-01", "ready")),
        _ => crate::fake::refusal(404, "NOT_FOUND", "no node \"web-09\""),
    })
    .await;
    let ran = run(&server.url(), "node list").await.exits(0);
    let want = "\
ID      STATUS  GROUPS    BACKENDS  LEASES  VERSION  LAST-SEEN
web-01  ready   web,prod  ping      2/8     0.1.0    3m ago
web-02  dead    web,prod  ping      2/8     0.1.0    3m ago
";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (want, ""));
    let ran = run(&server.url(), "node info web-01").await.exits(0);
    let want = "\
id          web-01
status      ready
hostname    web-01.lan
address     10.0.0.7:0
groups      web,prod
labels      rack=a
platform    linux/x86_64
version     0.1.0
cpu         2.50 cores
memory      8.0 GiB
disk        1.5 KiB
leases      2 of 8 slots
last seen   3m ago (2026-02-12T10:30:00Z)
registered  33m ago (2026-02-12T10:00:00Z)
session     7
backend     ping: echo, sleep
";
    assert_eq!(ran.stdout, want);
    let ran = run(&server.url(), "node info web-09").await.exits(4);
    assert_eq!(ran.stderr, "error: no node \"web-09\" (NOT_FOUND)\nhint: did you mean web-01?\n");
    assert_eq!(run(&server.url(), "node info web-01 -o json").await.exits(0).json(), node("web-01", "ready"));
}

#[tokio::test]
async fn status_and_role_are_facts_of_whoever_answers() {
    let role = json!({
        "node_id": "c2", "role": "STANDBY", "leader_epoch": 3, "leader_id": "c1", "leader_url": "http://c1:8765",
        "leader_grpc": null,
    });
    let mut status = role.clone();
    status["cluster_id"] = json!("k-1");
    status["version"] = json!("0.1.0");
    status["nodes"] = json!({"ready": 3, "dead": 0});
    status["jobs"] = json!({});
    status["applied_index"] = json!(42);
    let server = Fake::start(move |_, seen| match seen.line.as_str() {
        "GET /role" => (200, role.clone()),
        "GET /status" => (200, status.clone()),
        line => panic!("{line}"),
    })
    .await;
    let facts = "\
controller    c2
role          STANDBY
leader        c1
leader url    http://c1:8765
leader epoch  3
";
    assert_eq!(run(&server.url(), "role").await.exits(0).stdout, facts);
    let ran = run(&server.url(), "status").await.exits(0);
    assert!(ran.stdout.starts_with("cluster        k-1\nversion        0.1.0\ncontroller     c2\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("nodes          3 ready\njobs           none\napplied index  42\n"), "{ran:?}");
    assert_eq!(run(&server.url(), "status -o json").await.exits(0).json()["applied_index"], 42);
}

#[tokio::test]
async fn issue13_a_hint_about_more_events_names_no_limit_that_is_wrong() {
    let event =
        |id: u64| json!({"id": id, "at": "t", "kind": "NodeDead", "subject": "web-01", "text": "", "leader_epoch": 1});
    let server = Fake::start(move |_, _| (200, json!({"items": [event(9), event(8)], "next": "8"}))).await;
    let ran = run(&server.url(), "events --limit 2").await.exits(0);
    assert_eq!(ran.stderr, "hint: only the newest 2 are shown; --limit N shows more\n");
}

#[tokio::test]
async fn issue13_no_events_by_request_need_no_hint() {
    let server = Fake::start(|_, _| (200, json!({"items": [], "next": null}))).await;
    assert_eq!(run(&server.url(), "events --limit 0").await.exits(0).stderr, "");
}

#[tokio::test]
async fn issue13_a_refusal_that_lists_all_that_would_be_right_is_shown_whole() {
    let all = (0..60).map(|n| format!("SomeKind{n}")).collect::<Vec<_>>().join(", ");
    let message = all.clone();
    let server = Fake::start(move |_, _| crate::fake::refusal(400, "BAD_REQUEST", &message)).await;
    let ran = run(&server.url(), "events --kind Nope").await.exits(2);
    assert_eq!(ran.stderr, format!("error: {all} (BAD_REQUEST)\n"));
}

#[tokio::test]
async fn issue13_controllers_are_listed_by_name() {
    let member = |id: &str| {
        json!({"id": id, "role": "STANDBY", "voter": true, "leader_epoch": 1, "version": "0.1.0", "feature_level": 2, "api_url": "u",
               "grpc_addr": "g", "raft_addr": "r", "raft_id": 1, "last_index": 1, "applied_index": 1, "lag": 0, "last_contact_ms": 1})
    };
    let doc = json!({"cluster_id": "k", "leader_id": "c1", "leader_epoch": 1, "voters": 3, "majority": 2, "feature_level": 2,
                     "members": [member("c3"), member("c1"), member("c2")]});
    let server = Fake::start(move |_, _| (200, doc.clone())).await;
    for line in ["controllers", "cluster status"] {
        let text = run(&server.url(), line).await.exits(0).stdout;
        let ids: Vec<_> = text.lines().filter(|l| l.contains("STANDBY")).map(|l| &l[..2]).collect();
        assert_eq!(ids, ["c1", "c2", "c3"], "{line}");
    }
}
