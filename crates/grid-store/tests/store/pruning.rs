//! L6: of a forgotten job nothing is found at once, and nothing is stored in the end.

use grid_core::{Command, LeaveNode, PruneHistory, ReclaimNodes, RemoveNode, Reply, State};
use grid_store::{EventFilter, RerunOn};
use grid_types::{JobId, NodeOrd, Outcome};
use rusqlite::Connection;

use crate::world::{World, leaf, named, pipeline, task};

fn prune(world: &mut World, jobs: Vec<JobId>) {
    world.one(Command::PruneHistory(PruneHistory { ended_before_ms: u64::MAX, jobs, events_before_ms: 0 })).unwrap();
    world.store();
}

/// Rows of each table that has rows of jobs.
fn rows(world: &World) -> Vec<(&'static str, u64)> {
    let conn = Connection::open(world.path()).unwrap();
    let count = |table| {
        let filter = if table == "events" { "job IS NOT NULL" } else { "1" };
        let sql = format!("SELECT count(*) FROM {table} WHERE {filter}");
        (table, conn.query_one(&sql, [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned())
    };
    let tables = ["jobs", "specs", "expected", "cells", "results", "skips", "outputs", "events", "pruned"];
    tables.into_iter().map(count).filter(|(_, rows)| *rows > 0).collect()
}

fn ended_job(world: &mut World) -> JobId {
    let job =
        world.submit("all", vec![pipeline(vec![task("ping", "echo"), task("ping", "echo")]), leaf("ping", "echo")]);
    let first = world.offered();
    world.report_with(first[0], Outcome::Failed, b"its own");
    for lease in &first[1..] {
        world.report(*lease, Outcome::Success);
    }
    world.store();
    assert!(world.state.stubs.contains_key(&job));
    job
}

#[test]
fn nothing_is_left_of_a_forgotten_job_and_the_others_stay_whole() {
    let mut world = World::with_nodes(3);
    let (old, young) = (ended_job(&mut world), ended_job(&mut world));
    let before = world.job(young);
    prune(&mut world, vec![old]);
    let reader = world.reader();
    assert_eq!(reader.job(&named("default", old)).unwrap(), None);
    assert_eq!(reader.resumable(&named("default", old), RerunOn::AllNodes, 0).unwrap(), None);
    assert_eq!(reader.jobs(&"default".parse().unwrap(), 10, &grid_store::JobFilter::default()).unwrap().items.len(), 1);
    assert_eq!(reader.totals().unwrap().jobs["failed"], 1);
    assert_eq!(world.job(young), before);
    let output = world.output(young, "node-2").unwrap();
    assert_eq!(output.tail, b"out\n", "equal to one that is gone, and not gone with it");
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(State::from_parts(stored.parts).unwrap().hash(), world.state.hash());
    prune(&mut world, vec![young]);
    assert_eq!(rows(&world), []);
}

#[test]
fn a_large_job_goes_in_steps_that_survive_a_restart() {
    let mut world = World::with_nodes(1_500);
    let job = ended_job(&mut world);
    assert!(rows(&world).contains(&("results", 1_500)));
    let jobs: Vec<_> = (0..2).map(|_| ended_job(&mut world)).chain([job]).collect();
    prune(&mut world, jobs);
    assert_eq!(
        world.reader().jobs(&"default".parse().unwrap(), 10, &grid_store::JobFilter::default()).unwrap().items,
        []
    );
    let mut last = u64::MAX;
    for round in 0.. {
        let left: u64 = rows(&world).iter().map(|(_, rows)| *rows).sum();
        assert!(left < last, "round {round}: every batch takes some");
        assert!(last == u64::MAX || last - left <= 2_000 + 10, "round {round}: and only so many");
        last = left;
        if left == 0 {
            assert!(round > 1, "it was more than one batch takes");
            return;
        }
        let path = world.path();
        (world.store, _) = grid_store::Store::open(&path).unwrap();
        assert!(world.reader().unswept_jobs().unwrap() > 0);
        prune(&mut world, Vec::new());
    }
}

/// A cell's row counts until a result comes after it: the numbers of results must never begin anew.
#[test]
fn i13_what_is_open_stays_so_when_the_newest_results_are_pruned() {
    let mut world = World::with_nodes(3);
    let old = ended_job(&mut world);
    let runs = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    prune(&mut world, vec![old]);
    assert_eq!(world.reader().unswept_jobs().unwrap(), 0);
    let path = world.path();
    (world.store, _) = grid_store::Store::open(&path).unwrap();
    let leases = world.offered();
    world.report(leases[0], Outcome::Success);
    world.store();
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(State::from_parts(stored.parts).unwrap(), world.state);
    assert_eq!(world.row(runs, 0, "node-1").status, Outcome::Success);
}

#[test]
fn issue13_19_events_of_nodes_and_terms_are_pruned_by_leader_time() {
    let mut world = World::with_nodes(2);
    let job = ended_job(&mut world);
    world.advance_ms(60_000);
    let between_ms = world.state.meta.now_ms;
    world.advance_ms(1);
    world
        .one(Command::LeaveNode(LeaveNode {
            node: NodeOrd(2),
            session: world.state.nodes[&NodeOrd(2)].session,
            nothing_outstanding: true,
        }))
        .unwrap();
    world.store();
    let loose = |world: &World| -> Vec<String> {
        let (events, _) = world.reader().events_after(&EventFilter::default(), 0, 1_000).unwrap();
        events.into_iter().filter(|event| event.job.is_none()).map(|event| event.event.kind().to_owned()).collect()
    };
    assert!(loose(&world).len() > 2 && world.reader().has_loose_events_before(between_ms).unwrap());
    let old = PruneHistory { ended_before_ms: 0, jobs: Vec::new(), events_before_ms: between_ms };
    world.one(Command::PruneHistory(old)).unwrap();
    world.store();
    assert_eq!(loose(&world), ["NodeLeft"]);
    assert!(!world.reader().has_loose_events_before(between_ms).unwrap());
    let (events, _) = world.reader().events_after(&EventFilter::default(), 0, 1_000).unwrap();
    assert!(events.iter().any(|event| event.job == Some(job)), "those of jobs go with their job");
}

#[test]
fn issue13_19_a_reclaimed_node_leaves_the_store_and_one_that_a_stored_job_names_is_told_apart() {
    let mut world = World::with_nodes(3);
    ended_job(&mut world);
    let register = world.register_command("node-4", "journal-4", 1, true);
    let Ok(Reply::Registered { node: fourth, .. }) = world.one(register) else { panic!("node-4 is new") };
    let named = world.reader().expected_among(&[NodeOrd(1), fourth].into()).unwrap();
    assert_eq!(named, [NodeOrd(1)].into());
    world.one(Command::RemoveNode(RemoveNode { node: fourth, force: true, lapsed: false })).unwrap();
    let session = world.state.nodes[&fourth].session;
    world.one(Command::ReclaimNodes(ReclaimNodes { nodes: vec![(fourth, session)] })).unwrap();
    world.store();
    assert_eq!(world.reader().node(&"node-4".parse().unwrap()).unwrap(), None);
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(State::from_parts(stored.parts).unwrap().hash(), world.state.hash());
}

/// A listener that comes back names the newest event that it has seen, whether that is still stored or not.
#[test]
fn e2_the_newest_number_stays_when_the_newest_events_are_pruned() {
    let mut world = World::with_nodes(1);
    let job = ended_job(&mut world);
    world.store();
    let newest = world.reader().newest_event().unwrap();
    prune(&mut world, vec![job]);
    let (left, last) = world.reader().events_after(&EventFilter::default(), 0, 1_000).unwrap();
    assert!(last > newest && left.iter().all(|event| event.job.is_none()));
    world.advance_ms(60_000);
    let all = PruneHistory { ended_before_ms: 0, jobs: Vec::new(), events_before_ms: world.state.meta.now_ms };
    world.one(Command::PruneHistory(all)).unwrap();
    world.store();
    let (left, reached) = world.reader().events_after(&EventFilter::default(), last, 10).unwrap();
    assert_eq!((left.len(), reached), (0, last));
    let (left, _) = world.reader().events_after(&EventFilter::default(), 0, 10).unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(world.reader().newest_event().unwrap(), last);
}
