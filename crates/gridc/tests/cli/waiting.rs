//! `--wait`: plain lines as stderr is no terminal here, the end on stdout, and how waiting can stop early.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::fake::{Fake, JOB, boom, job, job_line};
use crate::{LIMIT, gridc, run};

const RUN: &str = "job run -t group:web test fail --message boom --wait";

fn success() -> Value {
    json!({"status": "success", "duration": "0.1s", "attempts": 1})
}

#[tokio::test]
async fn a_job_that_completes_exits_0() {
    let server = Fake::job(vec![
        job("pending", &[("pending", 2)], Some(json!({}))),
        job("running", &[("running", 2)], Some(json!({}))),
        job("completed", &[("success", 2)], Some(json!({"0": {"web-01": success(), "web-02": success()}}))),
    ])
    .await;
    let ran = run(&server.url(), RUN).await.exits(0);
    assert_eq!(ran.stdout, format!("{JOB} completed\n"));
    assert_eq!(
        ran.stderr,
        format!(
            "{JOB} submitted\n\
             {JOB} pending\n\
             {JOB} running on 2 nodes\n\
             step 0 test/fail: 0/2 done: 2 running\n\
             step 0 test/fail: 2/2 done: 2 success\n\
             {JOB} completed\n  \
             1 step on 2 nodes: 2 success\n"
        )
    );
}

#[tokio::test]
async fn a_job_that_fails_exits_1_and_failures_are_told_as_they_happen() {
    let mut end =
        job("failed", &[("success", 1), ("failed", 1)], Some(json!({"0": {"web-01": success(), "web-02": boom()}})));
    end["reason"] = json!("1 of 2 nodes failed");
    let server =
        Fake::job(vec![job("running", &[("running", 1), ("failed", 1)], Some(json!({"0": {"web-02": boom()}}))), end])
            .await;
    let ran = run(&server.url(), RUN).await.exits(1);
    assert_eq!(ran.stdout, format!("{JOB} failed\n"));
    assert_eq!(
        ran.stderr,
        format!(
            "{JOB} submitted\n\
             web-02 step 0 test/fail: failed: boom (attempt 1)\n\
             {JOB} running on 2 nodes\n\
             step 0 test/fail: 1/2 done: 1 failed, 1 running\n\
             step 0 test/fail: 2/2 done: 1 success, 1 failed\n\
             {JOB} failed: 1 of 2 nodes failed\n  \
             1 step on 2 nodes: 1 success, 1 failed\n  \
             step 0 test/fail failed on web-02: boom\n\
             hint: gridc job status {JOB} shows what happened on each node\n\
             hint: gridc job resume {JOB} runs what is missing\n"
        )
    );
}

#[tokio::test]
async fn a_cancelled_job_exits_1_and_the_wait_lasts_until_nothing_runs() {
    let server = Fake::job(vec![
        job("cancelled", &[("running", 2)], Some(json!({}))),
        job("cancelled", &[("running", 1), ("cancelled", 1)], Some(json!({}))),
        job("cancelled", &[("cancelled", 2)], Some(json!({}))),
    ])
    .await;
    let ran = run(&server.url(), &format!("{RUN} -o json")).await.exits(1);
    assert_eq!(ran.json()["counts"]["cancelled"], 2);
}

/// A job that is cancelled, and then shown as each of `docs` in turn.
async fn cancelled(docs: Vec<Value>) -> Fake {
    Fake::start(move |before, seen| match seen.line.as_str() {
        line if line.ends_with("/cancel") => (200, json!({"id": JOB, "status": "cancelled"})),
        line if line.ends_with("/why") => {
            let why = "cancelled; waits for web-02 to confirm that nothing runs";
            (200, json!({"id": JOB, "status": "cancelled", "why": why}))
        }
        line if line == job_line() => (200, docs[before.min(docs.len() - 1)].clone()),
        line if line.contains("/results?") => {
            (200, json!({"items": [{"step": 0, "node": "web-02", "status": "running", "attempts": 1}], "next": null}))
        }
        _ => crate::fake::refusal(404, "NOT_FOUND", "no such path"),
    })
    .await
}

fn one_runs(results: bool) -> Value {
    let rows = json!({"0": {"web-01": {"status": "cancelled", "attempts": 1}, "web-02": {"status": "running", "attempts": 1}}});
    job("cancelled", &[("running", 1), ("cancelled", 1)], results.then_some(rows))
}

#[tokio::test]
async fn a_cancel_that_waits_stays_until_nothing_runs_however_long_that_takes() {
    // Looks come a second apart at most: these last longer than any other wait settles for.
    let mut docs = vec![one_runs(true); 28];
    docs.push(job("cancelled", &[("cancelled", 2)], Some(json!({}))));
    let server = cancelled(docs).await;
    let ran = run(&server.url(), &format!("job cancel {JOB} --wait -o json")).await.exits(0);
    assert_eq!(ran.json()["counts"]["running"], 0, "{ran:?}");
    let why = "waiting: cancelled; waits for web-02 to confirm that nothing runs\n";
    assert_eq!(ran.stderr.matches(why).count(), 1, "{ran:?}");
}

#[tokio::test]
async fn a_cancel_whose_wait_times_out_exits_124_and_names_what_still_runs() {
    let server = cancelled(vec![one_runs(true)]).await;
    let ran = run(&server.url(), &format!("job cancel {JOB} --wait --wait-timeout 300ms")).await.exits(124);
    let told = format!("error: {JOB} is cancelled, but still runs on web-02 after 300ms\n");
    assert!(ran.stdout.is_empty() && ran.stderr.contains(&told), "{ran:?}");
    let server = cancelled(vec![one_runs(false)]).await;
    let ran = run(&server.url(), &format!("job cancel {JOB} --wait --wait-timeout 300ms -o json")).await.exits(124);
    let told = format!("error: {JOB} is cancelled, but 1 step of it still runs after 300ms\n");
    assert!(ran.json()["counts"]["running"] == 1 && ran.stderr.contains(&told), "{ran:?}");
}

#[tokio::test]
async fn after_a_cancel_nobody_is_told_to_cancel() {
    let server = cancelled(vec![one_runs(true)]).await;
    let ran = run(&server.url(), &format!("job cancel {JOB} --wait --wait-timeout 100ms")).await.exits(124);
    assert!(ran.stderr.ends_with(&format!("hint: gridc job why {JOB} says what it waits for\n")), "{ran:?}");
    assert!(!ran.stderr.contains("stop it") && !ran.stderr.contains("job cancel"), "{ran:?}");
}

#[tokio::test]
async fn a_job_that_stands_still_says_why_once_for_each_reason() {
    // How often it was asked why decides how the job stands: no clock has a say in this test.
    let asked = AtomicUsize::new(0);
    let server = Fake::start(move |_, seen| match seen.line.as_str() {
        line if line.starts_with("POST ") => (201, job("pending", &[("pending", 2)], None)),
        line if line.ends_with("/why") => {
            let words = match asked.fetch_add(1, Ordering::SeqCst) {
                0..2 => format!("phase 0 is waiting for confirmation: gridc job confirm {JOB}"),
                n => format!("step 0 waits for web-02, unhealthy for {n}s"),
            };
            (200, json!({"id": JOB, "status": "running", "why": words}))
        }
        _ if asked.load(Ordering::SeqCst) < 4 => (200, job("running", &[("pending", 2)], Some(json!({})))),
        _ => (200, job("completed", &[("success", 2)], Some(json!({})))),
    })
    .await;
    let ran = run(&server.url(), RUN).await.exits(0);
    assert_eq!(
        ran.stderr,
        format!(
            "{JOB} submitted\n\
             {JOB} running on 2 nodes\n\
             waiting: phase 0 is waiting for confirmation: gridc job confirm {JOB}\n\
             waiting: step 0 waits for web-02, unhealthy for 2s\n\
             step 0 test/fail: 2/2 done: 2 success\n\
             {JOB} completed\n  \
             1 step on 2 nodes: 2 success\n"
        )
    );
}

#[tokio::test]
async fn an_unknown_outcome_at_the_end_names_the_way_to_be_asked() {
    let lost = json!({"status": "unknown", "attempts": 1, "reason": "the worker died"});
    let end =
        job("failed", &[("success", 1), ("unknown", 1)], Some(json!({"0": {"web-01": success(), "web-02": lost}})));
    let server = Fake::job(vec![end]).await;
    let ran = run(&server.url(), RUN).await.exits(1);
    let hint = "hint: unknown counts as failed; with on_unknown: wait a job asks first (gridc job resolve)\n";
    assert!(ran.stderr.contains(hint), "{ran:?}");
}

#[tokio::test]
async fn the_final_document_is_the_only_thing_on_stdout() {
    let end = job("completed", &[("success", 2)], Some(json!({"0": {"web-01": success(), "web-02": success()}})));
    let server = Fake::job(vec![job("running", &[("running", 2)], Some(json!({}))), end.clone()]).await;
    assert_eq!(run(&server.url(), &format!("{RUN} -o json")).await.exits(0).json(), end);
    let ran = run(&server.url(), &format!("{RUN} -o yaml")).await.exits(0);
    assert!(ran.stdout.starts_with(&format!("id: {JOB}\n")) && ran.stdout.contains("status: completed\n"), "{ran:?}");
}

#[tokio::test]
async fn a_wait_that_times_out_exits_124_and_leaves_the_job_alone() {
    let server = Fake::job(vec![job("running", &[("running", 2)], Some(json!({})))]).await;
    let ran = run(&server.url(), &format!("{RUN} --wait-timeout 300ms")).await.exits(124);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains(&format!("error: {JOB} has not ended after 300ms\n")), "{ran:?}");
    assert!(ran.stderr.contains(&format!("gridc job cancel {JOB}\n")), "{ran:?}");
    assert!(server.seen().iter().all(|s| !s.line.contains("cancel")));
    let ran = run(&server.url(), &format!("{RUN} --wait-timeout 300ms -o json")).await.exits(124);
    assert_eq!(ran.json()["status"], "running");
}

#[tokio::test]
async fn failures_of_a_large_job_are_paged_and_counted() {
    let rows = |status: &str| -> Value {
        let rows = (0..100).map(|n| json!({"step": 0, "node": format!("n-{n:03}"), "status": status, "attempts": 1}));
        json!({"items": rows.collect::<Vec<_>>(), "next": "0:n-099"})
    };
    let results = format!("{}/results?", job_line());
    let server = Fake::start(move |before, seen| match seen.line.as_str() {
        line if line.starts_with("POST ") => (201, job("pending", &[("pending", 5_000)], None)),
        line if line.starts_with(&results) && line.contains("status=failed") => (200, rows("failed")),
        line if line.starts_with(&results) => (200, json!({"items": [], "next": null})),
        _ if before == 0 => (200, job("running", &[("running", 4_000), ("failed", 1_000)], None)),
        _ => (200, job("failed", &[("success", 2_000), ("failed", 3_000)], None)),
    })
    .await;
    let ran = run(&server.url(), RUN).await.exits(1);
    let told = ran.stderr.lines().filter(|l| l.contains("test/fail: failed (attempt 1)")).count();
    assert_eq!(told, 50, "{ran:?}");
    assert_eq!(ran.stderr.matches("further failures are only counted").count(), 1, "{ran:?}");
    let named = "step 0 test/fail failed on 100 nodes\n    n-000, n-001, n-002, n-003, n-004, n-005, n-006, n-007, n-008 and 91 more\n  \
                 and 2900 more; gridc job get";
    assert!(ran.stderr.contains(named), "{ran:?}");
}

#[tokio::test]
async fn ctrl_c_leaves_the_job_alone_and_says_how_to_stop_it() {
    let server = Fake::job(vec![job("running", &[("running", 2)], Some(json!({})))]).await;
    let mut child = gridc(&server.url(), RUN).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut stderr = Vec::new();
    let told = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            // The view shows something: the wait, and with it the handler, is there.
            if line.contains("running on") {
                let pid = child.id().unwrap().to_string();
                let kill = std::process::Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status().unwrap();
                assert!(kill.success());
            }
            stderr.push(line);
        }
        child.wait().await.unwrap().code()
    };
    let code = tokio::time::timeout(LIMIT, told).await.expect("gridc hangs");
    assert_eq!(code, Some(130), "{stderr:?}");
    let text = stderr.join("\n");
    assert!(text.contains(&format!("interrupted; {JOB} goes on")), "{text}");
    assert!(text.contains(&format!("hint: watch it again:   gridc job watch {JOB}")), "{text}");
    assert!(text.contains(&format!("gridc job cancel {JOB}")), "{text}");
    assert!(server.seen().iter().all(|s| !s.line.contains("cancel")));
}

#[tokio::test]
async fn a_wait_for_a_job_that_is_there_shows_and_exits_like_a_run_that_waits() {
    let docs = || {
        vec![
            job("running", &[("running", 1), ("failed", 1)], Some(json!({"0": {"web-02": boom()}}))),
            job(
                "failed",
                &[("success", 1), ("failed", 1)],
                Some(json!({"0": {"web-01": success(), "web-02": boom()}})),
            ),
        ]
    };
    // The first document of a wait is only the one that a timeout would print.
    let mut twice = docs();
    twice.insert(0, twice[0].clone());
    let ran = run(&Fake::job(docs()).await.url(), RUN).await.exits(1);
    let (submitted, shown) = ran.stderr.split_once('\n').unwrap();
    assert_eq!(submitted, format!("{JOB} submitted"));
    for verb in ["wait", "watch"] {
        let again = run(&Fake::job(twice.clone()).await.url(), &format!("job {verb} {JOB}")).await.exits(1);
        assert_eq!((again.stdout.as_str(), again.stderr.as_str()), (ran.stdout.as_str(), shown), "{verb}");
    }
    let ran = run(&Fake::job(twice).await.url(), &format!("job wait {JOB} -o json")).await.exits(1);
    assert_eq!(ran.json(), docs()[1]);
}

#[tokio::test]
async fn a_wait_for_an_ended_job_ends_at_once_and_one_for_no_job_is_not_found() {
    let server = Fake::job(vec![job("completed", &[("success", 2)], Some(json!({})))]).await;
    assert_eq!(run(&server.url(), &format!("job wait {JOB}")).await.exits(0).stdout, format!("{JOB} completed\n"));
    let none = Fake::start(|_, _| crate::fake::refusal(404, "NOT_FOUND", "no such job")).await;
    run(&none.url(), &format!("job wait {JOB}")).await.exits(4);
    run(&none.url(), "job watch nope").await.exits(4);
    let runs = Fake::job(vec![job("running", &[("running", 2)], Some(json!({})))]).await;
    let ran = run(&runs.url(), &format!("job wait {JOB} --wait-timeout 100ms -o json")).await.exits(124);
    assert_eq!(ran.json()["status"], "running");
}

#[tokio::test]
async fn a_wait_may_count_skipped_nodes_as_failures() {
    let mut end = job("completed", &[("success", 1), ("skipped", 1)], Some(json!({})));
    end["skipped_offline"] = json!(1);
    let server = Fake::job(vec![end]).await;
    run(&server.url(), &format!("job wait {JOB}")).await.exits(0);
    run(&server.url(), &format!("job wait {JOB} --fail-on-skipped")).await.exits(1);
}

#[tokio::test]
async fn issue13_a_step_that_never_began_has_no_attempt() {
    let away = json!({"status": "failed", "attempts": 0, "reason": "web-02 is offline (dead)"});
    let results = json!({"0": {"web-01": {"status": "success", "attempts": 1}, "web-02": away}});
    let server = Fake::job(vec![job("failed", &[("success", 1), ("failed", 1)], Some(results))]).await;
    let ran = run(&server.url(), "job run -t group:web test fail --message boom --wait").await.exits(1);
    assert!(ran.stderr.contains("web-02 step 0 test/fail: failed: web-02 is offline (dead)\n"), "{ran:?}");
}
