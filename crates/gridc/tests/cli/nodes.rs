//! `node drain` and `node remove`.

use serde_json::{Value, json};

use crate::fake::{Fake, refusal};
use crate::listing::node;
use crate::run;

fn with_leases(state: &str, leases: u32) -> Value {
    let mut doc = node("web-01", state);
    doc["leases"] = json!(leases);
    doc["drained"] = json!(state == "draining");
    doc
}

#[tokio::test]
async fn a_drain_is_asked_and_taken_back() {
    let server = Fake::start(|_, seen| match seen.line.as_str() {
        "POST /api/v1/nodes/web-01/drain" => (200, with_leases("draining", 2)),
        "POST /api/v1/nodes/web-01/undrain" => (200, with_leases("ready", 2)),
        line => panic!("{line}"),
    })
    .await;
    let ran = run(&server.url(), "node drain web-01").await.exits(0);
    assert_eq!(ran.stdout, "web-01 draining\n");
    assert_eq!(
        ran.stderr,
        "hint: 2 leases run there still; gridc node drain web-01 --wait stays until they have ended\n"
    );
    let ran = run(&server.url(), "node drain web-01 --undo").await.exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("web-01 ready\n", ""));
    assert_eq!(run(&server.url(), "node drain web-01 -o json").await.exits(0).json()["drained"], true);
}

#[tokio::test]
async fn a_drain_that_is_waited_for_ends_with_the_last_lease() {
    let server = Fake::start(|before, seen| match seen.line.as_str() {
        "POST /api/v1/nodes/web-01/drain" => (200, with_leases("draining", 2)),
        _ => (200, with_leases("draining", u32::from(before < 2))),
    })
    .await;
    let ran = run(&server.url(), "node drain web-01 --wait").await.exits(0);
    assert_eq!(ran.stdout, "web-01 draining\n");
    assert_eq!(ran.stderr, "web-01 draining: 2 leases left\nweb-01 draining: 1 lease left\n");
}

#[tokio::test]
async fn a_drain_that_takes_too_long_exits_124() {
    let server = Fake::start(|_, _| (200, with_leases("draining", 1))).await;
    let ran = run(&server.url(), "node drain web-01 --wait --wait-timeout 300ms").await.exits(124);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("error: web-01 still has 1 lease after 300ms; it stays drained\n"), "{ran:?}");
}

#[tokio::test]
async fn a_node_that_lives_is_removed_only_by_force() {
    let server = Fake::start(|_, seen| match seen.line.as_str() {
        "DELETE /api/v1/nodes/web-01" => refusal(409, "CONFLICT", "web-01 is ready: drain it first"),
        "DELETE /api/v1/nodes/web-01?force=true" => (200, json!({"id": "web-01", "status": "removed"})),
        line => panic!("{line}"),
    })
    .await;
    let ran = run(&server.url(), "node remove web-01").await.exits(5);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "error: web-01 is ready: drain it first (CONFLICT)\n"));
    let ran = run(&server.url(), "node remove web-01 --force").await.exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("web-01 removed\n", ""));
    let ran = run(&server.url(), "node remove web-01 --force -o json").await.exits(0);
    assert_eq!(ran.json(), json!({"id": "web-01", "status": "removed"}));
}
