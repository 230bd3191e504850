//! `gridc run`: what is submitted, outputs grouped, and an exit code like the command's.

use serde_json::{Value, json};

use crate::fake::{Fake, JOB, job, job_line};
use crate::{run, run_with_stdin};

/// Accepts a submit, shows the job as `end`, and has `groups` as its outputs.
async fn ends(end: Value, groups: Value) -> Fake {
    Fake::start(move |_, seen| match seen.line.as_str() {
        line if line.starts_with("POST ") => (201, end.clone()),
        line if line == job_line() => (200, end.clone()),
        line if line.ends_with("/outputs/0") => (200, json!({"items": groups, "next": null})),
        _ => crate::fake::refusal(404, "NOT_FOUND", "no such path"),
    })
    .await
}

fn group(nodes: &[&str], output: &str) -> Value {
    json!({"count": nodes.len(), "nodes": nodes, "output": output, "total_bytes": output.len()})
}

fn submitted(server: &Fake) -> Value {
    server.seen().into_iter().find(|seen| seen.line.starts_with("POST ")).unwrap().body
}

#[tokio::test]
async fn equal_outputs_are_printed_once_and_success_everywhere_exits_0() {
    let end = job("completed", &[("success", 2)], Some(json!({})));
    let server = ends(end, json!([group(&["web-01", "web-02"], "6.1.0\n")])).await;
    let ran = run(&server.url(), "run -t group:web --effect pure -- uname -r --all").await.exits(0);
    assert_eq!(ran.stdout, "2 nodes (web-01, web-02):\n  6.1.0\n");
    assert!(ran.stderr.starts_with(&format!("{JOB} submitted\n")) && !ran.stderr.contains("hint"), "{ran:?}");
    let task = json!({"backend": "command", "action": "run", "effect": "pure",
        "params": {"program": "uname", "args": ["-r", "--all"]}});
    let want = json!({"target": {"scope": "group", "value": "web"}, "strategy": "continue", "tasks": [task]});
    assert_eq!(submitted(&server), want);
}

#[tokio::test]
async fn a_refusal_is_told_once_for_all_nodes_and_exits_1() {
    let refused =
        "refused by this worker: uname is not on its list of allowed programs: start it with --allow-command uname";
    let failed = json!({"status": "failed", "attempts": 1, "error": refused});
    let end = job("failed", &[("failed", 2)], Some(json!({"0": {"web-01": failed, "web-02": failed}})));
    let server = ends(end, json!([])).await;
    let ran = run(&server.url(), "run -t group:web -- uname").await.exits(1);
    assert_eq!(ran.stdout, "");
    let told = format!("failed on 2 nodes: {refused}\n    web-01, web-02\n");
    assert!(ran.stderr.contains(&told), "{ran:?}");
}

#[tokio::test]
async fn a_node_that_failed_or_was_offline_exits_1_with_its_name() {
    let failed = json!({"status": "failed", "attempts": 1, "error": "uname: exit 3: no"});
    let ok = json!({"status": "success", "attempts": 1});
    let end = job("completed", &[("success", 1), ("failed", 1)], Some(json!({"0": {"web-01": ok, "web-02": failed}})));
    let server = ends(end, json!([group(&["web-01"], "6.1\n"), group(&["web-02"], "no\n")])).await;
    let ran = run(&server.url(), "run -t group:web -- uname").await.exits(1);
    assert_eq!(ran.stdout, "1 node (web-01):\n  6.1\n1 node (web-02):\n  no\n");
    assert!(ran.stderr.contains("failed on web-02: uname: exit 3: no\n"), "{ran:?}");
    let away = json!({"status": "skipped", "attempts": 0, "reason": "offline: the node is dead"});
    let mut end =
        job("completed", &[("success", 1), ("skipped", 1)], Some(json!({"0": {"web-01": ok, "web-02": away}})));
    end["skipped_offline"] = json!(1);
    let server = ends(end, json!([group(&["web-01"], "6.1\n")])).await;
    let ran = run(&server.url(), "run -t group:web -- uname").await.exits(1);
    assert!(ran.stderr.contains("skipped, offline: web-02\n"), "{ran:?}");
}

#[tokio::test]
async fn the_document_has_the_job_and_the_outputs() {
    let end = job("completed", &[("success", 2)], Some(json!({})));
    let groups = json!([group(&["web-01", "web-02"], "a\u{1b}[2J\n")]);
    let server = ends(end.clone(), groups.clone()).await;
    let ran = run(&server.url(), "run -t group:web -o json -- uname").await.exits(0);
    assert_eq!(ran.json(), json!({"job": end, "outputs": groups}));
    assert!(!ran.stdout.contains('\u{1b}'));
}

#[tokio::test]
async fn variables_folder_input_and_limits_go_with_the_task() {
    let server = ends(job("completed", &[("success", 2)], Some(json!({}))), json!([])).await;
    let line = "run -t all --env A=1 --env B=x=y --cwd /srv --stdin - --timeout 30s --concurrency 20% -- psql -At";
    run_with_stdin(&server.url(), line, "select 1;\n").await.exits(0);
    let task = &submitted(&server)["tasks"][0];
    assert_eq!((&task["timeout"], &task["concurrency"]), (&json!("30s"), &json!("20%")));
    let params = json!({"program": "psql", "args": ["-At"], "env": {"A": "1", "B": "x=y"}, "cwd": "/srv", "stdin": "select 1;\n"});
    assert_eq!(task["params"], params);
}

#[tokio::test]
async fn outputs_that_the_controller_left_out_are_counted() {
    let end = job("completed", &[("success", 5)], None);
    let server = ends(end, json!([group(&["web-01", "web-02"], "a\n"), group(&["web-03"], "b\n")])).await;
    let hint = format!(
        "hint: 2 further nodes printed something else than these 2 outputs; gridc job logs {JOB} prints all of them\n"
    );
    for line in ["run -t all -- hostname", &format!("job logs {JOB} --grouped")] {
        let ran = run(&server.url(), line).await.exits(0);
        assert!(ran.stderr.ends_with(&hint), "{line}: {ran:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_a_command_exits_2_and_asks_nobody() {
    let server = ends(job("completed", &[], None), json!([])).await;
    for (line, want) in [
        ("run -t all", "PROGRAM"),
        ("run -- uname", "--target"),
        ("run -t all -- ./uname", "PROGRAM"),
        ("run -t all --cwd tmp -- uname", "--cwd"),
        ("run -t all --effect twice -- uname", "possible values: pure, idempotent, once"),
        ("run -t all --exlude node:a -- uname", "no option \"--exlude\""),
    ] {
        let ran = run(&server.url(), line).await.exits(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(want), "{line}: {ran:?}");
    }
    assert!(server.seen().is_empty());
    let ran = run(&server.url(), "run -t nowhere -- uname").await.exits(2);
    assert!(ran.stderr.contains("    nowhere\n    ^\n"), "{ran:?}");
    assert!(
        !server.seen().iter().any(|seen| seen.line.starts_with("POST ")),
        "only names that may be meant are asked for"
    );
}
