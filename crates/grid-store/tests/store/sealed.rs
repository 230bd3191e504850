//! The seal: a store is believed only if it is what it was when it was closed in order.

use std::fs;

use grid_core::State;
use grid_store::{Store, Stored, is_sealed};
use tempfile::TempDir;

use crate::world::{World, copy_files, leaf};

#[test]
fn l5_a_store_is_sealed_when_it_is_closed_and_not_from_the_first_write_on() {
    let mut world = World::with_nodes(2);
    world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let path = world.path();
    assert!(!is_sealed(&path).unwrap(), "it is open and was written to");
    let (killed, _store, _) = world.as_killed();
    assert!(!is_sealed(&killed.path().join("grid.db")).unwrap());

    let World { store, state, folder: _folder, index, .. } = world;
    drop(store);
    for _ in 0..2 {
        assert!(is_sealed(&path).unwrap(), "a look at it breaks no seal");
        let (store, stored) = Store::open(&path).unwrap();
        assert_eq!(State::from_parts(stored.parts).unwrap(), state);
        assert!(store.reader().totals().is_ok());
    }
    let (mut store, _) = Store::open(&path).unwrap();
    let at = grid_store::Position { term: 9, index: index + 1 };
    store.persist(&state, &[], at, None).unwrap();
    assert!(!path.with_file_name("grid.db.seal").exists());
    drop(store);
    assert!(is_sealed(&path).unwrap());
}

#[test]
fn l5_a_store_or_seal_changed_anywhere_is_not_sealed() {
    let world = World::with_nodes(2);
    let path = world.path();
    let World { store, folder, .. } = world;
    drop(store);
    let seal = folder.path().join("grid.db.seal");
    for (file, stride) in [(&path, 613), (&seal, 1)] {
        let whole = fs::read(file).unwrap();
        for at in (0..whole.len()).step_by(stride) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for bad in [&flipped[..], &whole[..at]] {
                fs::write(file, bad).unwrap();
                assert!(!is_sealed(&path).unwrap(), "{} at {at}", file.display());
            }
        }
        fs::write(file, &whole).unwrap();
        assert!(is_sealed(&path).unwrap());
    }
    fs::write(folder.path().join("grid.db-wal"), b"would be replayed").unwrap();
    assert!(!is_sealed(&path).unwrap());
}

#[test]
fn l5_a_store_made_anew_is_empty_whatever_lay_there() {
    let mut world = World::with_nodes(3);
    world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let killed = TempDir::new().unwrap();
    let path = killed.path().join("grid.db");
    copy_files(&world.path(), &path);
    assert!(fs::metadata(killed.path().join("grid.db-wal")).unwrap().len() > 0);
    let (store, stored) = Store::open_anew(&path).unwrap();
    assert_eq!(stored, Stored::default());
    assert_eq!(store.reader().totals().unwrap().nodes["ready"], 0);
    drop(store);
    assert!(!is_sealed(&path).unwrap(), "nothing was written: there is nothing to believe");
}
