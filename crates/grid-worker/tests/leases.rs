//! Leases against a real gRPC server: run, report, answer, revoke.

mod support;

use grid_proto::v1;
use grid_types::{JobEpoch, LeaseKey};
use support::worker::TestWorker;
use support::{Task, TestLeader, of};

#[tokio::test(flavor = "multi_thread")]
async fn w1_a_worker_registers_with_what_it_is() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let request = leader.seen().registrations[0].clone();
    assert_eq!((request.node_id.as_str(), request.boot, request.cluster_id.as_str()), ("web-01", 1, ""));
    assert_eq!((request.journal_id.len(), request.nonce.len()), (16, 16));
    let facts = request.facts.unwrap();
    assert_eq!(facts.address, "127.0.0.1");
    let backends: Vec<_> = facts.backends.iter().map(|backend| backend.name.as_str()).collect();
    assert_eq!(backends, ["ping", "test"]);
    let capacity = facts.capacity.unwrap();
    assert!(capacity.cpu_milli >= 1000 && capacity.memory_bytes > 0 && capacity.disk_bytes > 0, "{capacity:?}");
    assert_eq!(capacity.slots, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_an_offer_is_accepted_run_and_reported() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo").text("message", "hello");
    leader.offer(&echo);
    let result = leader.result(echo.lease).await;
    assert_eq!(result.status(), v1::LeaseStatus::Success);
    assert_eq!((result.output_tail.as_slice(), result.output_bytes), (&b"hello\n"[..], 6));
    assert!(result.started_at_ms > 1_700_000_000_000);
    assert_eq!(leader.seen().accepted, [echo.lease]);
    let fail = Task::new(2, "fail").text("message", "no space left");
    leader.offer(&fail);
    let result = leader.result(fail.lease).await;
    assert_eq!((result.status(), result.error.as_str()), (v1::LeaseStatus::Failed, "no space left"));
    let unknown = Task::new(3, "apt/install");
    leader.offer(&unknown);
    assert!(leader.result(unknown.lease).await.error.contains("--enable-backend apt"));
}
