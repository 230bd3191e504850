//! Sessions that break, move and are refused.

mod support;

use grid_fabric::FabricRefusal;
use grid_proto::v1;
use grid_types::Code;
use support::worker::{TestWorker, config};
use support::{Task, TestLeader, of};

#[tokio::test(flavor = "multi_thread")]
async fn w5_a_broken_stream_is_opened_again_and_leases_go_on() {
    let leader = TestLeader::start().await;
    leader.seen().answer = None;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let (done, running) = (Task::new(1, "ping/echo"), Task::new(2, "ping/sleep").duration("duration", 60_000));
    leader.offer(&running);
    leader.offer(&done);
    leader.result(done.lease).await;
    leader.until("acceptance", |seen| seen.accepted.contains(&running.lease).then_some(())).await;
    leader.seen().results.clear();
    leader.seen().epoch = 2;
    let closing = v1::Closing { reason: "NOT_LEADER".to_owned(), leader_url: leader.url.clone() };
    leader.seen().outbox.take().unwrap().close(closing);
    let again = leader.until("the second session", |seen| seen.firsts.get(1).cloned()).await;
    assert_eq!((again.session, again.leader_epoch), (2, 2));
    assert_eq!(again.outstanding.unwrap().leases.len(), 2, "the running one and the unanswered one");
    assert!(of(leader.result(done.lease).await.lease, done.lease), "reported again");
    let registrations = leader.seen().registrations.clone();
    assert_eq!(registrations[0].nonce, registrations[1].nonce);
    assert_eq!(registrations[0].boot, registrations[1].boot);
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_an_offer_of_the_session_before_is_not_run() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo");
    leader.say(v1::ToWorker { offers: vec![echo.offer(99)], ..Default::default() });
    leader.heartbeats(3).await;
    assert_eq!((leader.results_of(echo.lease), leader.seen().accepted.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn w2_a_message_of_an_older_epoch_makes_the_worker_look_for_the_leader() {
    let leader = TestLeader::start().await;
    leader.seen().epoch = 5;
    let dir = tempfile::tempdir().unwrap();
    let _worker = TestWorker::start(&leader, dir.path()).await;
    let echo = Task::new(1, "ping/echo");
    leader.say(v1::ToWorker { leader_epoch: 4, offers: vec![echo.offer(1)], ..Default::default() });
    leader.until("the second session", |seen| seen.firsts.get(1).cloned()).await;
    assert_eq!(leader.results_of(echo.lease), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn w1_a_duplicate_is_tried_again_until_the_old_session_is_dead() {
    let leader = TestLeader::start().await;
    leader.seen().refuse = Some(FabricRefusal::new(Code::DuplicateNode, "web-01 is here already"));
    let dir = tempfile::tempdir().unwrap();
    let worker = TestWorker::spawn(config(&leader, dir.path()));
    leader.until("a second try", |seen| (seen.registrations.len() >= 2).then_some(())).await;
    assert!(worker.is_running());
    leader.seen().refuse = None;
    leader.until_open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w1_a_lasting_duplicate_ends_the_worker_with_the_leaders_words() {
    let leader = TestLeader::start().await;
    let message = "web-01 is a clone; start it with --reset-journal";
    leader.seen().refuse = Some(FabricRefusal::new(Code::DuplicateNode, message));
    let dir = tempfile::tempdir().unwrap();
    let error = TestWorker::spawn(config(&leader, dir.path())).end().await.unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_says_of_itself_wrongly_ends_it_at_once() {
    let leader = TestLeader::start().await;
    leader.seen().refuse = Some(FabricRefusal::new(Code::Invalid, "label k: too long"));
    let dir = tempfile::tempdir().unwrap();
    let error = TestWorker::spawn(config(&leader, dir.path())).end().await.unwrap_err().to_string();
    assert!(error.contains("label k: too long"), "{error}");
    assert_eq!(leader.seen().registrations.len(), 1);
    let mut unknown = config(&leader, dir.path());
    unknown.enable_backends = vec!["yum".to_owned()];
    let error = TestWorker::spawn(unknown).end().await.unwrap_err().to_string();
    assert!(error.contains("no backend \"yum\"; there are ping, apt"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_asks_every_server_and_waits_for_a_leader() {
    let leader = TestLeader::start().await;
    leader.seen().refuse = Some(FabricRefusal::new(Code::NoQuorum, "no majority"));
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&leader, dir.path());
    config.servers.insert(0, "http://127.0.0.1:1".to_owned());
    let _worker = TestWorker::spawn(config);
    leader.until("three tries", |seen| (seen.registrations.len() >= 3).then_some(())).await;
    leader.seen().refuse = None;
    leader.until_open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_a_worker_does_not_change_its_cluster_by_accident() {
    let leader = TestLeader::start().await;
    let dir = tempfile::tempdir().unwrap();
    let worker = TestWorker::start(&leader, dir.path()).await;
    worker.handle.signal();
    worker.end().await.unwrap();
    leader.seen().cluster_id = "another".to_owned();
    let error = TestWorker::spawn(config(&leader, dir.path())).end().await.unwrap_err().to_string();
    assert!(error.contains("belongs to cluster another") && error.contains("--reset-journal"), "{error}");
    let mut moved = config(&leader, dir.path());
    moved.reset_journal = true;
    let _worker = TestWorker::start_with(&leader, moved).await;
}
