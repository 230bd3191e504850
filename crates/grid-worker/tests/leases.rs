//! Leases against a real gRPC server: run, report, answer, revoke.

mod support;

use std::path::Path;

use grid_proto::v1;
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

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_the_declaration_is_refused_by_the_worker_too() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    for (number, task) in [
        Task::new(1, "ping/echo").text("mesage", "hello"),
        Task::new(2, "record"),
        Task::new(3, "record").text("path", "/tmp/a\0b"),
        Task::new(4, "flaky").text("rate", "50"),
    ]
    .into_iter()
    .enumerate()
    {
        leader.offer(&task);
        let result = leader.result(task.lease).await;
        assert_eq!(result.status(), v1::LeaseStatus::Failed, "{number}");
        assert!(result.error.starts_with("refused by this worker: "), "{number}: {}", result.error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_of_test_does_what_it_says() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let succeed = Task::new(1, "succeed").text("message", "fine").duration("delay", 20);
    let sleep = Task::new(2, "sleep").duration("duration", 30);
    let always = Task::new(3, "flaky").integer("rate", 100);
    let never = Task::new(4, "flaky").integer("rate", 0);
    let output = Task::new(5, "output").integer("lines", 3).integer("width", 5);
    let tree = Task::new(6, "tree").duration("duration", 30);
    let hostname = Task::new(7, "ping/hostname");
    for task in [&succeed, &sleep, &always, &never, &output, &tree, &hostname] {
        leader.offer(task);
    }
    let result = leader.result(succeed.lease).await;
    assert_eq!((result.status(), result.output_tail.as_slice()), (v1::LeaseStatus::Success, &b"fine\n"[..]));
    assert!(result.duration_ms >= 20);
    let result = leader.result(sleep.lease).await;
    assert!(result.status() == v1::LeaseStatus::Success && result.duration_ms >= 30, "{result:?}");
    assert!(leader.result(always.lease).await.error.contains("by chance"));
    assert_eq!(leader.result(never.lease).await.status(), v1::LeaseStatus::Success);
    assert_eq!(leader.result(output.lease).await.output_tail, b"1....\n2....\n3....\n");
    assert_eq!(leader.result(tree.lease).await.status(), v1::LeaseStatus::Success);
    assert!(leader.result(hostname.lease).await.output_bytes > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_one_line_and_never_makes_a_folder() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let record = Task::new(1, "record").step(4).text("path", &path("lines"));
    let lost = Task::new(2, "record").text("path", &path("none/lines"));
    leader.offer(&record);
    leader.offer(&lost);
    assert_eq!(leader.result(record.lease).await.status(), v1::LeaseStatus::Success);
    assert_eq!(std::fs::read_to_string(path("lines")).unwrap(), format!("{} 4 web-01 1\n", record.lease.job));
    let result = leader.result(lost.lease).await;
    assert_eq!(result.status(), v1::LeaseStatus::Failed);
    assert!(result.error.contains("cannot record") && !Path::new(&path("none")).exists(), "{}", result.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn w6_a_record_into_anything_but_a_file_fails_at_once() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let pipe = |name: &str| {
        let path = dir.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (unread, read) = (pipe("unread"), pipe("read"));
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let reader = rustix::fs::open(&read, flags, rustix::fs::Mode::empty()).unwrap();
    for (job, path) in [(1, unread.as_str()), (2, &read), (3, "/dev/null")] {
        let record = Task::new(job, "record").text("path", path);
        leader.offer(&record);
        let result = leader.result(record.lease).await;
        assert_eq!(result.status(), v1::LeaseStatus::Failed);
        assert!(result.error.contains("not a regular file"), "{}", result.error);
    }
    let mut said = [0; 8];
    assert!(!matches!(rustix::io::read(&reader, &mut said), Ok(1..)), "nothing is written into a pipe");
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_a_lease_offered_many_times_runs_once() {
    let leader = TestLeader::start().await;
    leader.seen().answer = None;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let path = dir.path().join("lines");
    let record = Task::new(1, "record").text("path", path.to_str().unwrap()).duration("delay", 50);
    for _ in 0..20 {
        leader.offer(&record);
    }
    leader.result(record.lease).await;
    leader.offer(&record);
    leader.until("the result again", |seen| (seen.results.len() >= 2).then_some(())).await;
    leader.answer(record.lease, v1::AnswerKind::Committed);
    leader.heartbeats(2).await;
    leader.offer(&record);
    leader.until("the result of the settled lease", |seen| (seen.results.len() >= 3).then_some(())).await;
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn w4_retry_reports_again_and_committed_ends_it() {
    let leader = TestLeader::start().await;
    leader.seen().answer = Some(v1::AnswerKind::Retry);
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo");
    leader.offer(&echo);
    leader.until("three reports", |seen| (seen.results.len() >= 3).then_some(())).await;
    leader.seen().answer = Some(v1::AnswerKind::Committed);
    leader
        .until("nothing outstanding", |seen| {
            let last = seen.messages.last()?;
            last.heartbeat.is_some_and(|heartbeat| heartbeat.outstanding_count == 0).then_some(())
        })
        .await;
    let reports = leader.results_of(echo.lease);
    leader.heartbeats(5).await;
    assert_eq!(leader.results_of(echo.lease), reports, "final is final");
}

#[tokio::test(flavor = "multi_thread")]
async fn w5_the_list_comes_first_and_when_it_is_asked_for() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    assert_eq!(leader.seen().firsts[0].outstanding.as_ref().unwrap().leases, []);
    let sleep = Task::new(1, "ping/sleep").duration("duration", 60_000);
    leader.offer(&sleep);
    leader.until("acceptance", |seen| seen.accepted.contains(&sleep.lease).then_some(())).await;
    leader.say(v1::ToWorker { ask_outstanding: true, ..Default::default() });
    let outstanding = |seen: &mut support::Seen| seen.messages.iter().rev().find_map(|m| m.outstanding.clone());
    let listed =
        leader.until("the list", |seen| outstanding(seen).filter(|outstanding| !outstanding.leases.is_empty())).await;
    assert!(of(listed.leases.first().copied(), sleep.lease));
}

#[tokio::test(flavor = "multi_thread")]
async fn w3_a_thousand_once_steps_at_once_run_once_each() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = support::worker::config(&leader, dir.path());
    config.slots = 1024;
    let _worker = TestWorker::start_with(&leader, config).await;
    let path = dir.path().join("lines");
    let tasks: Vec<_> = (1..=1000).map(|job| Task::new(job, "record").text("path", path.to_str().unwrap())).collect();
    let session = leader.seen().session;
    let offers = tasks.iter().map(|task| task.offer(session)).collect();
    leader.say(v1::ToWorker { offers, ..Default::default() });
    leader.until("all results", |seen| (seen.results.len() == 1000).then_some(())).await;
    let results = leader.seen().results.clone();
    assert!(results.iter().all(|result| result.status() == v1::LeaseStatus::Success), "{results:?}");
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_sent_piece_by_piece_and_waited_for_while_they_grow() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let output = Task::new(1, "output").integer("lines", 20_000).integer("width", 9);
    leader.offer(&output);
    let result = leader.result(output.lease).await;
    assert_eq!((result.output_bytes, result.output_tail.len()), (200_000, 16 * 1024));
    let ask = |id: &str, task: &Task, offset, wait_ms| {
        let (request_id, lease) = (id.to_owned(), Some(task.lease.into()));
        let log_request =
            Some(v1::LogRequest { request_id, lease, offset, seen: offset, limit: 150_000, wait_ms, tail_lines: 0 });
        leader.say(v1::ToWorker { log_request, ..Default::default() });
    };
    ask("first", &output, 10, 0);
    ask("rest", &output, 150_010, 0);
    let (first, rest) = (chunks(&leader, "first").await, chunks(&leader, "rest").await);
    let bytes: Vec<u8> = first.iter().chain(&rest).flat_map(|chunk| chunk.data.clone()).collect();
    assert_eq!((first.len(), bytes.len()), (1, 200_000 - 10));
    assert!(bytes.starts_with(b"2........\n") && bytes.ends_with(&result.output_tail));
    ask("gone", &Task::new(9, "output"), 0, 0);
    assert!(chunks(&leader, "gone").await[0].error.contains("no output"));
    let running = Task::new(2, "succeed").text("message", "at last").duration("delay", 300);
    leader.offer(&running);
    leader.until("acceptance", |seen| seen.accepted.contains(&running.lease).then_some(())).await;
    ask("follow", &running, 0, 30_000);
    let followed = chunks(&leader, "follow").await;
    assert_eq!(followed[0].data, b"at last\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_the_leader_has_whole_is_not_kept() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let long = Task::new(1, "output").integer("lines", 20_000).integer("width", 9);
    leader.offer(&long);
    leader.result(long.lease).await;
    for job in 2..=50 {
        let echo = Task::new(job, "ping/echo").text("message", "short");
        leader.offer(&echo);
        leader.result(echo.lease).await;
    }
    let jobs = || std::fs::read_dir(dir.path().join("data/output")).unwrap().count();
    leader.until("only the long one is left", |_| (jobs() == 1).then_some(())).await;
    assert!(dir.path().join("data/output").join(long.lease.job.to_string()).exists());
}

async fn chunks(leader: &TestLeader, id: &str) -> Vec<v1::LogChunk> {
    leader
        .until("the last chunk", |seen| {
            let chunks: Vec<_> = seen.chunks.iter().filter(|chunk| chunk.request_id == id).cloned().collect();
            chunks.last().is_some_and(|chunk| chunk.end).then_some(chunks)
        })
        .await
}
