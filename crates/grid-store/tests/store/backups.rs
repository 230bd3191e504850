//! Backups: whole or refused, and good for a restore.

use std::fs;
use std::path::{Path, PathBuf};

use grid_core::State;
use grid_store::{Store, StoreError, unpack};
use grid_types::{JobId, Outcome};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::world::{World, leaf, named};

/// A world with an ended and a running job, and a folder to put things in.
fn busy() -> (World, [JobId; 2], TempDir) {
    let mut world = World::with_nodes(3);
    let ended = world.submit("all", vec![leaf("ping", "echo")]);
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    let runs = world.submit("all", vec![leaf("ping", "echo"), leaf("test", "record")]);
    world.store();
    (world, [ended, runs], TempDir::new().unwrap())
}

fn names(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn assert_same(world: &World, jobs: [JobId; 2], unpacked: &Path) {
    let (store, stored) = Store::open(unpacked).unwrap();
    assert_eq!(stored.applied, Some(world.position()));
    assert_eq!(stored.membership.as_deref(), Some(&b"new members"[..]));
    assert_eq!(State::from_parts(stored.parts).unwrap(), world.state);
    for job in jobs {
        assert_eq!(store.reader().job(&named("default", job)).unwrap(), Some(world.job(job)));
    }
}

#[test]
fn a_backup_is_one_file_that_says_what_it_holds_and_unpacks_to_it() {
    let (mut world, jobs, folder) = busy();
    let (path, out) = (folder.path().join("backup"), folder.path().join("out.sqlite"));
    let written = world.reader().write_backup(&path, Some(1_790_000_000_000)).unwrap();
    assert_eq!(names(folder.path()), std::slice::from_ref(&path), "nothing but the backup");
    assert_eq!((written.info.jobs, written.info.nodes, written.info.applied), (2, 3, world.position()));
    assert_eq!(written.info.cluster_id, world.state.meta.cluster_id);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(written.file_bytes, bytes.len() as u64);
    assert_eq!(written.file_blake3, blake3::hash(&bytes).to_hex().to_string());

    let info = unpack(&path, &out, |info| {
        assert_eq!(info, &written.info);
        b"new members".to_vec()
    });
    assert_eq!(info.unwrap(), written.info);
    assert_same(&world, jobs, &out);
    assert!(world.reader().write_backup(&path, Some(0)).is_err(), "an existing file is not overwritten");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
}

#[test]
fn issue13_12_a_stale_backup_says_so_with_the_time_of_its_state() {
    let (world, _, folder) = busy();
    let unpacked = |current: Option<u64>, name: &str| {
        let (path, out) = (folder.path().join(name), folder.path().join(format!("{name}.sqlite")));
        let written = world.reader().write_backup(&path, current).unwrap();
        let info = unpack(&path, &out, |_| Vec::new()).unwrap();
        assert_eq!(info, written.info);
        (info.stale, info.taken_wall_ms, info.applied, info.epoch)
    };
    let meta = &world.state.meta;
    let (at, epoch) = (world.position(), meta.leadership.epoch);
    let now = meta.wall_ms + 86_400_000;
    assert_eq!(unpacked(Some(now), "confirmed"), (false, now, at, epoch));
    assert_eq!(unpacked(None, "stale"), (true, meta.wall_ms, at, epoch), "not the time of the copy");
}

#[test]
fn a_backup_damaged_anywhere_is_refused_and_leaves_nothing() {
    let (world, _, folder) = busy();
    let (path, bad, out) = (folder.path().join("backup"), folder.path().join("bad"), folder.path().join("out.sqlite"));
    world.reader().write_backup(&path, Some(7)).unwrap();
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&bad, bytes).unwrap();
        let error = unpack(&bad, &out, |_| Vec::new()).err().unwrap_or_else(|| panic!("{what} was taken"));
        assert!(matches!(error, StoreError::BadBackup { .. }), "{what}: {error:?}");
        assert!(error.to_string().contains("bad"), "{error}");
        assert_eq!(names(folder.path()).len(), 2, "{what} left something behind");
        error.to_string()
    };
    // Every byte of the header, and a stride over the rest.
    let places: Vec<usize> = (0..300).chain((300..whole.len()).step_by(4_099)).chain([whole.len() - 1]).collect();
    for at in places {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped, &format!("a flip at {at}"));
        refused(&whole[..at], &format!("a cut at {at}"));
    }
    assert!(refused(&[&whole[..], b"x"].concat(), "a longer file").contains("too many"));
    assert!(refused(b"a letter to the editor, and nothing of ours", "a foreign file").contains("not a backup"));

    let mut newer = whole[..whole.len() - 40].to_vec();
    newer[11] = 9;
    let header = u32::from_be_bytes(newer[12..16].try_into().unwrap()) as usize;
    let hash = blake3::hash(&newer[..16 + header]);
    newer[16 + header..48 + header].copy_from_slice(hash.as_bytes());
    assert!(refused(&newer, "a newer one").contains("newer grid"));
}

#[test]
fn the_store_of_a_killed_controller_is_a_source_with_its_wal_and_is_not_touched() {
    let (world, jobs, folder) = busy();
    let out = folder.path().join("out.sqlite");
    let wal = world.folder.path().join("grid.db-wal");
    assert!(fs::metadata(&wal).unwrap().len() > 0);
    let before = (fs::read(world.path()).unwrap(), fs::read(&wal).unwrap());
    assert_eq!(grid_store::peek(&world.path()).unwrap().applied, world.position());
    unpack(&world.path(), &out, |_| b"new members".to_vec()).unwrap();
    assert_same(&world, jobs, &out);
    assert!((fs::read(world.path()).unwrap(), fs::read(&wal).unwrap()) == before);
}

#[test]
fn a_store_that_fails_its_own_check_is_no_source() {
    let (world, _, folder) = busy();
    let (source, out) = (folder.path().join("source"), folder.path().join("out.sqlite"));
    drop((world.reader(), unpack(&world.path(), &source, |_| Vec::new()).unwrap()));
    // An index that lacks a row.
    let scribbler = Connection::open(&source).unwrap();
    scribbler
        .execute_batch("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'results_by_place';")
        .unwrap();
    scribbler.close().unwrap();
    let error = unpack(&source, &out, |_| Vec::new()).unwrap_err();
    assert!(matches!(error, StoreError::BadBackup { .. }), "{error:?}");
    assert!(error.to_string().contains("take another backup"), "{error}");
    assert!(!out.exists());
    assert!(grid_store::peek(&source).is_err());
    assert!(unpack(folder.path(), &out, |_| Vec::new()).unwrap_err().to_string().contains("folder"));
    assert!(unpack(&folder.path().join("none"), &out, |_| Vec::new()).is_err());
}
