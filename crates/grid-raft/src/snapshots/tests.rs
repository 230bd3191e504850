//! What lies in the folder after publishing, crashes, damage, and work side by side.

use std::fs;
use std::path::Path;

use super::{Snapshot, Snapshots};
use crate::group::StoredMembership;
use crate::machine::LogPosition;

fn publish(snapshots: &Snapshots, index: u64, content: &str) -> Snapshot {
    let path = snapshots.unfinished().expect("path");
    fs::write(&path, content).expect("written");
    let last = Some(LogPosition { term: 1, index });
    snapshots.publish(&path, last, StoredMembership::default()).expect("published").0
}

fn newest_of(snapshots: &Snapshots) -> Option<Snapshot> {
    snapshots.newest().expect("listed").map(|(newest, _)| newest)
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("folder") {
        let path = entry.expect("entry").path();
        fs::copy(&path, to.join(path.file_name().expect("name"))).expect("copied");
    }
}

#[test]
fn what_a_crash_left_beside_the_newest_is_removed() {
    let (dir, aside) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let snapshots = Snapshots::new(dir.path().into());
    publish(&snapshots, 2, "oldest");
    copy_all(dir.path(), aside.path());
    let older = publish(&snapshots, 5, "older");
    let newest = publish(&snapshots, 10, "newer");
    // As if the crash came before the oldest one was removed.
    copy_all(aside.path(), dir.path());
    fs::write(dir.path().join("building.tmp"), "half").expect("written");

    for _ in 0..2 {
        let (sound, problems) = snapshots.look_over().expect("looked");
        assert_eq!((&sound[..2], problems.len()), (&[newest.clone(), older.clone()][..], 0));
        snapshots.tidy(&sound).expect("tidy");
        assert_eq!(newest_of(&snapshots), Some(newest.clone()));
        assert_eq!(snapshots.previous().expect("listed"), Some(older.clone()));
        assert_eq!(fs::read_dir(dir.path()).expect("folder").count(), 4);
    }
}

#[test]
fn a_damaged_snapshot_is_set_aside_wherever_the_damage_is() {
    let dir = tempfile::tempdir().expect("dir");
    let snapshots = Snapshots::new(dir.path().into());
    let older = publish(&snapshots, 5, "older");
    let newest = publish(&snapshots, 10, "newer");
    for path in [newest.path.clone(), newest.path.with_extension("json")] {
        let whole = fs::read(&path).expect("read");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for bad in [&flipped[..], &whole[..at]] {
                fs::write(&path, bad).expect("written");
                let (sound, problems) = snapshots.look_over().expect("looked");
                assert_eq!((&sound[..], problems.len()), (std::slice::from_ref(&older), 1), "{at}");
                let name = path.file_stem().expect("name").display().to_string();
                assert!(problems[0].contains(&name), "{}", problems[0]);
            }
        }
        fs::write(&path, &whole).expect("written");
    }
    fs::write(&newest.path, "not it").expect("written");
    let (sound, _) = snapshots.look_over().expect("looked");
    snapshots.tidy(&sound).expect("tidy");
    assert_eq!(newest_of(&snapshots), Some(older));
    assert_eq!(fs::read_dir(dir.path()).expect("folder").count(), 4, "nothing was removed");
}

#[test]
fn l5_a_snapshot_that_is_received_leaves_the_one_that_is_built_alone() {
    let (sender, receiver) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let sent = publish(&Snapshots::new(sender.path().into()), 9, "content");
    let snapshots = Snapshots::new(receiver.path().into());

    let building = snapshots.unfinished().expect("path");
    fs::write(&building, "built meanwhile").expect("written");
    let received = snapshots.receiving().expect("file");
    std::io::Write::write_all(&mut &received, b"content").expect("written");
    snapshots.adopt(&received, &sent.meta()).expect("adopted");
    let last = Some(LogPosition { term: 1, index: 7 });
    snapshots.publish(&building, last, StoredMembership::default()).expect("published");
    assert_eq!(newest_of(&snapshots).expect("there").meta(), sent.meta());
}

#[test]
fn the_newest_can_be_had_while_older_ones_are_removed() {
    let dir = tempfile::tempdir().expect("dir");
    let snapshots = Snapshots::new(dir.path().into());
    publish(&snapshots, 1, "first");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 2..80 {
                publish(&snapshots, index, "another");
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            newest_of(&snapshots).expect("there");
            snapshots.previous().expect("listed");
        }
    });
}

#[test]
fn a_received_snapshot_must_be_the_one_that_was_sent() {
    let (sender, receiver) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let sent = publish(&Snapshots::new(sender.path().into()), 5, "content");
    let snapshots = Snapshots::new(receiver.path().into());

    for (content, is_taken) in [("contenT", false), ("content", true)] {
        let received = snapshots.receiving().expect("file");
        std::io::Write::write_all(&mut &received, content.as_bytes()).expect("written");
        let adopted = snapshots.adopt(&received, &sent.meta());
        assert_eq!(adopted.is_ok(), is_taken, "{adopted:?}");
    }
    let adopted = newest_of(&snapshots).expect("there");
    assert_eq!(adopted.meta(), sent.meta());
}
