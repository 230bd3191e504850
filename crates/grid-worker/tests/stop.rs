//! Revokes, timeouts and the worker's own end: nothing of a lease survives it.

mod support;

use std::path::Path;

use grid_proto::v1;
use support::worker::{TestWorker, config};
use support::{LIMIT, Task, TestLeader};

/// Living processes of leases of the worker in `dir`, by its journal's mark.
fn processes_of(dir: &Path) -> Vec<u32> {
    let identity = std::fs::read_to_string(dir.join("data/identity")).unwrap();
    let mark = identity.split('"').nth(7).unwrap().to_owned();
    assert_eq!(mark.len(), 32, "{identity}");
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    all.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let zombie = stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'));
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        !zombie && String::from_utf8_lossy(&environ).contains(&format!("GRID_LEASE={mark}"))
    })
    .collect()
}

async fn until_processes(dir: &Path, count: usize) {
    let deadline = tokio::time::Instant::now() + LIMIT;
    while processes_of(dir).len() < count {
        assert!(tokio::time::Instant::now() < deadline, "the processes do not start");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w9_a_revoke_ends_children_and_grandchildren_that_ignore_sigterm() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let tree = Task::new(1, "tree").duration("duration", 600_000);
    leader.offer(&tree);
    until_processes(dir.path(), 3).await;
    leader.revoke(tree.lease);
    let done = leader.revoke_done(tree.lease).await;
    assert_eq!(processes_of(dir.path()), [] as [u32; 0], "confirmed while something runs");
    assert_eq!(done.ended(), v1::LeaseStatus::Cancelled);
    assert!(done.duration_ms >= 5_000, "SIGKILL comes after 5 s: {done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn w9_a_revoked_lease_is_confirmed_once_and_has_no_result_of_its_own() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let sleep = Task::new(1, "sleep").duration("duration", 600_000);
    leader.offer(&sleep);
    until_processes(dir.path(), 1).await;
    leader.revoke(sleep.lease);
    let done = leader.revoke_done(sleep.lease).await;
    assert_eq!(done.ended(), v1::LeaseStatus::Cancelled);
    assert_eq!(processes_of(dir.path()), [] as [u32; 0]);
    leader.heartbeats(2).await;
    assert_eq!(leader.results_of(sleep.lease), 0);
    assert_eq!(leader.seen().revokes_done.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn w9_an_action_inside_the_worker_is_dropped() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let sleep = Task::new(1, "ping/sleep").duration("duration", 600_000);
    leader.offer(&sleep);
    leader.until("acceptance", |seen| seen.accepted.contains(&sleep.lease).then_some(())).await;
    leader.revoke(sleep.lease);
    assert_eq!(leader.revoke_done(sleep.lease).await.ended(), v1::LeaseStatus::Cancelled);
    let next = Task::new(1, "ping/echo").step(1);
    leader.offer(&next);
    leader.result(next.lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w6_a_timeout_ends_the_whole_tree_and_says_so() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let tree = Task::new(1, "tree").duration("duration", 600_000).timeout(1_000);
    let inside = Task::new(2, "ping/sleep").duration("duration", 600_000).timeout(50);
    leader.offer(&tree);
    leader.offer(&inside);
    let result = leader.result(inside.lease).await;
    assert_eq!((result.status(), result.error.as_str()), (v1::LeaseStatus::TimedOut, "timed out after 50ms"));
    assert!(result.duration_ms >= 50);
    let result = leader.result(tree.lease).await;
    assert_eq!((result.status(), result.error.as_str()), (v1::LeaseStatus::TimedOut, "timed out after 1s"));
    assert_eq!(processes_of(dir.path()), [] as [u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_finishes_what_it_holds_and_leaves() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let worker = TestWorker::start(&leader, dir.path()).await;
    let sleep = Task::new(1, "sleep").duration("duration", 600_000);
    leader.offer(&sleep);
    until_processes(dir.path(), 1).await;
    worker.handle.signal();
    leader.until("the drain", |seen| (seen.drained == 1).then_some(())).await;
    leader.heartbeats(1).await;
    let late = Task::new(2, "ping/echo");
    leader.offer(&late);
    leader.heartbeats(2).await;
    assert!(worker.is_running(), "it still holds a lease");
    for pid in processes_of(dir.path()) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
    worker.end().await.unwrap();
    assert_eq!(leader.result(sleep.lease).await.error, "sleep: killed by signal 15");
    assert_eq!(leader.results_of(late.lease), 0);
    assert_eq!(leader.seen().left, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_waits_until_its_results_are_answered() {
    let leader = TestLeader::start().await;
    leader.seen().answer = None;
    let dir = tempfile::tempdir().unwrap();
    let worker = TestWorker::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo");
    leader.offer(&echo);
    leader.result(echo.lease).await;
    worker.handle.signal();
    leader.until("the drain", |seen| (seen.drained == 1).then_some(())).await;
    leader.heartbeats(3).await;
    assert!(worker.is_running() && leader.seen().left == 0);
    leader.answer(echo.lease, v1::AnswerKind::Committed);
    worker.end().await.unwrap();
    assert_eq!(leader.seen().left, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_what_runs_reports_it_and_leaves() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let worker = TestWorker::start(&leader, dir.path()).await;
    let sleep = Task::new(1, "sleep").duration("duration", 600_000);
    let path = dir.path().join("lines");
    let once = Task::new(2, "record").text("path", path.to_str().unwrap()).duration("delay", 600_000);
    leader.offer(&sleep);
    leader.offer(&once);
    until_processes(dir.path(), 1).await;
    leader.until("acceptance", |seen| (seen.accepted.len() == 2).then_some(())).await;
    leader.until("the line", |_| path.exists().then_some(())).await;
    worker.handle.signal();
    worker.handle.signal();
    worker.end().await.unwrap();
    assert_eq!(leader.result(sleep.lease).await.status(), v1::LeaseStatus::Failed);
    let unknown = leader.result(once.lease).await;
    assert_eq!((unknown.status(), unknown.error.contains("stopped")), (v1::LeaseStatus::Unknown, true));
    assert_eq!(leader.seen().left, 1);
    assert_eq!(processes_of(dir.path()), [] as [u32; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_never_found_a_leader_ends_when_it_is_told() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let mut lonely = config(&leader, dir.path());
    lonely.servers = vec!["http://127.0.0.1:1".to_owned()];
    let worker = TestWorker::spawn(lonely);
    worker.handle.signal();
    worker.end().await.unwrap();
}
