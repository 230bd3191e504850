//! Submitting: what goes out, and what each answer means.

use serde_json::json;

use crate::fake::{Fake, JOB, job, refusal};
use crate::{end, gridc, run, run_with_stdin};

#[tokio::test]
async fn a_submit_prints_the_id_and_a_hint() {
    let server = Fake::job(vec![job("pending", &[("pending", 2)], None)]).await;
    let ran = run(&server.url(), "job run --target group:web test fail --message boom").await.exits(0);
    assert_eq!(ran.stdout, format!("{JOB} submitted\n"));
    assert_eq!(
        ran.stderr,
        format!("hint: gridc job status {JOB} shows its progress; --wait waits until it has ended\n")
    );
    let want = json!({
        "target": {"scope": "group", "value": "web"},
        "tasks": [{"backend": "test", "action": "fail", "params": {"message": "boom"}}],
    });
    assert_eq!(server.seen()[0].body, want);
}

#[tokio::test]
async fn options_and_parameters_may_stand_in_any_order() {
    let server = Fake::job(vec![job("pending", &[("pending", 2)], None)]).await;
    let url = server.url();
    for line in [
        "-o json job run --target all ping echo --message hi --max-retries 2",
        "job run ping echo --message hi -t all --max-retries=2 -o json",
        "job -o json run ping --max-retries 2 echo message=hi -tall",
    ] {
        let ran = run(&url, line).await.exits(0);
        assert_eq!(ran.json()["id"], JOB, "{line}");
        assert_eq!(ran.stderr, "", "{line}");
    }
    // --server beats GRID_SERVER, wherever it stands.
    run("http://127.0.0.1:9", &format!("job run ping echo message=hi -t all --max-retries 2 --server {url}"))
        .await
        .exits(0);
    let bodies: Vec<_> = server.seen().into_iter().map(|s| s.body).collect();
    assert_eq!(bodies.len(), 4);
    assert!(bodies.iter().all(|b| *b == bodies[0]), "{bodies:?}");
    assert_eq!(bodies[0]["tasks"][0]["max_retries"], 2);
}

#[tokio::test]
async fn i14_a_standby_is_left_for_the_leader() {
    let leader = Fake::job(vec![job("pending", &[("pending", 2)], None)]).await;
    let url = leader.url();
    let standby = Fake::start(move |_, _| {
        let body = json!({
            "error": "NOT_LEADER", "message": "c2 is not the leader", "leader_id": "c1", "leader_url": url,
            "leader_epoch": 1, "node_id": "c2", "role": "STANDBY",
        });
        (409, body)
    })
    .await;
    run(&standby.url(), "job run -t all ping echo").await.exits(0);
    assert_eq!((standby.seen().len(), leader.seen().len()), (1, 1));
}

#[tokio::test]
async fn nobody_there_exits_3() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let ran = end(gridc(&url, "job run -t all ping echo").env("GRID_PATIENCE", "300ms")).await.exits(3);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("error: no controller reachable for ") && ran.stderr.contains(&url), "{ran:?}");
    assert!(ran.stderr.contains("hint: name a controller with --server"), "{ran:?}");
    assert!(!ran.stderr.contains("answer was lost"), "{ran:?}");
}

#[tokio::test]
async fn a_submit_whose_fate_is_unknown_says_so() {
    let server = Fake::start(|_, _| refusal(503, "OUTCOME_UNKNOWN", "no answer from the log")).await;
    let ran = end(gridc(&server.url(), "job run -t all ping echo").env("GRID_PATIENCE", "300ms")).await.exits(3);
    assert!(ran.stderr.contains("hint: the answer was lost"), "{ran:?}");
}

#[tokio::test]
async fn refusals_exit_as_the_table_says() {
    for (status, word, code) in [
        (404, "NOT_FOUND", 4),
        (409, "CONFLICT", 5),
        (409, "STALE_EPOCH", 5),
        (429, "QUEUE_FULL", 5),
        (413, "TOO_LARGE", 2),
        (400, "BAD_REQUEST", 2),
        (500, "INTERNAL", 3),
    ] {
        let server = Fake::start(move |_, _| refusal(status, word, "so it is")).await;
        for line in [format!("job cancel {JOB}"), "job run -t all ping echo".to_owned()] {
            let ran = run(&server.url(), &line).await.exits(code);
            assert_eq!((ran.stdout.as_str(), ran.stderr), ("", format!("error: so it is ({word})\n")));
        }
    }
}

#[tokio::test]
async fn every_fault_the_controller_names_is_printed() {
    let server = Fake::start(|_, _| {
        let details = json!([
            {"field": "target", "problem": "matches no node"},
            {"field": "tasks[0].params.message", "problem": "has an \u{1b}[31mescape"},
        ]);
        (422, json!({"error": "INVALID", "message": "the job is not valid", "details": details}))
    })
    .await;
    let ran = run(&server.url(), "job run -t all ping echo").await.exits(2);
    assert_eq!(
        ran.stderr,
        "error: the job is not valid (INVALID)\n  \
         target: matches no node\n  \
         tasks[0].params.message: has an \\u{1b}[31mescape\n"
    );
}

#[tokio::test]
async fn a_fault_is_not_told_twice() {
    let refused = |problems: &'static [&'static str]| {
        Fake::start(move |_, _| {
            let details: Vec<_> = problems.iter().map(|p| json!({"field": "target", "problem": p})).collect();
            (
                422,
                json!({"error": "INVALID", "message": format!("target: {}", problems.join("; target: ")), "details": details}),
            )
        })
    };
    let ran = run(&refused(&["matches no node"]).await.url(), "job run -t all ping echo").await.exits(2);
    assert_eq!(ran.stderr, "error: target: matches no node (INVALID)\n");
    let ran = run(&refused(&["is odd", "is long"]).await.url(), "job run -t all ping echo").await.exits(2);
    assert_eq!(ran.stderr, "error: 2 faults (INVALID)\n  target: is odd\n  target: is long\n");
}

#[tokio::test]
async fn a_job_file_is_sent_as_it_is() {
    let server = Fake::job(vec![job("pending", &[("pending", 2)], None)]).await;
    let yaml = "\
target: {scope: group, value: web}
strategy: continue
tasks:
  - tasks:
      - backend: ping
        action: echo
      - backend: test
        action: succeed
        params: { delay: 10ms }
  - backend: ping
    action: hostname
    condition: on_success
";
    let want = json!({
        "target": {"scope": "group", "value": "web"},
        "strategy": "continue",
        "tasks": [
            {"tasks": [
                {"backend": "ping", "action": "echo"},
                {"backend": "test", "action": "succeed", "params": {"delay": "10ms"}},
            ]},
            {"backend": "ping", "action": "hostname", "condition": "on_success"},
        ],
    });
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let files = [path("job.yaml", yaml), path("job.json", &want.to_string()), path("job", yaml)];
    for file in &files {
        run(&server.url(), &format!("job run -f {file}")).await.exits(0);
    }
    run_with_stdin(&server.url(), "job run --file -", yaml).await.exits(0);
    let seen = server.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|s| s.body == want), "{seen:?}");
}

#[tokio::test]
async fn faults_of_a_job_file_are_named_before_anybody_is_asked() {
    let server = Fake::job(vec![job("pending", &[], None)]).await;
    let yaml =
        "target: everyone\ntasks:\n  - {backend: ping, action: pong}\n  - {backend: ping, action: echo, retries: 3}\n";
    let ran = run_with_stdin(&server.url(), "job run -f -", yaml).await.exits(2);
    assert_eq!(
        ran.stderr,
        "error: the job in stdin is not valid\n  \
         target: unknown word \"everyone\": use all, node:everyone, group:everyone, labels:KEY=VALUE or facts:KEY=VALUE\n    \
         everyone\n    \
         ^\n  \
         tasks[0].action: unknown action \"pong\"; ping has echo, hostname, sleep\n  \
         tasks[1].retries: unknown field; known here: backend, action, params, timeout, max_retries, effect, tasks, \
         condition, nodes, concurrency, confirm, first, atomic (did you mean max_retries?)\n"
    );
    let ran = run_with_stdin(&server.url(), "job run -f -", "target: all\ntarget: node:a\n").await.exits(2);
    assert!(ran.stderr.contains("target: is given twice"), "{ran:?}");
    let ran = run_with_stdin(&server.url(), "job run -f -", &"x".repeat(2_000_000)).await.exits(2);
    assert!(ran.stderr.contains("larger than 1048576 bytes"), "{ran:?}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn cancel_prints_what_became_of_the_job() {
    let server = Fake::start(|_, _| (200, json!({"id": JOB, "status": "cancelled"}))).await;
    let ran = run(&server.url(), &format!("job cancel {JOB}")).await.exits(0);
    assert_eq!((ran.stdout, ran.stderr), (format!("{JOB} cancelled\n"), String::new()));
    assert_eq!(server.seen()[0].line, format!("POST /api/v1/namespaces/default/jobs/{JOB}/cancel"));
    let ran = run(&server.url(), &format!("job cancel {JOB} -o json")).await.exits(0);
    assert_eq!(ran.json(), json!({"id": JOB, "status": "cancelled"}));
}
