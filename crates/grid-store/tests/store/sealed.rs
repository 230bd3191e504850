//! The seal: a store is believed only if it is what it was when it was closed in order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use grid_core::{State, apply};
use grid_store::{Position, Store, Stored, is_sealed};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use crate::random::Random;
use crate::round_trip::happen;
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
    let at = Position { term: 9, index: index + 1 };
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

/// Every table whose rows do not depend on which entries were written together, and how the others are made
/// comparable: cells are compared as the state they give, and when a row of a forgotten job goes is nobody's business.
const READS: [(&str, &str); 9] = [
    ("jobs", "SELECT * FROM jobs ORDER BY id"),
    ("specs", "SELECT * FROM specs ORDER BY job"),
    ("expected", "SELECT * FROM expected ORDER BY job"),
    ("keys", "SELECT * FROM keys ORDER BY job"),
    ("nodes", "SELECT * FROM nodes ORDER BY ord"),
    ("totals", "SELECT * FROM job_totals WHERE jobs <> 0 ORDER BY status"),
    (
        "results",
        "SELECT r.id, r.job, step, node, job_epoch, attempt, outcome, duration_ms, started_ms, leader_epoch, hash, tail,
         output_bytes, reason, error FROM results r LEFT JOIN outputs o ON o.id = r.output
         WHERE r.job IN (SELECT id FROM jobs) ORDER BY r.id",
    ),
    (
        "skips",
        "SELECT job, node, job_epoch, from_step, to_step, leader_epoch, reason FROM skips
         WHERE job IN (SELECT id FROM jobs) ORDER BY id",
    ),
    ("events", "SELECT * FROM events WHERE job IS NULL OR job IN (SELECT id FROM jobs) ORDER BY id"),
];

fn rows(path: &Path) -> BTreeMap<&'static str, Vec<Vec<Value>>> {
    let conn = Connection::open(path).unwrap();
    let wrong = "SELECT count(*) FROM (SELECT status, count(*) AS n FROM jobs GROUP BY status) FULL JOIN job_totals
                 USING (status) WHERE coalesce(n, 0) <> coalesce(jobs, 0)";
    assert_eq!(conn.query_one(wrong, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "totals are not those of the rows");
    let all = READS.into_iter().map(|(name, read)| {
        let mut select = conn.prepare(read).unwrap();
        let columns = select.column_count();
        let rows = select.query_map([], |row| (0..columns).map(|at| row.get(at)).collect()).unwrap();
        let rows: Vec<Vec<Value>> = rows.map(Result::unwrap).collect();
        (name, rows)
    });
    all.collect()
}

/// A store filled by the log of `world`, so many entries of a term in one transaction.
fn made_anew(world: &World, path: &Path, together: usize) -> Store {
    let (mut store, _) = Store::open_anew(path).unwrap();
    let (mut state, mut index) = (State::default(), 0);
    let terms = world.log.chunk_by(|one, next| one.head.term == next.head.term);
    for part in terms.flat_map(|term| term.chunks(together)) {
        let changes: Vec<_> = part.iter().map(|entry| apply(&mut state, entry).changes).collect();
        index += u64::try_from(part.len()).unwrap();
        let at = Position { term: state.meta.leadership.term, index };
        store.persist(&state, &changes, at, world.membership.as_deref()).unwrap();
    }
    assert_eq!(state, world.state);
    store
}

#[test]
fn i13_a_store_made_anew_from_the_log_has_the_rows_of_the_old_one() {
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..=6 {
        let mut random = Random::new(seed);
        let mut world = World::with_nodes(5);
        for batch in 0..60 {
            for _ in 0..=random.below(4) {
                happen(&mut world, &mut random);
            }
            world.store();
            if batch % 10 != 9 {
                continue;
            }
            let old = rows(&world.path());
            for together in [1, 64, world.log.len()] {
                let folder = TempDir::new().unwrap();
                let path = folder.path().join("grid.db");
                let store = made_anew(&world, &path, together);
                for (table, rows) in rows(&path) {
                    assert_eq!(rows, old[table], "seed {seed}, {together} together: {table}");
                    *compared.entry(table).or_default() += rows.len();
                }
                drop(store);
                let (_store, stored) = Store::open(&path).unwrap();
                assert_eq!(State::from_parts(stored.parts).unwrap(), world.state);
            }
        }
    }
    assert!(compared.values().all(|rows| *rows > 50), "few rows to compare: {compared:?}");
}
