//! What rows say of jobs, steps and nodes.

use grid_core::{Command, RecordResult};
use grid_store::{Note, ResultFilter};
use grid_types::job::Strategy;
use grid_types::node::NodeStatus;
use grid_types::{Detail, JobStatus, Name, NodeId, NodeOrd, Outcome, Revoked};

use crate::world::{WALL_MS, World, leaf, named, pipeline, reason, result, retrying, task};

#[test]
fn a_job_has_its_counts_its_nodes_and_its_results() {
    let mut world = World::with_nodes(2);
    let job = world.submit(
        "group:web",
        vec![leaf("ping", "echo"), pipeline(vec![task("ping", "hostname"), task("ping", "echo")])],
    );
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    world.store();
    let row = world.job(job);
    assert_eq!((row.id, row.namespace.as_str()), (job, "default"));
    assert_eq!((row.status, row.reason.as_ref()), (JobStatus::Running, None));
    assert_eq!(row.spec.target.to_string(), "group:web");
    assert_eq!((row.spec.phases.len(), row.owner.as_deref()), (2, Some("c5")));
    assert_eq!((row.phase, row.epoch.0, row.leader_epoch.wire()), (1, 1, 1));
    assert_eq!(row.expected.as_deref().unwrap(), ["node-1", "node-2"]);
    let counts = [Outcome::Success, Outcome::Running, Outcome::Pending].map(|outcome| row.count(outcome));
    assert_eq!((counts, row.tallies.len()), ([2, 2, 2], 3));
    assert_eq!(row.tallies[0].count(Outcome::Success), 2);
    assert_eq!((row.created_wall_ms, row.updated_wall_ms), (WALL_MS, WALL_MS));
    let first = result(&row, 0, "node-1");
    assert_eq!((first.status, first.attempts, first.duration_ms), (Outcome::Success, 1, Some(2_345)));
    assert_eq!((first.started_wall_ms, &first.error, &first.note), (Some(WALL_MS), &None, &None));
}

#[test]
fn a_result_says_how_its_program_ended_beside_its_reason() {
    let mut world = World::with_nodes(3);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    let exited = Detail { exit_code: Some(3), signal: None, changed: Some(false) };
    let killed = Detail { exit_code: None, signal: Some(9), changed: None };
    for (lease, (detail, truncated)) in
        world.offered().into_iter().zip([(Some(exited), true), (Some(killed), false), (None, true)])
    {
        let Command::RecordResult(result) = world.result_command(lease, Outcome::Success, b"") else { panic!() };
        let result = RecordResult { detail, output_truncated: truncated, ..result };
        world.one(Command::RecordResult(result)).unwrap();
    }
    world.store();
    let told = |node: &str| {
        let row = world.row(job, 0, node);
        (row.exit_code, row.signal, row.changed, row.note.is_some())
    };
    assert_eq!(told("node-1"), (Some(3), None, Some(false), true));
    assert_eq!(told("node-2"), (None, Some(9), None, false));
    assert_eq!(told("node-3"), (None, None, None, true), "a row as it was before there were details");
}

#[test]
fn a_job_that_has_not_started_has_zero_counts_and_no_nodes() {
    let mut world = World::new();
    world.quotas.max_concurrent = 0;
    world.begin_term(6);
    world.add_nodes(2);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let row = world.job(job);
    assert_eq!((row.status, row.tallies.len()), (JobStatus::Pending, 0));
    assert_eq!((row.expected.unwrap().len(), row.results.unwrap().len()), (0, 0));
    assert_eq!(world.all_rows(job, 10, None, None), []);
}

#[test]
fn jobs_are_found_in_their_own_namespace_only() {
    let mut world = World::with_nodes(1);
    world.namespace = "team";
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let reader = world.reader();
    assert!(reader.job(&named("team", job)).unwrap().is_some());
    assert_eq!(reader.job(&named("default", job)).unwrap(), None);
    assert_eq!(reader.results(&named("default", job), 10, None, ResultFilter::default()).unwrap(), None);
    assert_eq!(reader.outputs(&named("default", job), grid_types::StepIndex(0)).unwrap(), None);
    assert_eq!(reader.jobs(&"default".parse().unwrap(), 10, &grid_store::JobFilter::default()).unwrap().items, []);
}

#[test]
fn a_retry_that_waits_is_pending_and_one_that_runs_is_running() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![retrying(1)]);
    let first = world.offered()[0];
    world.report(first, Outcome::Failed);
    world.store();
    let waits = world.row(job, 0, "node-1");
    assert_eq!((waits.status, waits.attempts, waits.error), (Outcome::Pending, 1, None));
    let Some(Note::Backoff { attempt: 2, until_wall_ms }) = waits.note else { panic!("{:?}", waits.note) };
    assert!((WALL_MS..WALL_MS + 10_000).contains(&until_wall_ms), "{until_wall_ms}");
    world.advance_ms(5_000);
    world.store();
    let runs = world.row(job, 0, "node-1");
    assert_eq!((runs.status, runs.attempts, runs.duration_ms), (Outcome::Running, 2, None));
    assert_eq!(runs.started_wall_ms, Some(WALL_MS + 5_000));
    let second = world.offered()[0];
    world.report(second, Outcome::Failed);
    world.store();
    let failed = world.row(job, 0, "node-1");
    assert_eq!((failed.status, failed.attempts, failed.error.as_deref()), (Outcome::Failed, 2, Some("boom 2")));
}

#[test]
fn a_lease_that_waits_for_a_slot_says_so() {
    let mut world = World::new();
    world.slots = 1;
    world.add_nodes(1);
    world.submit("all", vec![leaf("ping", "echo")]);
    let waits = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let row = world.row(waits, 0, "node-1");
    assert_eq!((row.status, row.attempts), (Outcome::Pending, 0));
    assert_eq!(row.note, Some(Note::Queued { attempt: 1 }));
}

#[test]
fn skipped_steps_say_why_one_by_one_and_all_at_once() {
    let mut world = World::with_nodes(2);
    let dead = world.mark_command(NodeOrd(1), NodeStatus::Dead);
    world.one(dead).unwrap();
    let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    let only = world.offered()[0];
    world.report(only, Outcome::Failed);
    world.store();
    let offline = world.row(job, 0, "node-1");
    assert_eq!((offline.status, offline.attempts, offline.started_wall_ms), (Outcome::Skipped, 0, None));
    assert!(reason(&offline).unwrap().contains("offline"));
    for node in ["node-1", "node-2"] {
        let later = world.row(job, 1, node);
        assert_eq!(later.status, Outcome::Skipped);
        assert!(reason(&later).unwrap().contains("fail-fast"), "a row for all nodes");
    }
    assert_eq!(world.row(job, 0, "node-2").status, Outcome::Failed);
}

#[test]
fn w9_a_cancelled_step_runs_until_its_worker_confirms() {
    let mut world = World::with_nodes(3);
    let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    let leases = world.offered();
    world.report(leases[0], Outcome::Success);
    world.cancel(job).unwrap();
    world.store();
    let row = world.job(job);
    assert_eq!((row.status, row.epoch.0, row.count(Outcome::Running)), (JobStatus::Cancelled, 2, 2));
    let stopping = world.row(job, 0, "node-2");
    assert_eq!(stopping.status, Outcome::Running);
    assert_eq!(stopping.note, Some(Note::Stopping(Revoked::Cancel)));
    let ran = world.confirm_command(leases[1], Some(Outcome::Cancelled));
    let never_ran = world.confirm_command(leases[2], None);
    world.apply(vec![ran, never_ran]);
    world.store();
    assert!(world.state.jobs.is_empty());
    let ran = world.row(job, 0, "node-2");
    assert_eq!((ran.status, ran.attempts, ran.duration_ms), (Outcome::Cancelled, 1, Some(10)));
    let never_ran = world.row(job, 0, "node-3");
    assert_eq!((never_ran.status, never_ran.attempts, never_ran.duration_ms), (Outcome::Cancelled, 0, None));
    assert_eq!(world.row(job, 0, "node-1").status, Outcome::Success, "of the epoch before, and still true");
    assert_eq!(reason(&world.row(job, 1, "node-1")).as_deref(), Some("job cancelled"));
}

#[test]
fn w8_an_unknown_that_the_journal_settles_shows_the_later_row() {
    let mut world = World::with_nodes(2);
    world.strategy = Strategy::Continue;
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    let lease = world.offered()[0];
    world.expire(lease);
    world.store();
    let unknown = world.row(job, 0, "node-1");
    assert_eq!((unknown.status, unknown.attempts), (Outcome::Unknown, 1));
    assert_eq!(reason(&unknown).as_deref(), Some("no result within its timeout"));
    world.report(lease, Outcome::Success);
    world.store();
    let settled = world.row(job, 0, "node-1");
    assert_eq!((settled.status, settled.attempts, settled.note), (Outcome::Success, 1, None));
}

#[test]
fn a_task_that_the_node_does_not_run_failed_without_an_attempt() {
    let mut world = World::new();
    let command = world.register_command("bare", "journal", 1, false);
    world.one(command).unwrap();
    let job = world.submit("all", vec![leaf("test", "fail")]);
    world.store();
    let row = world.row(job, 0, "bare");
    assert_eq!((row.status, row.attempts, row.duration_ms, row.started_wall_ms), (Outcome::Failed, 0, None, None));
    assert!(reason(&row).unwrap().contains("does not run"));
}

#[test]
fn rows_of_nodes_and_totals() {
    let mut world = World::with_nodes(2);
    world.submit("all", vec![leaf("ping", "echo")]);
    world.submit("node:node-1", vec![pipeline(vec![task("ping", "echo"), task("ping", "echo")])]);
    let unhealthy = world.mark_command(NodeOrd(2), NodeStatus::Unhealthy);
    world.now_ms = 7_000;
    world.one(unhealthy).unwrap();
    world.store();
    let reader = world.reader();
    let node = |id: &str| reader.node(&id.parse::<NodeId>().unwrap()).unwrap();
    let first = node("node-1").unwrap();
    assert_eq!((first.ord.0, first.session.0, first.leases), (1, 1, 2));
    assert_eq!((first.status, first.leader_epoch.wire()), (NodeStatus::Ready, 1));
    assert_eq!((first.facts.hostname.as_str(), first.facts.labels["rack"].as_str()), ("node-1.example", "r1"));
    assert_eq!(first.facts.groups.iter().map(Name::as_str).collect::<Vec<_>>(), ["web"]);
    assert!(first.facts.backends["ping"].contains("echo"));
    let second = node("node-2").unwrap();
    assert_eq!((second.status, second.leases), (NodeStatus::Unhealthy, 1));
    assert_eq!((second.seen_wall_ms, second.registered_wall_ms), (WALL_MS + 7_000, WALL_MS));
    assert_eq!(node("node-3"), None);
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    world.store();
    assert_eq!(node("node-2").unwrap().leases, 0, "a settled lease is not held");
    assert_eq!(node("node-1").unwrap().leases, 1, "the pipeline's second step");
    let totals = reader.totals().unwrap();
    let by_status = (totals.nodes["ready"], totals.nodes["unhealthy"], totals.nodes["dead"]);
    assert_eq!(by_status, (2, 0, 0), "whoever reports is there again");
    assert_eq!((totals.jobs["running"], totals.jobs["completed"], totals.jobs["pending"]), (1, 1, 0));
    assert_eq!(totals.applied_index, world.index);
}
