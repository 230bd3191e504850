//! Which files are opened, and that the others are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use grid_core::State;
use grid_store::{Store, StoreError};
use grid_types::Outcome;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::world::{World, leaf, named};

#[test]
fn a_store_closed_in_order_is_one_file_and_opens_again() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let (path, position, reader) = (world.path(), world.position(), world.reader());
    assert!(reader.job(&named("default", job)).unwrap().is_some());
    let World { store, state, folder, .. } = world;
    drop(store);
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["grid.db", "grid.db.seal"], "no WAL is left behind");
    assert!(grid_store::is_sealed(&path).unwrap());
    let (_store, stored) = Store::open(&path).unwrap();
    assert_eq!(stored.applied, Some(position));
    assert_eq!(State::from_parts(stored.parts).unwrap(), state);
}

#[test]
fn l3_what_was_not_persisted_is_not_there_after_a_kill() {
    let mut world = World::with_nodes(1);
    let before = world.state.clone();
    let position = world.position();
    world.submit("all", vec![leaf("ping", "echo")]);
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(stored.applied, Some(position));
    assert_eq!(State::from_parts(stored.parts).unwrap(), before);
}

#[test]
fn a_wal_cut_anywhere_gives_the_state_after_some_batch() {
    let mut world = World::with_nodes(3);
    // A reader that stays keeps checkpoints from moving what comes now.
    let pin = Connection::open(world.path()).unwrap();
    pin.execute_batch("BEGIN; SELECT * FROM meta;").unwrap();
    let wal = world.folder.path().join("grid.db-wal");
    let kept = usize::try_from(fs::metadata(&wal).unwrap().len()).unwrap();
    let mut states = BTreeMap::from([(world.index, world.state.hash())]);
    for _ in 0..4 {
        world.submit("all", vec![leaf("ping", "echo")]);
        world.store();
        states.insert(world.index, world.state.hash());
    }
    let bytes = fs::read(&wal).unwrap();
    let mut seen = BTreeSet::new();
    for cut in (kept..=bytes.len()).step_by(1_999) {
        let torn = TempDir::new().unwrap();
        let path = torn.path().join("grid.db");
        fs::copy(world.path(), &path).unwrap();
        fs::write(torn.path().join("grid.db-wal"), &bytes[..cut]).unwrap();
        let (_store, stored) = Store::open(&path).unwrap();
        let index = stored.applied.unwrap().index;
        assert_eq!(State::from_parts(stored.parts).unwrap().hash(), states[&index], "cut at {cut}");
        seen.insert(index);
    }
    assert!(seen.len() >= 4, "cuts hit several batches: {seen:?}");
}

fn refused(path: &Path) -> StoreError {
    let before = fs::read(path).unwrap();
    let error = Store::open(path).err().expect("it must be refused");
    assert_eq!(fs::read(path).unwrap(), before, "a refused file stays as it is");
    let beside: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1, "nothing is left beside it: {beside:?}");
    error
}

#[test]
fn a_foreign_file_is_refused_and_unchanged() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("grid.db");
    for foreign in [&b"not a database at all"[..], b"", b"SQLite format 3\0 but short"] {
        fs::write(&path, foreign).unwrap();
        let error = refused(&path);
        assert_eq!(error, StoreError::Foreign { path: path.clone() });
        assert!(error.to_string().contains("grid.db"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);").unwrap();
    other.close().unwrap();
    assert_eq!(refused(&path), StoreError::Foreign { path });
}

#[test]
fn a_newer_store_is_refused_and_unchanged() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("grid.db");
    drop(Store::open(&path).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    newer.close().unwrap();
    let error = refused(&path);
    assert_eq!(error, StoreError::Newer { path, found: 99, known: 3 });
    assert!(error.to_string().contains("newer grid"), "{error}");
}

#[test]
fn an_older_store_is_no_use_but_to_be_made_anew() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("grid.db");
    drop(Store::open(&path).unwrap());
    let seal = || {
        let bytes = fs::read(&path).unwrap();
        let seal = format!("grid store, {} bytes, blake3 {}\n", bytes.len(), blake3::hash(&bytes).to_hex());
        fs::write(folder.path().join("grid.db.seal"), seal).unwrap();
        grid_store::is_sealed(&path).unwrap()
    };
    assert!(seal());
    let older = Connection::open(&path).unwrap();
    older.execute_batch("PRAGMA user_version = 1").unwrap();
    older.close().unwrap();
    // As the older grid would have left it, closed in order.
    assert!(!seal(), "the controller replays the log instead");
    fs::remove_file(folder.path().join("grid.db.seal")).unwrap();
    let error = refused(&path);
    assert_eq!(error, StoreError::Older { path: path.clone(), found: 1, known: 3 });
    assert!(error.to_string().contains("older grid") && error.to_string().contains("--replace"), "{error}");
    let (_, stored) = Store::open_anew(&path).unwrap();
    assert_eq!(stored.applied, None);
}

#[test]
fn damage_is_named_and_the_way_out_with_it() {
    let mut world = World::with_nodes(200);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    world.store();
    let path = world.path();
    assert!(world.job(job).results.is_some());
    let World { store, folder: _folder, .. } = world;
    drop(store);
    let whole = fs::read(&path).unwrap();
    let mut scribbled = whole.clone();
    for page in scribbled.chunks_mut(4096).skip(1) {
        page[..64].fill(0x5a);
    }
    for damaged in [&whole[..whole.len() / 3], &scribbled] {
        fs::write(&path, damaged).unwrap();
        let error = Store::open(&path).err().expect("damage must not pass");
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("grid.db-wal away") && text.contains("snapshot"), "{text}");
        assert!(fs::read(&path).unwrap() == damaged, "evidence is kept");
    }
}

#[test]
fn a_value_that_cannot_be_read_is_damage_too() {
    let world = World::with_nodes(1);
    let path = world.path();
    let World { store, folder: _folder, .. } = world;
    drop(store);
    let scribbler = Connection::open(&path).unwrap();
    scribbler.execute("UPDATE nodes SET node = x'ff00'", []).unwrap();
    scribbler.close().unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_wal_without_its_database_is_not_replayed_into_a_new_one() {
    let mut world = World::with_nodes(3);
    world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("grid.db");
    fs::copy(world.folder.path().join("grid.db-wal"), folder.path().join("grid.db-wal")).unwrap();
    let (store, stored) = Store::open(&path).unwrap();
    assert_eq!(stored, grid_store::Stored::default());
    assert_eq!(store.reader().totals().unwrap().nodes["ready"], 0);
}

#[test]
fn a_half_made_store_is_made_anew() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("grid.db");
    fs::write(folder.path().join("grid.db.new"), b"half").unwrap();
    let (_store, stored) = Store::open(&path).unwrap();
    assert_eq!(stored.applied, None);
    assert!(!folder.path().join("grid.db.new").exists());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = TempDir::new().unwrap();
    let error = Store::open(&folder.path().join("missing/grid.db")).err().unwrap();
    assert!(matches!(error, StoreError::Failed { doing: "create", .. }), "{error:?}");
    assert!(error.to_string().contains("missing/grid.db"), "{error}");
}
