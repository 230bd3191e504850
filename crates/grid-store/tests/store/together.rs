//! Readers beside the writer: each read is one moment of the store, and nobody waits for the other for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use grid_core::Tally;
use grid_types::{JobStatus, Outcome};

use crate::world::{World, leaf, named};

#[test]
fn readers_see_whole_batches_while_batches_are_written() {
    let mut world = World::with_nodes(50);
    let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    world.store();
    let done = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicU64::new(0));
    // More than there are connections.
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let (reader, done, reads) = (world.reader(), Arc::clone(&done), Arc::clone(&reads));
            std::thread::spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let row = reader.job(&named("default", job)).unwrap().unwrap();
                    assert_eq!(row.tallies.iter().map(Tally::total).sum::<u64>(), 100, "I9 at any moment");
                    let succeeded = row.count(Outcome::Success);
                    let shown = row.results.unwrap();
                    let settled = shown.iter().filter(|row| row.result.status.is_settled());
                    assert_eq!(u64::try_from(settled.count()).unwrap(), succeeded, "rows as the counts");
                    assert!(succeeded >= last, "no going back");
                    last = succeeded;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    while world.state.jobs.contains_key(&job) {
        let seen = reads.load(Ordering::Relaxed);
        for lease in world.offered().into_iter().take(10) {
            world.report(lease, Outcome::Success);
        }
        world.store();
        // Each batch is looked at by someone before the next, unless the readers have ended by a failed assert.
        while reads.load(Ordering::Relaxed) == seen && !readers.iter().all(JoinHandle::is_finished) {
            std::thread::yield_now();
        }
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!(world.job(job).status, JobStatus::Completed);
}

#[test]
fn l6_readers_go_on_while_the_store_is_replaced() {
    let mut world = World::with_nodes(20);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let copy = world.folder.path().join("copy");
    world.store.write_copy(&copy).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (reader, done) = (world.reader(), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) || reads == 0 {
                    assert_eq!(reader.job(&named("default", job)).unwrap().unwrap().expected.unwrap().len(), 20);
                    reads += 1;
                }
            })
        })
        .collect();
    for _ in 0..10 {
        let stored = world.store.replace_by(&copy).unwrap();
        assert_eq!(stored.applied, Some(world.position()));
        world.store();
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
}
