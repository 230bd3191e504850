//! Which data folders are taken, and that a refused one is left alone.

mod file_machine;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use file_machine::{Home, block_on, lead, propose};
use grid_raft::{OpenError, ProposeError, Start, is_initialised};

/// A home with a few entries in its log.
fn used_home() -> Home {
    let home = Home::new();
    home.run(Start::Bootstrap, async |raft| {
        for payload in ["a", "b", "c"] {
            propose(&raft, payload).await;
        }
    });
    home
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).expect("file"));
        }
    }
    all
}

fn chunk(home: &Home) -> PathBuf {
    let log = home.path().join("raft-log");
    let mut chunks: Vec<PathBuf> =
        files(&log).into_keys().filter(|path| path.extension().is_some_and(|e| e == "wal")).collect();
    chunks.pop().expect("a chunk")
}

/// The start is refused, says where, and changes nothing.
fn assert_refused_untouched(home: &Home, start: Start) -> OpenError {
    let before = files(home.path());
    let error = home.refusal(start);
    assert!(error.to_string().contains(&home.path().display().to_string()), "{error}");
    assert_eq!(files(home.path()), before, "{error}");
    error
}

#[test]
fn an_empty_folder_needs_a_bootstrap() {
    let home = Home::new();
    let error = assert_refused_untouched(&home, Start::Existing);
    assert!(matches!(error, OpenError::NotInitialised { .. }), "{error}");
    assert!(!is_initialised(home.path()));
}

#[test]
fn a_bootstrap_of_an_initialised_folder_changes_nothing_but_its_address() {
    let mut home = used_home();
    assert!(is_initialised(home.path()));
    home.config.member.address = "127.0.0.1:9999".into();
    home.run(Start::Bootstrap, async |raft| {
        assert_eq!(propose(&raft, "d").await.count, 4);
        let known = |l: &grid_raft::Leadership| l.leader.as_ref().map(|l| (l.raft_id, l.member.address.clone()));
        let mut leadership = raft.leadership();
        let moved = leadership.wait_for(|l| known(l) == Some((1, "127.0.0.1:9999".into()))).await;
        assert!(moved.is_ok(), "the group hears of an address that changed with a restart");
    });
}

#[test]
fn a_bootstrap_cut_short_may_be_repeated() {
    // The log exists and is empty: the crash came before the first entry.
    let home = Home::new();
    fs::create_dir(home.path().join("raft-log")).expect("folder");
    fs::create_dir(home.path().join("snapshots")).expect("folder");
    let error = home.refusal(Start::Existing);
    assert!(matches!(error, OpenError::NotInitialised { .. }), "{error}");
    home.run(Start::Bootstrap, async |raft| lead(&raft).await);

    // The first entry is there: the crash came before the folder was marked.
    let home = used_home();
    fs::remove_file(home.path().join("raft.json")).expect("removed");
    home.run(Start::Bootstrap, async |raft| {
        assert_eq!(propose(&raft, "d").await.count, 4);
    });
    assert!(is_initialised(home.path()));
}

#[test]
fn the_folder_of_another_member_is_refused() {
    let mut home = used_home();
    home.config.raft_id = Some(2);
    let error = assert_refused_untouched(&home, Start::Bootstrap);
    let OpenError::OtherMember { found, wanted, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((found, wanted), (1, 2));

    // The group itself knows it, too, when both files were lost.
    for file in ["raft.json", "member.json"] {
        fs::remove_file(home.path().join(file)).expect("removed");
    }
    let error = home.refusal(Start::Bootstrap);
    assert!(matches!(error, OpenError::Removed { .. }), "{error}");
    assert!(!is_initialised(home.path()) && !home.path().join("member.json").exists());
}

#[test]
fn e3_a_folder_from_before_there_was_an_identity_gets_one_and_keeps_its_id() {
    let mut home = used_home();
    fs::remove_file(home.path().join("member.json")).expect("removed");
    home.config.raft_id = None;
    home.config.cluster_id = Some("the-cluster".into());
    let identity = home.run(Start::Existing, async |raft| {
        assert_eq!(propose(&raft, "d").await.count, 4);
        raft.local_member().clone()
    });
    assert_eq!((identity.raft_id, identity.cluster_id.as_str()), (1, "the-cluster"));
    home.config.cluster_id = None;
    let again = home.run(Start::Existing, async |raft| raft.local_member().clone());
    assert_eq!(again, identity);
}

#[test]
fn a_damaged_log_is_refused() {
    let home = used_home();
    let chunk = chunk(&home);
    let mut bytes = fs::read(&chunk).expect("chunk");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&chunk, bytes).expect("damaged");
    let error = assert_refused_untouched(&home, Start::Bootstrap);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn a_torn_last_record_is_cut_off() {
    let home = used_home();
    let chunk = chunk(&home);
    let sound = fs::read(&chunk).expect("chunk");
    let mut torn = sound.clone();
    torn.extend_from_slice(&sound[..7]);
    fs::write(&chunk, torn).expect("torn");
    home.run(Start::Existing, async |raft| {
        assert_eq!(propose(&raft, "d").await.count, 4);
    });
}

#[test]
fn a_log_that_lost_applied_entries_is_refused() {
    let home = used_home();
    let chunk = chunk(&home);
    let sound = fs::read(&chunk).expect("chunk");
    fs::write(&chunk, &sound[..sound.len() / 2]).expect("cut");
    let error = assert_refused_untouched(&home, Start::Bootstrap);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&*chunk.file_name().expect("name").to_string_lossy()), "{error}");

    // Without the mark, the machine still knows.
    fs::remove_file(home.path().join("raft-log.mark")).expect("removed");
    let error = home.refusal(Start::Bootstrap);
    assert!(matches!(error, OpenError::Mismatch { .. }), "{error}");
    assert_eq!(home.content().payloads, ["a", "b", "c"]);
}

#[test]
fn a_missing_or_foreign_log_is_refused() {
    let home = used_home();
    let log = home.path().join("raft-log");
    fs::write(log.join("notes.txt"), "mine").expect("foreign file");
    let error = assert_refused_untouched(&home, Start::Bootstrap);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");

    fs::remove_dir_all(&log).expect("removed");
    let error = assert_refused_untouched(&home, Start::Bootstrap);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");

    fs::create_dir(&log).expect("folder");
    let error = home.refusal(Start::Bootstrap);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn a_mark_that_is_damaged_or_newer_is_refused() {
    let home = used_home();
    let path = home.path().join("raft.json");
    let sound = fs::read_to_string(&path).expect("mark");
    for text in ["{}", "", &sound[..sound.len() - 1], &sound.replace(r#""raft_id":1"#, r#""raft_id":3"#)] {
        fs::write(&path, text).expect("written");
        let error = assert_refused_untouched(&home, Start::Existing);
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
    for text in [r#"{"format":2,"raft_id":1}"#, r#"{"format":7,"more":[]}"#] {
        fs::write(&path, text).expect("written");
        let error = assert_refused_untouched(&home, Start::Existing);
        assert!(matches!(error, OpenError::Newer { .. }), "{error}");
    }
    // Only that number is damaged: everything that counts is there.
    fs::write(&path, sound.replace(r#""format":1"#, r#""format":9"#)).expect("written");
    home.run(Start::Existing, async |raft| lead(&raft).await);
}

#[test]
fn a_machine_of_another_group_is_refused() {
    let used = used_home();
    // A new group for a machine that already has data.
    let fresh = Home::new();
    fs::copy(&used.machine, &fresh.machine).expect("copied");
    let error = fresh.refusal(Start::Bootstrap);
    assert!(matches!(error, OpenError::Mismatch { .. }), "{error}");
    assert!(!is_initialised(fresh.path()));

    // The same index, another term.
    let other = used_home();
    for _ in 0..3 {
        other.run(Start::Existing, async |raft| propose(&raft, "x").await);
    }
    fs::write(
        &other.machine,
        fs::read_to_string(&other.machine).expect("machine").replace(r#""term":"#, r#""term":1"#),
    )
    .expect("changed");
    let error = other.refusal(Start::Existing);
    assert!(matches!(error, OpenError::Mismatch { .. }), "{error}");
}

#[test]
fn after_a_shutdown_the_folder_is_free() {
    let home = Home::new();
    block_on(async {
        for count in 1..5 {
            let raft = home.open(Start::Bootstrap).await.expect("starts");
            assert_eq!(propose(&raft, "x").await.count, count);
            raft.shutdown().await;
            let refused = raft.propose("y".into()).await;
            assert!(matches!(refused, Err(ProposeError::Stopped(_))), "{refused:?}");
            assert_eq!(raft.stopped().await, "it was shut down");
        }
    });
}
