//! A worker that is killed with `kill -9` and starts again on the same folder.

mod support;

use grid_proto::v1;
use support::worker::{TestWorker, WorkerProcess, config};
use support::{Task, TestLeader, of};

#[tokio::test(flavor = "multi_thread")]
async fn w3_a_once_step_cut_off_is_unknown_and_never_runs_again() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    let worker = WorkerProcess::start(&leader, dir.path()).await;
    let record = Task::new(1, "record").text("path", path.to_str().unwrap()).duration("delay", 600_000);
    leader.offer(&record);
    leader.until("the line", |_| std::fs::read(&path).is_ok_and(|bytes| !bytes.is_empty()).then_some(())).await;
    worker.kill9();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let result = leader.result(record.lease).await;
    assert_eq!((result.status(), result.error.as_str()), (v1::LeaseStatus::Unknown, "worker restarted while it ran"));
    leader.offer(&record);
    leader.heartbeats(3).await;
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1);
    let registrations = leader.seen().registrations.clone();
    assert_eq!((registrations[0].boot, registrations[1].boot), (1, 2));
    assert_eq!(registrations[0].journal_id, registrations[1].journal_id);
    assert_ne!(registrations[0].nonce, registrations[1].nonce);
    assert_eq!(registrations[1].cluster_id, "cluster", "E3: learned at the first registration");
}

#[tokio::test(flavor = "multi_thread")]
async fn w3_a_result_nobody_answered_is_reported_after_the_restart() {
    let leader = TestLeader::start().await;
    leader.seen().answer = None;
    let dir = tempfile::tempdir().unwrap();
    let worker = WorkerProcess::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo").text("message", "kept");
    leader.offer(&echo);
    leader.result(echo.lease).await;
    worker.kill9();
    leader.seen().results.clear();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let result = leader.result(echo.lease).await;
    assert_eq!((result.status(), result.output_tail.as_slice()), (v1::LeaseStatus::Success, &b"kept\n"[..]));
    let outstanding = leader.seen().firsts[1].outstanding.clone().unwrap();
    assert!(of(outstanding.leases.first().copied(), echo.lease));
}

#[tokio::test(flavor = "multi_thread")]
async fn w3_an_idempotent_step_cut_off_runs_again_and_its_old_processes_are_gone() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let worker = WorkerProcess::start(&leader, dir.path()).await;
    // The duration tells this test's processes from any other.
    let duration_ms = 900_000_000 + u64::from(std::process::id());
    let seconds = format!("{}.{:03}", duration_ms / 1000, duration_ms % 1000);
    let tree = Task::new(1, "tree").duration("duration", duration_ms);
    let _guard = KillSleepers(seconds.clone());
    leader.offer(&tree);
    let sleeping = || sleepers(&seconds).len();
    leader.until("the tree", |_| (sleeping() >= 2).then_some(())).await;
    worker.kill9();
    assert!(sleeping() >= 2, "they lost their parent and live on");
    let worker = TestWorker::start(&leader, dir.path()).await;
    assert_eq!(sleeping(), 0, "gone before the worker is back");
    assert_eq!(
        leader.seen().firsts[1].outstanding.as_ref().unwrap().leases,
        [],
        "not outstanding: the leader offers it again"
    );
    leader.offer(&tree);
    leader.until("the tree again", |_| (sleeping() >= 2).then_some(())).await;
    leader.revoke(tree.lease);
    leader.revoke_done(tree.lease).await;
    assert_eq!(sleeping(), 0);
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_a_revoke_survives_a_kill() {
    let leader = TestLeader::start().await;
    leader.seen().answer = None;
    let dir = tempfile::tempdir().unwrap();
    let worker = WorkerProcess::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo");
    leader.revoke(echo.lease);
    leader.revoke_done(echo.lease).await;
    worker.kill9();
    leader.seen().revokes_done.clear();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    leader.revoke_done(echo.lease).await;
    leader.offer(&echo);
    leader.heartbeats(3).await;
    assert_eq!(leader.results_of(echo.lease), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn w3_killed_again_and_again_no_record_is_written_twice() {
    const KILLS: u64 = 25;
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    let task = |job| Task::new(job, "record").text("path", path.to_str().unwrap()).duration("delay", job % 40);
    let jobs = 1..=KILLS * 8;
    let open_jobs = |leader: &TestLeader| {
        let seen = leader.seen();
        let done: Vec<u64> = seen.results.iter().map(|result| result.lease.unwrap().job_id).collect();
        jobs.clone().filter(|job| !done.contains(job)).collect::<Vec<_>>()
    };
    for kill in 0..KILLS {
        let worker = WorkerProcess::start(&leader, dir.path()).await;
        let offered: Vec<u64> = open_jobs(&leader).into_iter().take(16).collect();
        for job in &offered {
            leader.offer(&task(*job));
        }
        // After another number of results each time: the others are anywhere on their way then.
        let left = offered.len().saturating_sub(usize::try_from(kill % 12).unwrap());
        while open_jobs(&leader).iter().filter(|job| offered.contains(job)).count() > left {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        worker.kill9();
    }
    let _worker = TestWorker::start(&leader, dir.path()).await;
    while let open @ [_, ..] = open_jobs(&leader).as_slice() {
        for job in open.iter().take(8) {
            leader.offer(&task(*job));
        }
        leader.result(task(open[0]).lease).await;
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let results = leader.seen().results.clone();
    for job in jobs {
        let prefix = format!("{} ", task(job).lease.job);
        let lines = text.lines().filter(|line| line.starts_with(&prefix)).count();
        let result = results.iter().find(|result| of(result.lease, task(job).lease)).unwrap();
        match result.status() {
            v1::LeaseStatus::Success => assert_eq!(lines, 1, "{prefix}"),
            v1::LeaseStatus::Unknown => assert!(lines <= 1, "{prefix}: {lines} lines"),
            other => panic!("{prefix}{other:?}: {}", result.error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w1_a_reset_journal_gets_a_new_id_and_forgets_everything() {
    let leader = TestLeader::start().await;
    leader.seen().answer = None;
    let dir = tempfile::tempdir().unwrap();
    let worker = WorkerProcess::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo");
    leader.offer(&echo);
    leader.result(echo.lease).await;
    worker.kill9();
    let mut reset = config(&leader, dir.path());
    reset.reset_journal = true;
    let _worker = TestWorker::start_with(&leader, reset).await;
    let seen = leader.seen();
    assert_ne!(seen.registrations[0].journal_id, seen.registrations[1].journal_id);
    assert_eq!(seen.firsts[1].outstanding.as_ref().unwrap().leases, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn w1_a_damaged_journal_gets_a_new_id_and_what_it_started_is_ended() {
    type Apply = fn(&mut Vec<u8>);
    let duration_ms = 800_000_000 + u64::from(std::process::id());
    let seconds = format!("{}.{:03}", duration_ms / 1000, duration_ms % 1000);
    let _guard = KillSleepers(seconds.clone());
    let damages: [(&str, Apply); 4] = [
        ("emptied", Vec::clear),
        ("cut", |bytes| bytes.truncate(bytes.len() - 1)),
        ("changed near its end", |bytes| *bytes.iter_mut().nth_back(4).unwrap() ^= 1),
        ("replaced", |bytes| *bytes = b"damaged beyond repair".to_vec()),
    ];
    for (damage, apply) in damages {
        let leader = TestLeader::start().await;
        let dir = tempfile::tempdir().unwrap();
        let worker = WorkerProcess::start(&leader, dir.path()).await;
        let path = dir.path().join("lines");
        let record = Task::new(1, "record").text("path", path.to_str().unwrap()).duration("delay", 600_000);
        let sleep = Task::new(2, "sleep").duration("duration", duration_ms);
        leader.offer(&sleep);
        leader.until("the process", |_| (sleepers(&seconds).len() == 1).then_some(())).await;
        leader.offer(&record);
        leader.until("the line", |_| std::fs::read(&path).is_ok_and(|bytes| !bytes.is_empty()).then_some(())).await;
        worker.kill9();
        let journal = dir.path().join("data/journal");
        let mut bytes = std::fs::read(&journal).unwrap();
        apply(&mut bytes);
        std::fs::write(&journal, bytes).unwrap();
        let _worker = TestWorker::start(&leader, dir.path()).await;
        let seen = leader.seen();
        assert_ne!(seen.registrations[0].journal_id, seen.registrations[1].journal_id, "{damage}");
        assert_eq!(seen.registrations[1].boot, 2, "{damage}");
        assert_eq!(seen.firsts[1].outstanding.as_ref().unwrap().leases, [], "{damage}");
        if damage.contains("cut") || damage.contains("near") {
            assert_eq!(sleepers(&seconds), [] as [u32; 0], "{damage}: what can be read serves to end what it started");
        }
        drop(KillSleepers(seconds.clone()));
    }
}

/// A failed test leaves nothing behind.
struct KillSleepers(String);

impl Drop for KillSleepers {
    fn drop(&mut self) {
        for pid in sleepers(&self.0) {
            if let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Processes that are told to sleep that long.
fn sleepers(seconds: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    all.filter(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|argument| argument == seconds.as_bytes())
    })
    .collect()
}
