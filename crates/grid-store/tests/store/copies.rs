//! Snapshots: a copy holds everything, and takes the place of a store as a whole.

use std::fs;

use grid_core::State;
use grid_store::{Store, StoreError};
use grid_types::{JobId, JobStatus, Outcome};
use tempfile::TempDir;

use crate::world::{World, copy_files, leaf, named};

/// A world with one ended job, one that runs, and a membership.
fn busy() -> (World, JobId, JobId) {
    let mut world = World::with_nodes(3);
    world.membership = Some(b"members".to_vec());
    let ended = world.submit("all", vec![leaf("ping", "echo")]);
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    let runs = world.submit("all", vec![leaf("ping", "echo"), leaf("test", "record")]);
    let first = world.offered()[0];
    world.report(first, Outcome::Success);
    world.store();
    (world, ended, runs)
}

#[test]
fn i13_a_copy_is_the_store_in_one_file() {
    let (mut world, ended, runs) = busy();
    let copies = TempDir::new().unwrap();
    let path = copies.path().join("copy");
    world.store.write_copy(&path).unwrap();
    let names: Vec<_> = fs::read_dir(copies.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["copy"], "nothing but the copy");
    let (store, stored) = Store::open(&path).unwrap();
    assert_eq!(stored.applied, Some(world.position()));
    assert_eq!(stored.membership.as_deref(), Some(&b"members"[..]));
    assert_eq!(State::from_parts(stored.parts).unwrap().hash(), world.state.hash());
    for job in [ended, runs] {
        assert_eq!(store.reader().job(&named("default", job)).unwrap(), Some(world.job(job)));
    }
}

#[test]
fn l5_a_copy_is_of_the_moment_when_it_was_taken_hold_of() {
    let (mut world, _, runs) = busy();
    let (then, hash) = (world.position(), world.state.hash());
    let pinned = world.store.pin().unwrap();
    // The store goes on while the copy is still to be written.
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    world.store();
    assert!(world.position() > then);
    let path = world.folder.path().join("copy");
    pinned.write_copy(&path).unwrap();
    let (store, stored) = Store::open(&path).unwrap();
    assert_eq!(stored.applied, Some(then));
    assert_eq!(State::from_parts(stored.parts).unwrap().hash(), hash);
    assert_ne!(store.reader().job(&named("default", runs)).unwrap(), Some(world.job(runs)));
}

#[test]
fn l6_a_store_is_not_replaced_before_a_copy_of_it_is_done() {
    let (mut world, ended, _) = busy();
    let folder = TempDir::new().unwrap();
    let (path, other) = (folder.path().join("copy"), folder.path().join("other"));
    world.store.write_copy(&path).unwrap();
    let pinned = world.store.pin().unwrap();
    std::thread::scope(|scope| {
        let replaced = scope.spawn(|| world.store.replace_by(&path).map(|stored| stored.applied));
        pinned.write_copy(&other).unwrap();
        assert!(replaced.join().unwrap().unwrap().is_some());
    });
    assert_eq!(world.job(ended).status, JobStatus::Completed);
}

#[test]
fn a_copy_overwrites_nothing() {
    let (mut world, ..) = busy();
    let path = world.folder.path().join("precious");
    fs::write(&path, b"precious").unwrap();
    assert!(matches!(world.store.write_copy(&path), Err(StoreError::Failed { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn l6_an_installed_copy_replaces_everything_and_readers_follow() {
    let (mut source, ended, runs) = busy();
    let path = source.folder.path().join("copy");
    source.store.write_copy(&path).unwrap();
    let copy = fs::read(&path).unwrap();

    let mut world = World::with_nodes(1);
    let gone = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let reader = world.reader();
    assert!(reader.job(&named("default", gone)).unwrap().is_some());
    let stored = world.store.replace_by(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), copy, "the copy stays as it is");
    assert_eq!((stored.applied, stored.membership.as_deref()), (Some(source.position()), Some(&b"members"[..])));
    world.state = State::from_parts(stored.parts).unwrap();
    assert_eq!(world.state, source.state);
    assert_eq!(reader.job(&named("default", ended)).unwrap(), Some(source.job(ended)));
    // 101 is the first job of both worlds.
    assert_eq!(reader.job(&named("default", gone)).unwrap().unwrap().expected.unwrap().len(), 3);

    // It goes on where the copy was.
    (world.index, world.unstored) = (source.index, Vec::new());
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    world.store();
    assert_eq!(world.job(runs).count(Outcome::Running), 3, "the second step runs");
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(State::from_parts(stored.parts).unwrap(), world.state);
}

#[test]
fn l6_a_damaged_or_foreign_copy_costs_nothing() {
    let (mut world, ended, _) = busy();
    let path = world.folder.path().join("copy");
    world.store.write_copy(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for bad in [&whole[..whole.len() / 3], b"SQLite format 3\0 of someone else"] {
        fs::write(&path, bad).unwrap();
        let error = world.store.replace_by(&path).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. } | StoreError::Foreign { .. }), "{error:?}");
        assert_eq!(world.job(ended).status, JobStatus::Completed);
    }
    fs::remove_file(&path).unwrap();
    assert!(world.store.replace_by(&path).is_err());
    world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(State::from_parts(stored.parts).unwrap(), world.state);
}

#[test]
fn l6_a_crash_before_the_switch_leaves_the_old_store() {
    let (world, ..) = busy();
    let killed = TempDir::new().unwrap();
    let (path, incoming) = (killed.path().join("grid.db"), killed.path().join("grid.db.incoming"));
    copy_files(&world.path(), &path);
    fs::write(&incoming, b"half a snapshot").unwrap();
    let (_store, stored) = Store::open(&path).unwrap();
    assert_eq!(State::from_parts(stored.parts).unwrap(), world.state);
    assert!(!incoming.exists(), "what is left of it is taken away");
}
