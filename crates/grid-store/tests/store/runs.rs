//! Runs of a job: each stays on record, and views show the newest or the one that is asked for (J8).

use grid_core::{Command, ConfirmJob, JournalOfJob, RanEnd, RegisterNode, ReportJournal, RestoredFrom, ResumeJob};
use grid_store::{JobRow, LogFilter, RerunOn, ResultFilter, RunRow};
use grid_types::job::{Condition, Phase, Strategy};
use grid_types::{JobId, JobStatus, NodeOrd, Outcome, Reason, RunKind, StepIndex};

use crate::world::{World, leaf, named, result, retrying};

fn cleanup() -> Phase {
    Phase { condition: Condition::OnFailure, ..leaf("ping", "echo") }
}

/// As a leader does it; the run before must be stored.
pub fn rerun(world: &mut World, job: JobId, on: RerunOn) {
    let command = resume_command(world, job, on);
    world.one(Command::ResumeJob(command)).unwrap();
}

fn resume_command(world: &World, job: JobId, on: RerunOn) -> ResumeJob {
    let found = world.reader().resumable(&named("default", job), on, 0).unwrap().unwrap();
    ResumeJob {
        namespace: found.head.namespace,
        job,
        epoch: found.head.epoch,
        spec: found.spec,
        expected: found.expected,
        done: found.done,
        created_wall_ms: found.head.created_wall_ms,
        only: found.only,
        restored: None,
        run: found.head.run,
        complete_journals: None,
        unchanged: found.unchanged,
        changed: found.changed,
    }
}

/// Run 1 fails on node-2 and cleans up there; run 2 retries it and succeeds.
fn retried() -> (World, JobId) {
    let mut world = World::with_nodes(2);
    world.strategy = Strategy::Continue;
    let job = world.submit("all", vec![leaf("ping", "echo"), cleanup()]);
    let leases = world.offered();
    world.report_with(leases[0], Outcome::Success, b"first on node-1\n");
    world.report_with(leases[1], Outcome::Failed, b"first on node-2\n");
    for lease in world.offered() {
        world.report_with(lease, Outcome::Success, b"cleaned up\n");
    }
    world.store();
    assert_eq!(world.job(job).status, JobStatus::Completed, "one of two may fail");
    world.advance_ms(1_000);
    rerun(&mut world, job, RerunOn::FailedNodes);
    world.report_with(world.offered()[0], Outcome::Success, b"second on node-2\n");
    world.store();
    (world, job)
}

fn outputs(world: &World, job: JobId, step: u32, run: Option<u32>) -> Vec<(Vec<String>, String)> {
    let groups = world.reader().outputs_in(&named("default", job), StepIndex(step), run).unwrap().unwrap();
    let mut groups: Vec<_> =
        groups.into_iter().map(|group| (group.nodes, String::from_utf8(group.tail).unwrap())).collect();
    groups.sort();
    groups
}

fn log_rows(world: &World, job: JobId, run: Option<u32>) -> Vec<(u32, String)> {
    let filter = LogFilter { run, ..LogFilter::default() };
    let (rows, _) = world.reader().log_page(&named("default", job), &filter, None, 100).unwrap().unwrap();
    rows.into_iter().map(|row| (row.lease.step.0, row.name)).collect()
}

#[test]
fn j8_each_run_stays_on_record_and_the_newest_is_shown() {
    let (world, job) = retried();
    let newest = world.job(job);
    assert_eq!((newest.run, newest.status), (2, JobStatus::Completed));
    let runs = newest.runs.as_ref().unwrap();
    let failed = |run: &RunRow| run.counts.iter().find(|(outcome, _)| *outcome == Outcome::Failed).unwrap().1;
    let kinds: Vec<_> = runs.iter().map(|run| (run.run, run.kind, failed(run))).collect();
    assert_eq!(kinds, [(2, RunKind::Retry, 0), (1, RunKind::Submit, 1)]);
    let text = |reason: &Option<Reason>| reason.as_ref().map(|reason| reason.text(job));
    assert_eq!(text(&runs[1].reason).as_deref(), Some("failed on 1 of 2 nodes"));
    assert!(
        runs.iter().all(|run| run.started_wall_ms.is_some() && run.started_wall_ms <= run.ended_wall_ms),
        "{runs:?}"
    );

    let first = world.reader().job_in(&named("default", job), Some(1)).unwrap().unwrap();
    assert_eq!((first.run, text(&first.reason).as_deref()), (1, Some("failed on 1 of 2 nodes")));
    assert_eq!(first.runs, newest.runs, "every view names all of them");
    let of = |job: &JobRow, step: u32, node: &str| {
        let result = result(job, step, node);
        (result.status, result.attempts)
    };
    assert_eq!(of(&first, 0, "node-2"), (Outcome::Failed, 1));
    assert_eq!(of(&newest, 0, "node-2"), (Outcome::Success, 2), "the attempts of both runs");
    assert_eq!(of(&newest, 0, "node-1"), (Outcome::Success, 1), "done in run 1");
    assert_eq!(of(&first, 1, "node-2").0, Outcome::Success);
    assert_eq!(of(&newest, 1, "node-2"), (Outcome::Skipped, 0));
    let filter = ResultFilter { status: Some(Outcome::Failed), run: Some(1), ..ResultFilter::default() };
    let page = world.reader().results(&named("default", job), 10, None, filter).unwrap().unwrap();
    assert_eq!(page.items.len(), 1);
    let of_node = |name: &str, limit| {
        let filter = ResultFilter { node: Some(name.parse().unwrap()), ..ResultFilter::default() };
        let page = world.reader().results(&named("default", job), limit, None, filter).unwrap().unwrap();
        (page.items.into_iter().map(|row| format!("{} {}", row.step, row.node)).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(of_node("node-2", 10), (vec!["0 node-2".to_owned(), "1 node-2".to_owned()], None));
    assert_eq!(of_node("node-2", 1), (vec!["0 node-2".to_owned()], Some((0, "node-2".to_owned()))));
    assert_eq!(of_node("nobody", 10), (Vec::new(), None));
    assert_eq!(world.reader().job_in(&named("default", job), Some(3)).unwrap(), None);
}

#[test]
fn j8_no_view_shows_a_step_as_skipped_and_its_output() {
    let (world, job) = retried();
    assert_eq!(outputs(&world, job, 1, None), [], "the newest run cleaned up nowhere");
    assert!(!outputs(&world, job, 1, Some(1)).is_empty());
    let both = outputs(&world, job, 0, None);
    let texts: Vec<_> = both.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["first on node-1\n", "second on node-2\n"]);
    assert_eq!(outputs(&world, job, 0, Some(1))[1].1, "first on node-2\n");
    assert_eq!(log_rows(&world, job, None), [(0, "node-1".to_owned()), (0, "node-2".to_owned())]);
    assert!(log_rows(&world, job, Some(1)).contains(&(1, "node-2".to_owned())));
    for run in [None, Some(1), Some(2)] {
        let row = world.reader().job_in(&named("default", job), run).unwrap().unwrap();
        for (step, node) in log_rows(&world, job, run) {
            assert_ne!(result(&row, step, &node).status, Outcome::Skipped, "{run:?}");
        }
    }
}

#[test]
fn j8_a_run_that_is_cancelled_spans_two_epochs() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    world.report(world.offered()[0], Outcome::Success);
    world.cancel(job).unwrap();
    let revoked = world.leases().1[0];
    let confirmed = world.confirm_command(revoked, Some(Outcome::Cancelled));
    world.one(confirmed).unwrap();
    world.store();
    rerun(&mut world, job, RerunOn::AllNodes);
    world.report(world.offered()[0], Outcome::Success);
    world.store();
    let first = world.reader().job_in(&named("default", job), Some(1)).unwrap().unwrap();
    let statuses = |job: &JobRow| [0, 1].map(|step| result(job, step, "node-1").status);
    assert_eq!((first.status, statuses(&first)), (JobStatus::Cancelled, [Outcome::Success, Outcome::Cancelled]));
    let newest = world.job(job);
    assert_eq!((newest.status, statuses(&newest)), (JobStatus::Completed, [Outcome::Success; 2]));
}

#[test]
fn j8_runs_are_kept_however_entries_are_batched_and_go_with_the_job() {
    let lists = [true, false].map(|each| {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![retrying(0)]);
        world.report(world.offered()[0], Outcome::Failed);
        world.store();
        for run in 1..=25 {
            // What a leader reads is stored; but the next run may end in the batch in which it began.
            rerun(&mut world, job, if run % 2 == 0 { RerunOn::FailedNodes } else { RerunOn::AllNodes });
            if each {
                world.store();
            }
            world.report(world.offered()[0], Outcome::Failed);
            world.store();
        }
        let runs = world.job(job).runs.unwrap();
        assert_eq!((runs.len(), runs[0].run, runs[19].run), (20, 26, 7), "the newest 20");
        let page = world.reader().runs(&named("default", job), Some(7), 4).unwrap().unwrap();
        assert_eq!((page.items.len(), page.items[0].run, page.next), (4, 6, Some(3)));
        let last = world.reader().runs(&named("default", job), Some(3), 4).unwrap().unwrap();
        assert_eq!((last.items.len(), last.next), (2, None));
        world.now_ms += 10_000;
        let prune = grid_core::PruneHistory { ended_before_ms: world.now_ms, jobs: vec![job], events_before_ms: 0 };
        world.one(Command::PruneHistory(prune)).unwrap();
        world.store();
        assert_eq!(world.reader().runs(&named("default", job), None, 4).unwrap(), None);
        let conn = rusqlite::Connection::open(world.path()).unwrap();
        assert_eq!(conn.query_one("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        runs
    });
    assert_eq!(lists[0], lists[1]);
}

#[test]
fn j8_a_run_that_begins_and_ends_in_one_batch_with_the_next_one_is_on_record() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![retrying(0)]);
    world.report(world.offered()[0], Outcome::Failed);
    world.store();
    let first = resume_command(&world, job, RerunOn::AllNodes);
    // A replica that catches up applies what a leader did over minutes.
    for run in 1..=3 {
        let epoch = world.state.stubs[&job].epoch;
        world.one(Command::ResumeJob(ResumeJob { epoch, run, ..first.clone() })).unwrap();
        world.report(world.offered()[0], Outcome::Failed);
    }
    world.store();
    let runs: Vec<u32> = world.job(job).runs.unwrap().iter().map(|run| run.run).collect();
    assert_eq!(runs, [4, 3, 2, 1]);
}

/// A job of two `once` steps, restored while the first is out; the journal of node-1 is whole and says how that ended, that of
/// node-2 was lost.
fn restored_and_failed(on_first: Option<Outcome>) -> (World, JobId) {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![leaf("test", "record"), leaf("test", "record")]);
    let (_, lease) = world.offered()[0];
    world.store();
    world.begin_restored(
        world.state.meta.leadership.term + 1,
        Some(RestoredFrom { generation: 1, backup: "yesterday".to_owned() }),
    );
    for (node, journal) in [(1, world.state.nodes[&NodeOrd(1)].journal_id.clone()), (2, b"lost".to_vec())] {
        let known = world.state.nodes[&NodeOrd(node)].clone();
        let register = RegisterNode {
            id: known.id.clone(),
            facts: (*known.facts).clone(),
            journal_id: journal,
            boot: known.boot + 1,
            nonce: known.nonce.clone(),
            known_session_lives: false,
            agent: false,
            outstanding: Vec::new(),
            unstarted: Vec::new(),
            secret: None,
        };
        world.one(Command::RegisterNode(register)).unwrap();
        let session = world.state.nodes[&NodeOrd(node)].session;
        let (dropped_to, newest) = (JobId(0), JobId(0));
        let end = |outcome| RanEnd { outcome, error: None, duration_ms: 1, started_wall_ms: 7, output_bytes: 0 };
        let ended = on_first.filter(|_| node == 1).map(|outcome| (lease, Some(end(outcome))));
        let jobs = vec![JournalOfJob { job, forgotten: None, leases: ended.into_iter().collect() }];
        let report = ReportJournal { node: NodeOrd(node), session, dropped_to, newest, jobs, is_last: true };
        world.one(Command::ReportJournal(report)).unwrap();
    }
    let namespace = "default".parse().unwrap();
    let confirm = ConfirmJob { namespace, job, phase: None, held: None, rerun_once: false };
    world.one(Command::ConfirmJob(confirm)).unwrap();
    world.store();
    assert_eq!(world.job(job).status, JobStatus::Failed, "step 0 is unknown on node-2");
    (world, job)
}

fn doubtful(world: &World, job: JobId, generation: u32) -> Vec<String> {
    let found = world.reader().resumable(&named("default", job), RerunOn::AllNodes, generation).unwrap().unwrap();
    found.doubtful.into_iter().map(|(step, node)| format!("{step} on {node}")).collect()
}

#[test]
fn e2_a_resume_names_no_once_step_that_a_complete_journal_excludes() {
    let (world, job) = restored_and_failed(None);
    assert_eq!(doubtful(&world, job, 1), ["0 on node-2", "1 on node-2"]);
    let all = ["0 on node-1", "0 on node-2", "1 on node-1", "1 on node-2"];
    assert_eq!(doubtful(&world, job, 2), all, "after another restore it may have been resumed after that backup");
    let (world, job) = restored_and_failed(Some(Outcome::Unknown));
    assert_eq!(doubtful(&world, job, 1), ["0 on node-1", "0 on node-2", "1 on node-2"], "W8: it may have run");
}
