//! `job confirm`, `job resolve`, `job why`.

use serde_json::{Value, json};

use crate::fake::{Fake, JOB, job, job_line, refusal};
use crate::{end, gridc, run};

fn path(verb: &str) -> String {
    format!("/api/v1/namespaces/default/jobs/{JOB}/{verb}")
}

async fn running() -> Fake {
    Fake::start(|_, _| (200, json!({"id": JOB, "status": "running"}))).await
}

#[tokio::test]
async fn confirm_prints_how_the_job_stands() {
    let server = running().await;
    let ran = run(&server.url(), &format!("job confirm {JOB}")).await.exits(0);
    assert_eq!((ran.stdout, ran.stderr), (format!("{JOB} running\n"), String::new()));
    let ran = run(&server.url(), &format!("job confirm --phase 1 {JOB} -o json")).await.exits(0);
    assert_eq!(ran.json(), json!({"id": JOB, "status": "running"}));
    let sent: Vec<_> = server.seen().into_iter().map(|s| (s.line, s.body)).collect();
    let line = format!("POST {}", path("confirm"));
    assert_eq!(sent, [(line.clone(), json!({})), (line, json!({"phase": 1}))]);
}

#[tokio::test]
async fn confirm_resume_and_retry_wait_for_the_end() {
    for verb in ["confirm", "resume", "retry"] {
        let server = Fake::start(move |before, seen| match seen.line.as_str() {
            line if line.starts_with("POST") => (200, json!({"id": JOB, "status": "running"})),
            line if line == job_line() && before < 2 => (200, job("running", &[("running", 2)], Some(json!({})))),
            line if line == job_line() => (200, job("failed", &[("success", 1), ("failed", 1)], Some(json!({})))),
            _ => refusal(404, "NOT_FOUND", "no such path"),
        })
        .await;
        let ran = run(&server.url(), &format!("job {verb} {JOB} --wait")).await.exits(1);
        assert_eq!(ran.stdout, format!("{JOB} failed\n"), "{verb}");
        assert!(ran.stderr.starts_with(&format!("{JOB} running\n{JOB} running on 2 nodes\n")), "{verb}: {ran:?}");
        let ran = run(&server.url(), &format!("job {verb} {JOB} --wait -o json")).await.exits(1);
        assert_eq!(ran.json()["counts"]["failed"], 1, "{verb}");
    }
    let server = running().await;
    run(&server.url(), "job confirm --all-held --wait").await.exits(2);
    run(&server.url(), &format!("job confirm {JOB} --wait-timeout 3s")).await.exits(2);
}

#[tokio::test]
async fn w8_resolve_says_exactly_what_the_person_said() {
    let server = running().await;
    for word in ["success", "failed", "retry"] {
        let ran = run(&server.url(), &format!("job resolve {JOB} --step 2 --node web-07 --as {word}")).await.exits(0);
        assert_eq!((ran.stdout, ran.stderr), (format!("{JOB} running\n"), String::new()));
        let sent = server.seen().pop().unwrap();
        assert_eq!(sent.line, format!("POST {}", path("resolve")));
        assert_eq!(sent.body, json!({"step": 2, "node": "web-07", "as": word}));
    }
}

#[tokio::test]
async fn why_is_one_line_or_the_document() {
    let doc = json!({"id": JOB, "status": "running", "why": "phase 1 waits\u{1b} for an operator"});
    let want = doc.clone();
    let server = Fake::start(move |_, _| (200, doc.clone())).await;
    let ran = run(&server.url(), &format!("job why {JOB}")).await.exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("phase 1 waits\\u{1b} for an operator\n", ""));
    assert_eq!(run(&server.url(), &format!("job why {JOB} -o json")).await.exits(0).json(), want);
    assert_eq!(server.seen()[0].line, format!("GET {}", path("why")));
}

#[tokio::test]
async fn what_does_not_wait_exits_5() {
    let server = Fake::start(|_, _| refusal(409, "CONFLICT", "it does not wait for that")).await;
    for line in [format!("job confirm {JOB}"), format!("job resolve {JOB} --step 0 --node a --as failed")] {
        let ran = run(&server.url(), &line).await.exits(5);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "error: it does not wait for that (CONFLICT)\n"));
    }
}

#[tokio::test]
async fn w8_a_decision_whose_answer_is_lost_is_sent_once_and_says_so() {
    let server = Fake::start(|_, _| refusal(503, "OUTCOME_UNKNOWN", "no answer from the log")).await;
    for line in [format!("job confirm {JOB}"), format!("job resolve {JOB} --step 0 --node a --as retry")] {
        let ran = end(&mut gridc(&server.url(), &line)).await.exits(3);
        assert!(ran.stderr.contains("hint: the answer was lost"), "{ran:?}");
    }
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn decisions_that_are_incomplete_or_unreadable_exit_2_and_ask_nobody() {
    let server = running().await;
    for (line, want) in [
        (format!("job resolve {JOB}"), "--step <N>\n  --node <NAME>\n  --as <VERDICT>"),
        (format!("job resolve {JOB} --step 0 --node a --as ok"), "[possible values: success, failed, retry]"),
        (format!("job resolve {JOB} --step x --node a --as retry"), "invalid value 'x' for '--step <N>'"),
        (format!("job resolve {JOB} --step 0 --node No_Such --as retry"), "\"No_Such\""),
        (format!("job confirm {JOB} --phase -1"), "'-1'"),
        ("job confirm".to_owned(), "<ID>"),
        ("job why".to_owned(), "<ID>"),
    ] {
        let ran = run(&server.url(), &line).await.exits(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(want), "{line}: {ran:?}");
    }
    for line in ["job confirm nope", "job resolve nope --step 0 --node a --as retry", "job why nope"] {
        run(&server.url(), line).await.exits(4);
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn job_status_says_why_a_job_is_not_further() {
    let status = |answer: (u16, Value)| async move {
        let server = Fake::start(move |_, seen| match seen.line.as_str() {
            line if line == job_line() => (200, job("running", &[("pending", 2)], Some(json!({})))),
            line if line.ends_with("/why") => answer.clone(),
            line => panic!("{line}"),
        })
        .await;
        run(&server.url(), &format!("job status {JOB}")).await.exits(0).stdout
    };
    let text = status((200, json!({"id": JOB, "status": "running", "why": "phase 0 waits for an operator"}))).await;
    assert!(
        text.contains("status     running\nwhy        phase 0 waits for an operator\ntarget     group:web\n"),
        "{text}"
    );
    let text = status(refusal(404, "NOT_FOUND", "no such path")).await;
    assert!(text.contains("status     running\ntarget     group:web\n"), "an older controller: {text}");
}

#[tokio::test]
async fn e2_all_held_jobs_are_confirmed_and_no_phase_is() {
    const OTHER: &str = "job-0c5t9v3k2m7qb";
    let list = "/api/v1/namespaces/default/jobs?status=";
    let server = Fake::start(move |_, seen| {
        let held = |id: &str, status: &str| {
            let mut doc = job(status, &[("pending", 2)], None);
            doc["id"] = json!(id);
            doc["held"] = json!("2026-02-12T10:30:00.000Z");
            doc
        };
        match seen.line.as_str() {
            line if line.starts_with(&format!("GET {list}running")) => {
                let waits = job("running", &[("pending", 2)], None);
                (200, json!({"items": [held(OTHER, "running"), waits], "next": null}))
            }
            line if line.starts_with("GET") => (200, json!({"items": [held(JOB, "pending")], "next": null})),
            line if line.contains(OTHER) => refusal(409, "CONFLICT", "it has ended"),
            _ => (200, json!({"id": JOB, "status": "pending"})),
        }
    })
    .await;
    let ran = run(&server.url(), "job confirm --all-held").await.exits(0);
    assert_eq!(ran.stdout, format!("{JOB} pending\n"));
    assert_eq!(ran.stderr, format!("{OTHER}: it has ended (CONFLICT)\n"));
    let posted: Vec<_> = server.seen().into_iter().filter(|s| s.line.starts_with("POST")).map(|s| s.body).collect();
    assert_eq!(posted, [json!({"held": true}), json!({"held": true})]);
    for line in ["job confirm", &format!("job confirm {JOB} --all-held"), "job confirm --all-held --phase 1"] {
        run(&server.url(), line).await.exits(2);
    }
}
