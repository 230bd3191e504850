//! W1, W3, I7: a worker's data folder that was copied, restored or cloned never makes a `once` step run twice, whatever the
//! folder's counters say. Each scenario runs with one and with three controllers.

use std::fs;
use std::path::{Path, PathBuf};

use grid_testkit::spec::{echo, job, record_slowly, with};
use grid_testkit::{Api, Job, LIMIT, Record, Server, Trio, Worker, ensure, wait_until};
use serde_json::json;

const NODE: &str = "web-01";
/// A lost session is noticed at once, and no node becomes Dead: a Dead one has no leases left to run twice.
const LIVENESS: &str = "--heartbeat-interval 200ms --warning-after 1s --unhealthy-after 250s --dead-after 300s";

struct Stage {
    trio: Trio,
    lines: Record,
}

impl Stage {
    fn new(controllers: usize) -> Self {
        let trio = Trio::start_of(controllers, LIVENESS, &[(NODE, "--groups web")]);
        let lines = trio.record("lines");
        Self { trio, lines }
    }

    fn api(&self) -> Api {
        self.trio.api(&self.trio.wait_leader())
    }

    fn worker(&mut self) -> &mut Worker {
        self.trio.workers.get_mut(NODE).expect("the worker")
    }

    /// Copies the worker's folder in its current state.
    fn copy_folder(&mut self) -> PathBuf {
        let copy = self.trio.path("copy");
        let original = self.worker().data_dir();
        copy_folder(&original, &copy);
        copy
    }

    /// Restores the worker's folder from the copy.
    fn put_back(&mut self, copy: &Path) {
        let original = self.worker().data_dir();
        fs::remove_dir_all(&original).expect("the folder of a worker that has ended");
        copy_folder(copy, &original);
    }

    /// Starts the worker repeatedly, as a supervisor does, until it is registered.
    fn supervise(&mut self) {
        let worker = self.worker();
        worker.respawn();
        wait_until("a worker that is registered", 2 * LIMIT, || {
            let process = worker.process();
            if process.stdout_lines().iter().any(|line| line.starts_with("grid worker ready ")) {
                return Ok(());
            }
            let seen = process.log_text();
            if !process.is_running() {
                worker.respawn();
            }
            Err(seen)
        });
    }

    /// A `once` step that has written its line and then runs for a long time.
    fn begin_step(&self) -> String {
        let slow = with(record_slowly(&self.lines, "250s"), json!({"max_retries": 3}));
        let id = self.api().submit(&job("all", [slow]));
        self.lines.wait_of(&id, 1);
        id
    }

    fn clone_worker(&self, copy: &Path) -> Worker {
        let dir = self.trio.path("clone");
        copy_folder(copy, &dir.join("data"));
        let mut options = self.trio.worker_options(NODE);
        options.dir = dir;
        options.spawn()
    }

    /// The step is unknown, it ran once, and the node works again.
    fn expect_unknown(&self, id: &str) {
        let api = self.api();
        let ended = api.wait_ended(id);
        assert_eq!((ended.status(), ended.outcome(0, NODE)), ("failed", "unknown"), "{ended}");
        let next = api.submit(&job("all", [echo()]));
        assert_eq!(api.wait_ended(&next).status(), "completed");
        self.expect_one_run(id);
    }

    fn expect_one_run(&self, id: &str) {
        assert_eq!(self.lines.of(id), [(0, NODE.to_owned(), 1)]);
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, target).expect("copied");
        }
    }
}

/// Copied in the current boot of the worker, restored while the step ran.
fn put_back_while_it_runs(controllers: usize) {
    let mut stage = Stage::new(controllers);
    let copy = stage.copy_folder();
    let id = stage.begin_step();
    stage.worker().kill9_tree();
    stage.put_back(&copy);
    stage.supervise();
    stage.expect_unknown(&id);
}

/// Copied one boot earlier; a supervisor restarts the worker until it is accepted.
fn put_back_from_an_earlier_boot(controllers: usize) {
    let mut stage = Stage::new(controllers);
    let copy = stage.copy_folder();
    stage.worker().kill9_tree();
    stage.worker().restart();
    let id = stage.begin_step();
    stage.worker().kill9_tree();
    stage.put_back(&copy);
    stage.supervise();
    stage.expect_unknown(&id);
}

/// The step had ended, but no controller knew: they were all down.
fn put_back_after_it_ran(controllers: usize) {
    let mut stage = Stage::new(controllers);
    let copy = stage.copy_folder();
    let id = stage.api().submit(&job("all", [record_slowly(&stage.lines, "3s")]));
    stage.lines.wait_of(&id, 1);
    stage.trio.servers.values_mut().for_each(Server::kill9);
    let journal = stage.worker().data_dir().join("journal");
    let size = || fs::metadata(&journal).map_or(0, |found| found.len());
    let before = size();
    wait_until("the outcome in the journal", LIMIT, || ensure(size() > before, size()));
    stage.worker().kill9_tree();
    stage.put_back(&copy);
    // A single one of three controllers does not become ready.
    stage.trio.servers.values_mut().for_each(Server::respawn);
    stage.trio.wait_leader();
    stage.supervise();
    stage.expect_unknown(&id);
}

/// A clone takes the node over while the original is stopped in the middle of the step; then the original continues.
fn cloned_while_it_runs(controllers: usize) {
    let mut stage = Stage::new(controllers);
    let copy = stage.copy_folder();
    let id = stage.begin_step();
    stage.worker().process().pause();
    let mut clone = stage.clone_worker(&copy);
    clone.wait_ready();
    stage.expect_unknown(&id);
    stage.worker().process().resume();
    refused(stage.worker());
    stage.expect_one_run(&id);
}

/// The same with a lease that was offered to the original and had not begun: one of the two runs it.
fn cloned_before_it_begins(controllers: usize) {
    let mut stage = Stage::new(controllers);
    let copy = stage.copy_folder();
    stage.worker().process().pause();
    let id = stage.api().submit(&job("all", [record_slowly(&stage.lines, "1ms")]));
    let offered = |job: &Job| job.outcome(0, NODE) == "running";
    stage.api().wait_job(&id, "offered to the original", offered);
    let mut clone = stage.clone_worker(&copy);
    clone.wait_ready();
    let ended = stage.api().wait_ended(&id);
    assert_eq!(ended.status(), "completed", "it had not begun, so it is offered to the clone: {ended}");
    stage.worker().process().resume();
    refused(stage.worker());
    stage.expect_one_run(&id);
}

/// The worker reports that its node is taken over, with the way out, and ends.
fn refused(worker: &mut Worker) {
    worker.process().wait_exit(3 * LIMIT);
    let log = worker.process().log_text();
    assert!(log.contains("DUPLICATE_NODE") && log.contains("--reset-journal"), "{log}");
}

#[test]
fn w1_a_folder_put_back_while_a_step_ran_never_runs_it_again() {
    put_back_while_it_runs(1);
}

#[test]
fn w1_a_folder_put_back_while_a_step_ran_never_runs_it_again_with_three_controllers() {
    put_back_while_it_runs(3);
}

#[test]
fn w1_a_folder_of_an_earlier_boot_never_runs_a_step_again() {
    put_back_from_an_earlier_boot(1);
}

#[test]
fn w1_a_folder_of_an_earlier_boot_never_runs_a_step_again_with_three_controllers() {
    put_back_from_an_earlier_boot(3);
}

#[test]
fn w1_a_folder_put_back_after_a_step_ran_never_runs_it_again() {
    put_back_after_it_ran(1);
}

#[test]
fn w1_a_folder_put_back_after_a_step_ran_never_runs_it_again_with_three_controllers() {
    put_back_after_it_ran(3);
}

#[test]
fn w3_a_clone_of_a_stopped_worker_never_runs_its_step_again() {
    cloned_while_it_runs(1);
}

#[test]
fn w3_a_clone_of_a_stopped_worker_never_runs_its_step_again_with_three_controllers() {
    cloned_while_it_runs(3);
}

#[test]
fn w3_a_stopped_worker_that_wakes_does_not_begin_what_its_clone_has_run() {
    cloned_before_it_begins(1);
}

#[test]
fn w3_a_stopped_worker_that_wakes_does_not_begin_what_its_clone_has_run_with_three_controllers() {
    cloned_before_it_begins(3);
}
