//! What follows goes on while no controller answers, and says so once an outage.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::fake::{Fake, JOB, job, refusal};
use crate::{Ran, gridc};

/// More than are asked within the patience of several calls.
const OUTAGE: usize = 40;
const NOBODY: &str = "no controller answers; still trying (Ctrl-C to leave";

async fn impatient(server: &Fake, line: &str) -> Ran {
    crate::end(gridc(&server.url(), line).env("GRID_PATIENCE", "200ms")).await
}

/// As a balancer says that nobody is there.
fn nobody() -> (u16, Value) {
    (502, json!("bad gateway\n"))
}

/// The job is there, then nobody answers for a while, twice; then it ends as `end`.
async fn twice_away(away: fn() -> (u16, Value), end: Value) -> Fake {
    let asked = AtomicUsize::new(0);
    Fake::start(move |_, seen| match seen.line.as_str() {
        line if line.ends_with("/cancel") => (200, json!({"id": JOB, "status": "cancelled"})),
        line if line.starts_with("POST ") => (201, job("pending", &[("pending", 2)], None)),
        line if line.ends_with(JOB) => match asked.fetch_add(1, Ordering::SeqCst) {
            n if n == 0 || n == OUTAGE => (200, job("cancelled", &[("running", 2)], Some(json!({})))),
            n if n < 2 * OUTAGE => away(),
            _ => (200, end.clone()),
        },
        _ => refusal(404, "NOT_FOUND", "no such path"),
    })
    .await
}

#[tokio::test]
async fn a_wait_outlives_its_controllers_and_tells_each_outage_once() {
    let end = job("cancelled", &[("cancelled", 2)], Some(json!({})));
    let server = twice_away(nobody, end.clone()).await;
    let ran = impatient(&server, "job run -t group:web test fail --message boom --wait").await.exits(1);
    assert_eq!(ran.stderr.matches(&format!("{NOBODY}; the job goes on)\n")).count(), 2, "{ran:?}");
    let server = twice_away(|| refusal(503, "NO_QUORUM", "no majority"), end.clone()).await;
    let ran = impatient(&server, "job run -t group:web test fail --message boom --wait").await.exits(1);
    let told = "no majority (NO_QUORUM); still trying (Ctrl-C to leave; the job goes on)\n";
    assert_eq!(ran.stderr.matches(told).count(), 2, "{ran:?}");
    let server = twice_away(nobody, end).await;
    let ran = impatient(&server, &format!("job cancel {JOB} --wait")).await.exits(0);
    assert!(ran.stderr.contains(&format!("{NOBODY}; the job is cancelled)\n")), "{ran:?}");
}

#[tokio::test]
async fn a_wait_without_a_controller_ends_at_its_time_out() {
    let server = Fake::start(|_, seen| match seen.line.as_str() {
        line if line.starts_with("POST ") => (201, job("pending", &[("pending", 2)], None)),
        _ => nobody(),
    })
    .await;
    let line = "job run -t group:web test fail --message boom --wait --wait-timeout 2s";
    let ran = impatient(&server, line).await.exits(124);
    assert!(ran.stderr.contains(&format!("error: {JOB} has not ended after 2s\n")), "{ran:?}");
    assert_eq!(ran.stderr.matches(NOBODY).count(), 1, "{ran:?}");
}

#[tokio::test]
async fn followed_logs_outlive_their_controllers() {
    let text = json!({"kind": "output", "step": 0, "node": "web-01", "epoch": 1, "attempt": 1, "run": 1, "offset": 0,
                      "next": 6, "text": "hello\n"});
    let server = Fake::start(move |before, seen| match seen.line.as_str() {
        line if line.starts_with("GET ") && line.ends_with(JOB) => (200, job("running", &[("running", 2)], None)),
        line if line.starts_with("GET ") && line.contains("/logs?") && before < OUTAGE => nobody(),
        line if line.starts_with("GET ") && line.contains("/logs?") => (200, json!(format!("{text}\n"))),
        // It goes on behind what it has.
        line if line.starts_with("POST ") && line.contains("/logs?") && before < OUTAGE => nobody(),
        line if line.contains("/logs?") => (200, json!("{\"kind\":\"end\",\"status\":\"completed\"}\n")),
        _ => refusal(404, "NOT_FOUND", "no such path"),
    })
    .await;
    let ran = impatient(&server, &format!("job logs {JOB} -f")).await.exits(0);
    assert!(ran.stdout.contains("hello\n"), "{ran:?}");
    assert_eq!(ran.stderr.matches(&format!("{NOBODY}; the job goes on)\n")).count(), 2, "{ran:?}");
}

#[tokio::test]
async fn followed_events_outlive_their_controllers() {
    let event = |id: u64| {
        let doc = json!({"id": id, "at": "2026-02-12T10:30:00.000Z", "kind": "NodeDead", "subject": format!("web-0{id}"),
                         "text": "", "leader_epoch": 1});
        json!(format!("data: {doc}\n\n"))
    };
    let server = Fake::start(move |before, seen| match seen.line.as_str() {
        line if line.contains("limit=1") => (200, json!({"items": [], "next": null})),
        line if line.ends_with("after=0") => (200, event(1)),
        line if line.ends_with("after=1") && before < OUTAGE => nobody(),
        line if line.ends_with("after=1") => (200, event(2)),
        _ => refusal(404, "NOT_FOUND", "no such path"),
    })
    .await;
    let ran = impatient(&server, "events -f").await.exits(4);
    assert!(ran.stdout.contains("web-01") && ran.stdout.contains("web-02"), "{ran:?}");
    assert_eq!(ran.stderr.matches(&format!("{NOBODY})\n")).count(), 1, "{ran:?}");
}

#[tokio::test]
async fn a_drain_that_waits_outlives_its_controllers() {
    let node = |leases: u32| {
        json!({
            "id": "web-01", "hostname": "h", "address": "a", "groups": [], "labels": {}, "backends": {},
            "os": "linux", "arch": "x86_64",
            "capacity": {"cpu_milli": 1, "memory_bytes": 1, "disk_bytes": 1, "slots": 1}, "version": "0.1.0",
            "status": "ready", "state": "draining", "ordinal": 1, "session": 1, "leases": leases,
            "last_seen": "", "registered_at": "", "leader_epoch": 1,
        })
    };
    let server = Fake::start(move |before, seen| match seen.line.as_str() {
        line if line.starts_with("POST ") => (200, node(1)),
        _ if before < OUTAGE => nobody(),
        _ => (200, node(0)),
    })
    .await;
    let ran = impatient(&server, "node drain web-01 --wait").await.exits(0);
    assert_eq!(ran.stderr.matches(&format!("{NOBODY}; web-01 stays drained)\n")).count(), 1, "{ran:?}");
    let ran = impatient(&server, "node info web-01").await.exits(0);
    assert!(!ran.stderr.contains("still trying"), "{ran:?}");
}

#[tokio::test]
async fn nobody_at_the_beginning_exits_3() {
    let server = Fake::start(|_, _| nobody()).await;
    for line in [
        "job run -t group:web test fail --message boom --wait".to_owned(),
        format!("job logs {JOB} -f"),
        "events -f".to_owned(),
        "node drain web-01 --wait".to_owned(),
    ] {
        let ran = impatient(&server, &line).await.exits(3);
        assert!(ran.stderr.starts_with("error: no controller reachable for "), "{ran:?}");
        assert!(!ran.stderr.contains("still trying"), "{ran:?}");
    }
}
