//! Names that are not there, servers that are not there, and who is asking.

use serde_json::{Value, json};

use crate::fake::{Fake, JOB, job, refusal};
use crate::listing::node;
use crate::{end, gridc, run};

/// Knows one job and two nodes.
async fn cluster() -> Fake {
    Fake::start(|_, seen| match seen.line.split('?').next() {
        Some("GET /api/v1/namespaces/default/jobs") => {
            (200, json!({"items": [job("running", &[("running", 2)], None)], "next": null}))
        }
        Some("GET /api/v1/nodes") => {
            (200, json!({"items": [node("web-01", "ready"), node("db-01", "ready")], "next": null}))
        }
        Some("POST /api/v1/namespaces/default/jobs") => {
            let details = json!([{"field": "target", "problem": "no known node matches"}]);
            (422, json!({"error": "INVALID", "message": "the job is not valid", "details": details}))
        }
        _ => refusal(404, "NOT_FOUND", "it is not known"),
    })
    .await
}

#[tokio::test]
async fn a_name_that_is_nearly_right_is_told_and_never_taken() {
    let server = cluster().await;
    let typed = "job-0c5t9v3k2m7q0";
    for (line, code, hint) in [
        (format!("job status {typed}"), 4, Some(JOB)),
        (format!("job cancel {typed}"), 4, Some(JOB)),
        ("job why job-0c5t9v3k2m7q".to_owned(), 4, Some(JOB)),
        ("node info web-1".to_owned(), 4, Some("web-01")),
        ("node drain web-10".to_owned(), 4, Some("web-01")),
        ("node remove db".to_owned(), 4, Some("db-01")),
        ("job run -t group:wbe ping echo".to_owned(), 2, Some("group:web")),
        ("job run -t node:web-1 ping echo".to_owned(), 2, Some("node:web-01")),
        ("job run -t node:prod ping echo".to_owned(), 2, Some("group:prod")),
        ("job run -t labels:rack=b ping echo".to_owned(), 2, Some("labels:rack=a")),
        ("node info xyzzy".to_owned(), 4, None),
        ("job run -t group:xyzzy ping echo".to_owned(), 2, None),
    ] {
        let ran = run(&server.url(), &line).await.exits(code);
        let last = ran.stderr.lines().last().unwrap();
        match hint {
            Some(hint) => assert_eq!(last, format!("hint: did you mean {hint}?"), "{line}: {ran:?}"),
            None => assert!(!ran.stderr.contains("did you mean"), "{line}: {ran:?}"),
        }
        assert_eq!(ran.stdout, "", "{line}");
    }
    assert!(server.seen().iter().all(|s| !s.line.contains(JOB)), "a guess is never asked for");
}

#[tokio::test]
async fn a_misspelt_verb_is_told_the_right_one() {
    for (line, want) in
        [("jobs list", "'job'"), ("job lst", "'list'"), ("node drian x", "'drain'"), ("stauts", "'status'")]
    {
        let ran = run("", line).await.exits(2);
        assert!(ran.stderr.contains("similar subcommand exists") && ran.stderr.contains(want), "{line}: {ran:?}");
    }
}

#[tokio::test]
async fn the_next_server_of_the_list_answers_for_one_that_is_gone() {
    let server = Fake::start(|_, _| (200, json!({"items": [], "next": null}))).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let list = format!("http://{},{}", socket.local_addr().unwrap(), server.url());
    run(&list, "node list -o json").await.exits(0);
    run("http://127.0.0.1:9", &format!("--server {list} node list -o json")).await.exits(0);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_token_goes_along_with_every_call_and_is_never_shown() {
    let server = Fake::start(|_, _| (200, json!({"items": [], "next": null}))).await;
    run(&server.url(), "node list -o json").await.exits(0);
    end(gridc(&server.url(), "node list -o json").env("GRID_TOKEN", "s3cret")).await.exits(0);
    end(gridc(&server.url(), "--token other node list -o json").env("GRID_TOKEN", "s3cret")).await.exits(0);
    let sent: Vec<_> = server.seen().into_iter().map(|s| s.authorization).collect();
    assert_eq!(sent, [None, Some("Bearer s3cret".to_owned()), Some("Bearer other".to_owned())]);
    let help = end(gridc("", "--help").env("GRID_TOKEN", "s3cret")).await.exits(0);
    assert!(!help.stdout.contains("s3cret"), "{help:?}");
    let bad = end(gridc("", "node list").env("GRID_TOKEN", "two words")).await.exits(2);
    assert!(bad.stderr.contains("one word of visible ASCII"), "{bad:?}");
}

#[tokio::test]
async fn empty_lists_say_so_on_stderr_and_exit_0() {
    let server = Fake::start(|_, _| (200, json!({"items": [], "next": null}))).await;
    for line in ["job list", "node list", "events"] {
        let ran = run(&server.url(), line).await.exits(0);
        assert!(ran.stderr.starts_with("hint: no "), "{line}: {ran:?}");
        assert!(ran.stdout.lines().count() <= 1, "a header at most: {ran:?}");
        for format in ["json", "yaml"] {
            let ran = run(&server.url(), &format!("{line} -o {format}")).await.exits(0);
            assert_eq!(ran.stderr, "", "{line}");
        }
        let none: Value = run(&server.url(), &format!("{line} -o json")).await.json();
        assert_eq!(none, json!({"items": [], "next": null}), "{line}");
    }
}

#[tokio::test]
async fn issue13_a_run_that_is_missing_suggests_no_job() {
    let server = Fake::start(|_, seen| match seen.line.split('?').next() {
        Some("GET /api/v1/namespaces/default/jobs") => {
            (200, json!({"items": [job("running", &[("running", 2)], None)], "next": null}))
        }
        _ => refusal(404, "NOT_FOUND", &format!("{JOB} has no run 3; it has 2 runs")),
    })
    .await;
    for verb in ["status", "get"] {
        let ran = run(&server.url(), &format!("job {verb} {JOB} --run 3")).await.exits(4);
        assert_eq!(ran.stderr, format!("error: {JOB} has no run 3; it has 2 runs (NOT_FOUND)\n"));
    }
}
