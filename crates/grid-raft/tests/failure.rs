//! L2: a failing disk or machine ends the member, and everybody hears of it. A snapshot that fails does not.

mod file_machine;

use std::fs;

use file_machine::{FAIL, Home, PANIC, Receipt, lead, propose};
use grid_raft::{ProposeError, Raft, Start};

/// The member has ended, and says so wherever one may look.
async fn assert_stopped(raft: &Raft<Receipt>, because: &str) {
    let reason = raft.stopped().await;
    assert!(reason.contains(because), "{reason}");

    let refused = raft.propose("later".into()).await;
    let Err(ProposeError::Stopped(stopped)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(stopped.reason, reason);

    let mut leadership = raft.leadership();
    while leadership.changed().await.is_ok() {}
    assert!(!leadership.borrow().is_leader);
    assert_eq!(leadership.borrow().leader, None);

    let snapshot = raft.trigger_snapshot().await;
    assert_eq!(snapshot.expect_err("stopped").reason, reason);
    raft.shutdown().await;
}

fn assert_unknown(outcome: &Result<Receipt, ProposeError>) {
    assert!(matches!(outcome, Err(ProposeError::OutcomeUnknown { .. })), "{outcome:?}");
}

#[test]
fn l2_an_error_of_the_machine_ends_the_member() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        propose(&raft, "good").await;
        // It is in the log, so nobody may say that it was refused (E4).
        assert_unknown(&raft.propose(FAIL.into()).await);
        assert_stopped(&raft, "the disk is full").await;
    });
    assert_eq!(home.content().payloads, ["good"]);
    // The entry is still there, and still cannot be applied.
    assert!(home.refusal_or_stop().contains("the disk is full"));
}

#[test]
fn l2_a_panic_of_the_machine_ends_the_member() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        lead(&raft).await;
        assert_unknown(&raft.propose(PANIC.into()).await);
        assert_stopped(&raft, "panicked: index out of bounds").await;
    });
}

#[test]
fn l2_an_error_of_the_log_ends_the_member() {
    let mut home = Home::new();
    home.config.log_chunk_bytes = 1024;
    home.run(Start::Bootstrap, async |raft| {
        propose(&raft, "good").await;
        // The next chunk cannot be created.
        fs::remove_dir_all(home.path().join("raft-log")).expect("removed");
        let filler = "x".repeat(300);
        loop {
            match raft.propose(filler.clone().into()).await {
                Ok(_) => {}
                Err(ProposeError::OutcomeUnknown { .. } | ProposeError::Stopped(_)) => break,
                Err(e) => panic!("{e}"),
            }
        }
        assert_stopped(&raft, "No such file").await;
    });
}

/// Waits for a snapshot to fail, and returns why.
async fn trouble(raft: &Raft<Receipt>) -> String {
    loop {
        if let Some(trouble) = raft.snapshot_trouble() {
            return trouble;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[test]
fn issue13_an_error_while_taking_a_snapshot_is_shown_and_it_is_taken_later() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        propose(&raft, "good").await;
        fs::remove_dir_all(home.path().join("snapshots")).expect("removed");
        let taking = tokio::spawn({
            let raft = raft.clone();
            async move { raft.trigger_snapshot().await }
        });
        let shown = trouble(&raft).await;
        assert!(shown.contains("No such file"), "{shown}");
        propose(&raft, "goes on").await;
        fs::create_dir(home.path().join("snapshots")).expect("the disk is mended");
        taking.await.expect("no panic").expect("taken");
        assert_eq!(raft.snapshot_trouble(), None);
        raft.shutdown().await;
    });
}

#[test]
fn issue13_a_member_ends_although_its_snapshot_fails() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        propose(&raft, "good").await;
        fs::remove_dir_all(home.path().join("snapshots")).expect("removed");
        let taking = tokio::spawn({
            let raft = raft.clone();
            async move { raft.trigger_snapshot().await }
        });
        trouble(&raft).await;
        raft.shutdown().await;
        taking.await.expect("no panic").expect_err("it ended");
    });
}

impl Home {
    /// Why a start fails, at once or as soon as it replays.
    fn refusal_or_stop(&self) -> String {
        file_machine::block_on(async {
            match self.open(Start::Existing).await {
                Ok(raft) => raft.stopped().await,
                Err(e) => e.to_string(),
            }
        })
    }
}
