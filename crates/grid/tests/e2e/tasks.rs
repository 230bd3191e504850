//! A background task that panics ends its process, which names it; the cluster continues without that controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grid_testkit::spec::{job, task};
use grid_testkit::{Process, ServerOptions, Trio, WorkerOptions, ensure, wait_until};
use serde_json::json;

/// Each task of the server makes a file of its name here, and panics when something is written to it.
const HOOK: &str = "mkdir -p tasks; export GRID_TEST_TASKS=$PWD/tasks";
const LIMIT: Duration = Duration::from_secs(30);

fn hooks(dir: &Path) -> Vec<PathBuf> {
    let mut hooks: Vec<_> =
        fs::read_dir(dir.join("tasks")).expect("hooks").map(|file| file.expect("file").path()).collect();
    hooks.sort();
    hooks
}

fn name(hook: &Path) -> String {
    hook.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Panics in the task and checks that the process ends with its name.
fn plant(hook: &Path, process: &mut Process) {
    let task = name(hook);
    assert!(process.is_running());
    fs::write(hook, "panic").expect("hook");
    let status = process.wait_exit(LIMIT);
    let log = process.log_text();
    let last = log.lines().rev().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(last.ends_with(&format!("task {task} panicked: planted by a test")), "{task}: {status}\n{log}");
    assert_eq!(status.code(), Some(1), "{task}");
}

#[test]
fn issue15_a_panic_in_any_background_task_ends_the_server_with_its_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut server = ServerOptions::new("c1", dir.path()).prelude(HOOK).start();
    let all = hooks(dir.path());
    let names: Vec<String> = all.iter().map(|hook| name(hook)).collect();
    for known in
        ["dispatch", "leader", "proposer", "ticker", "elections", "leadership", "api", "worker-port", "signals"]
    {
        assert!(names.iter().any(|name| name == known), "{known} is a task: {names:?}");
    }
    for hook in &all {
        // A task that has finished cannot panic: it is not tried twice.
        let is_finite = ["folder-mark", "log-floor", "removal"].contains(&name(hook).as_str());
        if !is_finite {
            plant(hook, server.process());
            server.restart();
        }
    }
    assert!(server.terminate().success(), "an orderly end is not a failure");
    assert!(!server.process().log_text().lines().last().unwrap_or_default().starts_with("error"));
}

#[test]
fn issue15_a_cluster_goes_on_when_a_task_of_its_leader_panics() {
    let mut trio = Trio::start_of(0, "", &[]);
    for id in ["c1", "c2", "c3"] {
        let server = trio.server_options(id).prelude(HOOK).start();
        trio.servers.insert(id.to_owned(), server);
    }
    let _worker = trio.worker_options("w1").start();
    for task_name in ["dispatch", "ticker"] {
        let leader = trio.wait_leader();
        let hook = trio.path(&leader).join("tasks").join(task_name);
        plant(&hook, trio.server(&leader).process());
        let next = trio.wait_other_leader(&leader);
        let id = trio.submit(task_name, &job("all", [task("ping", "echo", &json!({}))]));
        let ended = trio.api(&next).wait_ended(&id);
        assert_eq!(ended.status(), "completed", "{ended}");
        trio.server(&leader).restart();
    }
}

/// `grid node` restarts its controller.
#[test]
fn issue15_a_supervised_controller_whose_task_panics_is_started_again() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut node = ServerOptions::new("n1", dir.path()).prelude(HOOK).supervised().start();
    let first = node.child("server").expect("its controller").pid;
    fs::write(dir.path().join("tasks").join("supervisor-orders"), "panic").expect("hook");
    wait_until("another controller", LIMIT, || {
        let now = node.child("server").map(|seen| seen.pid);
        ensure(now.is_some_and(|now| now != first), format!("{now:?}"))
    });
    node.wait_ready();
    let log = node.process().log_text();
    assert!(log.contains("task supervisor-orders panicked"), "{log}");
}

#[test]
fn issue15_a_panic_in_a_task_of_the_worker_program_ends_it_with_its_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    let server = ServerOptions::new("c1", dir.path().join("c1")).start();
    let at = dir.path().join("w1");
    fs::create_dir_all(&at).expect("folder");
    let mut worker = WorkerOptions::new("w1", &server.url(), at.clone())
        .prelude(&format!("mkdir -p {0}/tasks; export GRID_TEST_TASKS={0}/tasks", at.display()))
        .start();
    let tasks = at.join("tasks");
    for name in ["shutdown", "folder-removal"] {
        plant(&tasks.join(name), worker.process());
        worker.restart();
    }
    // A lease that no longer reports would keep its slot forever.
    let id = server.api().submit(&job("all", [task("test", "sleep", &json!({"duration": "280s"}))]));
    wait_until("a running lease", LIMIT, || ensure(tasks.join("lease").exists(), &id));
    plant(&tasks.join("lease"), worker.process());
}
