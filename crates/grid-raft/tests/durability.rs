//! What was acknowledged stays: L1, L3, L5, and E1's one leadership per term.

mod file_machine;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use file_machine::{Home, Receipt, lead, propose};
use grid_raft::{Config, MAX_PAYLOAD_BYTES, OpenError, ProposeError, Raft, Start};

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

async fn propose_numbers(raft: &Raft<Receipt>, range: std::ops::Range<u32>) {
    for payload in numbers(range) {
        propose(raft, payload).await;
    }
}

#[test]
fn l3_a_fresh_bootstrap_takes_proposals() {
    let home = Home::new();
    let receipt = home.run(Start::Bootstrap, async |raft| propose(&raft, "first").await);
    assert_eq!(receipt.count, 1);
    // The reply came after the machine's transaction.
    assert_eq!(home.content().payloads, ["first"]);
}

#[test]
fn l3_replies_come_back_in_order() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        lead(&raft).await;
        let mut proposals = tokio::task::JoinSet::new();
        for n in 0..200_u32 {
            let raft = raft.clone();
            proposals.spawn(async move { (n, raft.propose(n.to_string().into()).await) });
        }
        let mut receipts = Vec::new();
        while let Some(done) = proposals.join_next().await {
            let (n, receipt) = done.expect("joined");
            receipts.push((receipt.expect("accepted"), n));
        }
        receipts.sort_by_key(|(receipt, _)| receipt.index);
        let applied: Vec<String> = receipts.iter().map(|(_, n)| n.to_string()).collect();
        assert_eq!(home.content().payloads, applied);
        let counts: Vec<usize> = receipts.iter().map(|(receipt, _)| receipt.count).collect();
        assert_eq!(counts, (1..=200).collect::<Vec<_>>());
    });
}

#[test]
fn l3_a_current_thread_runtime_will_do() {
    let home = Home::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let receipt = runtime.block_on(async {
        let raft = home.open(Start::Bootstrap).await.expect("starts");
        propose(&raft, "first").await
    });
    assert_eq!(receipt.count, 1);
}

#[test]
fn l3_reopen_without_shutdown_keeps_everything_acknowledged() {
    let home = Home::new();
    for round in 0..5 {
        home.run(Start::Bootstrap, async |raft| {
            propose_numbers(&raft, round * 10..round * 10 + 10).await;
        });
    }
    assert_eq!(home.content().payloads, numbers(0..50));
}

#[test]
fn l5_a_machine_that_lost_its_tail_is_replayed_from_the_log() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        propose_numbers(&raft, 0..5).await;
    });
    let early = fs::read(&home.machine).expect("machine file");
    home.run(Start::Existing, async |raft| {
        propose_numbers(&raft, 5..300).await;
    });
    fs::write(&home.machine, early).expect("rolled back");

    let receipt = home.run(Start::Existing, async |raft| propose(&raft, "300").await);
    assert_eq!(receipt.count, 301);
    assert_eq!(home.content().payloads, numbers(0..301));
    assert_eq!(home.content().installs, 0);
}

#[test]
fn l5_an_empty_machine_is_replayed_from_the_beginning() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        propose_numbers(&raft, 0..5).await;
    });
    fs::remove_file(&home.machine).expect("removed");
    home.run(Start::Existing, async |raft| lead(&raft).await);
    home.run(Start::Existing, async |raft| {
        propose(&raft, "5").await;
    });
    assert_eq!(home.content().payloads, numbers(0..6));
    assert!(home.content().membership.is_some());
}

/// A home whose log was purged behind a snapshot of 20 entries, with 5 more, another snapshot after the second of
/// them.
fn purged_home() -> Home {
    let mut home = Home::new();
    home.config.log_chunk_bytes = 256;
    home.run(Start::Bootstrap, async |raft| {
        propose_numbers(&raft, 0..20).await;
        let before = raft.log_bytes();
        raft.trigger_snapshot().await.expect("snapshot");
        propose_numbers(&raft, 20..22).await;
        raft.trigger_snapshot().await.expect("snapshot");
        propose_numbers(&raft, 22..25).await;
        assert!(raft.log_bytes() < before, "{} of {before} bytes are left", raft.log_bytes());
    });
    home
}

/// The copies of snapshots, newest first.
fn copies(home: &Home) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(home.path().join("snapshots")).expect("folder");
    let mut copies: Vec<_> = files.map(|entry| entry.expect("entry").path()).collect();
    copies.retain(|path| path.extension().is_some_and(|e| e == "snap"));
    let index = |path: &std::path::PathBuf| {
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        name.split('-').nth(1).and_then(|index| index.parse::<u64>().ok()).expect("TERM-INDEX-HASH")
    };
    copies.sort_by_key(|path| std::cmp::Reverse(index(path)));
    copies
}

#[test]
fn l5_an_empty_machine_gets_the_snapshot_then_the_log() {
    let home = purged_home();
    fs::remove_file(&home.machine).expect("removed");
    let receipt = home.run(Start::Existing, async |raft| propose(&raft, "25").await);
    assert_eq!(receipt.count, 26);
    assert_eq!(home.content().payloads, numbers(0..26));
    assert_eq!(home.content().installs, 1);
}

#[test]
fn l5_a_machine_above_the_purge_point_keeps_its_data() {
    let home = purged_home();
    home.run(Start::Existing, async |raft| propose(&raft, "25").await);
    assert_eq!(home.content().payloads, numbers(0..26));
    assert_eq!(home.content().installs, 0);
}

#[test]
fn l5_a_later_snapshot_replaces_the_earlier_one() {
    let home = purged_home();
    home.run(Start::Existing, async |raft| {
        propose(&raft, "25").await;
        raft.trigger_snapshot().await.expect("second snapshot");
        // Nothing new: the one there is will do.
        raft.trigger_snapshot().await.expect("third snapshot");
    });
    let files = fs::read_dir(home.path().join("snapshots")).expect("folder");
    assert_eq!(files.count(), 4, "two copies and their descriptions");
    fs::remove_file(&home.machine).expect("removed");
    home.run(Start::Existing, async |raft| lead(&raft).await);
    assert_eq!(home.content().payloads, numbers(0..26));
}

#[test]
fn l5_a_damaged_snapshot_is_made_good_by_the_one_before_and_the_log() {
    for damage in [|bytes: &mut Vec<u8>| bytes[10] ^= 1, |bytes: &mut Vec<u8>| bytes.truncate(9)] {
        let home = purged_home();
        fs::remove_file(&home.machine).expect("removed");
        let newest = copies(&home)[0].clone();
        let mut bytes = fs::read(&newest).expect("read");
        damage(&mut bytes);
        fs::write(&newest, &bytes).expect("write");
        home.run(Start::Existing, async |raft| propose(&raft, "25").await);
        assert_eq!(home.content().payloads, numbers(0..26));
        let aside = newest.with_extension("snap.damaged");
        assert_eq!(fs::read(&aside).expect("set aside"), bytes);
    }
}

#[test]
fn l5_snapshots_that_are_all_damaged_are_refused_and_left() {
    let home = purged_home();
    fs::remove_file(&home.machine).expect("removed");
    for snapshot in copies(&home) {
        let mut bytes = fs::read(&snapshot).expect("read");
        bytes[10] ^= 1;
        fs::write(&snapshot, bytes).expect("write");
    }
    let before = copies(&home);
    let error = home.refusal(Start::Existing);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    for snapshot in &before {
        assert!(error.to_string().contains(&snapshot.display().to_string()), "{error}");
    }
    assert_eq!(copies(&home), before);
    assert!(!home.machine.exists(), "nothing was installed");
}

#[test]
fn l5_a_sound_machine_needs_no_snapshot_and_makes_one() {
    let home = purged_home();
    for snapshot in copies(&home) {
        fs::write(snapshot, "rubbish").expect("write");
    }
    home.run(Start::Existing, async |raft| propose(&raft, "25").await);
    fs::remove_file(&home.machine).expect("removed");
    home.run(Start::Existing, async |raft| propose(&raft, "26").await);
    assert_eq!(home.content().payloads, numbers(0..27));
}

#[test]
fn l5_a_log_without_the_snapshot_it_needs_is_refused() {
    let home = purged_home();
    fs::remove_file(&home.machine).expect("removed");
    fs::remove_dir_all(home.path().join("snapshots")).expect("removed");
    let error = home.refusal(Start::Existing);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn e1_every_start_leads_in_a_new_term() {
    let home = Home::new();
    let mut terms = vec![0];
    for _ in 0..4 {
        terms.push(home.run(Start::Bootstrap, async |raft| lead(&raft).await));
    }
    assert!(terms.windows(2).all(|pair| pair[0] < pair[1]), "{terms:?}");
}

#[test]
fn l1_an_oversized_payload_is_refused_and_the_largest_is_not() {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        lead(&raft).await;
        let payload = Bytes::from(vec![b'x'; MAX_PAYLOAD_BYTES + 1]);
        let refused = raft.propose(payload.clone()).await;
        let len = MAX_PAYLOAD_BYTES + 1;
        assert_eq!(refused, Err(ProposeError::TooLarge { len }));
        propose(&raft, payload.slice(1..)).await;
    });
    assert_eq!(home.content().payloads[0].len(), MAX_PAYLOAD_BYTES);
}

const CHILD_DIR: &str = "GRID_RAFT_TEST_DIR";

/// Not a test by itself: the process that `l3_kill_9…` kills.
#[test]
#[ignore = "runs as a child of another test"]
fn child_proposes_until_it_is_killed() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    runtime.block_on(async {
        let dir = std::path::PathBuf::from(dir);
        let machine = file_machine::FileMachine::open(&dir.join("machine.json"));
        let mut config = Config::new(1, "127.0.0.1:8766", &dir);
        config.log_chunk_bytes = 4096;
        let raft = Raft::open(config, Start::Bootstrap, machine).await.expect("starts");
        lead(&raft).await;
        println!("\nready");
        for n in 0_u32.. {
            let payload = format!("{}-{n}", std::process::id());
            raft.propose(payload.clone().into()).await.expect("accepted");
            println!("\nack {payload}");
            if n % 20 == 19 {
                raft.trigger_snapshot().await.expect("snapshot");
            }
        }
    });
}

fn spawn_child(home: &Home) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child_proposes_until_it_is_killed"])
        .args(["--ignored", "--nocapture"])
        .env(CHILD_DIR, home.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("child");
    let stdout = child.stdout.take().expect("stdout");
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    (child, lines)
}

#[test]
fn l3_kill_9_keeps_everything_acknowledged() {
    let home = Home::new();
    let mut acknowledged = Vec::new();
    for round in 0..8 {
        let (mut child, lines) = spawn_child(&home);
        let mut killed = false;
        let before = acknowledged.len();
        // What is still in the pipe after the kill was acknowledged, too.
        for line in lines {
            acknowledged.extend(line.strip_prefix("ack ").map(String::from));
            if !killed && acknowledged.len() - before > 7 * (round + 1) {
                child.kill().expect("killed");
                killed = true;
            }
        }
        child.wait().expect("waited");
        assert!(killed, "the child ended by itself");
        if round % 2 == 1 {
            // A machine that lost everything must come back all the same.
            fs::remove_file(&home.machine).expect("removed");
        }
    }
    home.run(Start::Existing, async |raft| {
        propose(&raft, "end").await;
    });
    let mut rest = home.content().payloads.into_iter();
    for payload in acknowledged {
        // In order, once each, with at most unacknowledged ones between them.
        assert!(rest.any(|p| p == payload), "{payload} was lost");
        assert!(!rest.clone().any(|p| p == payload), "{payload} came twice");
    }
}

#[test]
fn a_second_process_is_refused_until_the_first_is_dead() {
    let home = Home::new();
    let (mut child, mut lines) = spawn_child(&home);
    assert!(lines.any(|line| line == "ready"));

    let error = home.refusal(Start::Bootstrap);
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&home.path().display().to_string()), "{error}");

    child.kill().expect("killed");
    child.wait().expect("waited");
    home.run(Start::Existing, async |raft| propose(&raft, "mine").await);
}
