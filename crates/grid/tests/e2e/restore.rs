//! Backup and restore (E2, E3): unfinished jobs are held, no once-only step runs again, workers follow.

use std::path::{Path, PathBuf};
use std::time::Duration;

use grid_testkit::spec::{echo, job, record, record_slowly, sleep, with};
use grid_testkit::{Api, Cluster, Job, LIMIT, ServerOptions, ensure, wait_until};
use serde_json::{Value, json};

fn backup(cluster: &Cluster, name: &str) -> PathBuf {
    let file = cluster.path(name);
    let told = cluster.gridc().run(&["cluster", "backup", "-o", file.to_str().expect("a plain path")]).exits(0);
    assert!(told.stdout.contains("log index"), "{}", told.stdout);
    file
}

/// Kills the server and starts another one at its addresses, in an empty folder, from a backup.
fn lose_and_restore(cluster: &mut Cluster, backup: &Path, folder: &str) {
    cluster.server.kill9();
    let options = ServerOptions::new("n1", cluster.path(folder)).flags("--max-concurrent 9").restore(backup);
    cluster.server = options.spawn_at(cluster.server.ports());
    cluster.server.wait_ready();
}

fn is_held(job: &Job) -> bool {
    job.0["held"].is_string()
}

fn epoch(api: &Api) -> u64 {
    api.get("/role").json()["leader_epoch"].as_u64().expect("an epoch")
}

fn ready(api: &Api) {
    for node in ["web-01", "web-02"] {
        api.wait_node(node, "ready");
    }
}

#[test]
fn e2_a_restored_cluster_holds_its_jobs_and_runs_nothing_once_only_again() {
    let workers = [("web-01", "--slots 9"), ("web-02", "--slots 9")];
    let mut cluster = Cluster::start_with("--max-concurrent 6", &workers);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let done = api.submit(&job("all", [record(&lines)]));
    let done_doc = api.wait_ended(&done);
    // In flight, once-only: known by the workers' journals alone.
    let in_flight = api.submit(&job("all", [record_slowly(&lines, "4s"), record(&lines)]));
    // Its next once-only step runs when the backup has been taken.
    let gate = with(record(&lines), json!({"confirm": true}));
    let goes_on = api.submit(&job("all", [sleep("3s"), record(&lines), gate.clone()]));
    let gated = api.submit(&job("all", [gate]));
    // Ends after the backup, and its worker receives `Forget`.
    let ends = api.submit(&job("node:web-01", [sleep("2s"), record(&lines)]));
    let to_cancel = api.submit(&job("all", [sleep("250s"), record(&lines)]));
    lines.wait_of(&in_flight, 2);
    let both = |j: &Job| j.count("running") == 2;
    api.wait_job(&goes_on, "running", both);
    api.wait_job(&to_cancel, "running", both);
    let file = backup(&cluster, "grid.backup");
    let before = epoch(&api);

    let late = api.submit(&job("node:web-02", [echo()]));
    assert_eq!(api.wait_ended(&late).status(), "completed");
    assert_eq!(api.wait_ended(&ends).status(), "completed");
    lines.wait_of(&goes_on, 2);
    lose_and_restore(&mut cluster, &file, "restored");
    ready(&api);

    assert!(epoch(&api) >> 32 > before >> 32, "the generation rose");
    assert_eq!(api.job(&done).0, done_doc.0, "history is there");
    assert_eq!(api.get(&format!("/job/{late}")).status, 404, "it came after the backup");
    // W2: its worker received `Forget` and still has the whole record, so no confirmation is needed.
    let forgotten = api.wait_ended(&ends);
    assert_eq!((forgotten.status(), forgotten.count("success")), ("completed", 2), "{forgotten}");
    let unfinished = [&in_flight, &goes_on, &gated, &to_cancel];
    let listed = cluster.gridc().run(&["job", "list"]).exits(0).stdout;
    for id in unfinished {
        assert!(is_held(&api.job(id)) || api.job(id).ended(), "{}", api.job(id));
        assert_eq!(
            listed.lines().any(|line| line.contains(id.as_str()) && line.contains(" waiting ")),
            is_held(&api.job(id))
        );
    }
    let why = cluster.gridc().run(&["job", "why", &to_cancel]).exits(0).stdout;
    assert!(why.starts_with("held: restored from a backup of 20") && why.contains("gridc job confirm"), "{why}");
    api.wait_job(&to_cancel, "adopted while it is held", |j| is_held(j) && j.count("running") == 2);
    // The workers' journals report how the once-only steps in flight ended, before any confirmation.
    api.wait_job(&in_flight, "both settled by their journals", |j| j.outcomes(0) == ["success", "success"]);
    let new = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.wait_ended(&new).status(), "completed", "new work is not held");
    assert_eq!(lines.of(&in_flight).len(), 2, "its second step waits for the word");
    assert_eq!(lines.of(&gated).len(), 0);

    cluster.gridc().run(&["job", "cancel", &to_cancel]).exits(0);
    cluster.gridc().run(&["job", "confirm", &in_flight]).exits(0);
    let ended = api.wait_ended(&in_flight);
    assert_eq!((ended.status(), ended.count("success")), ("completed", 4), "{ended}");
    let all = cluster.gridc().run(&["job", "confirm", "--all-held"]).exits(0);
    assert!(all.stdout.contains(gated.as_str()), "{all:?}");
    let answered = |j: &Job| j.count("success") == 4 && j.count("running") == 0;
    api.wait_job(&goes_on, "both steps answered from the journals", answered);
    wait_until("its gate asks", LIMIT, || {
        let ran = cluster.gridc().run(&["job", "confirm", &goes_on, "--phase", "2"]);
        ensure(ran.code == 0, format!("{ran:?}"))
    });
    cluster.gridc().run(&["job", "confirm", &gated]).exits(0);
    for id in [&goes_on, &gated] {
        let ended = api.wait_ended(id);
        assert_eq!(ended.status(), "completed", "{ended}");
    }
    assert_eq!(api.wait_ended(&to_cancel).status(), "cancelled");
    assert_eq!(lines.duplicates(), [], "nothing once-only ran twice");
    for (id, times) in [(&done, 2), (&in_flight, 4), (&goes_on, 4), (&gated, 2), (&ends, 1), (&new, 2), (&to_cancel, 0)]
    {
        assert_eq!(lines.of(id).len(), times, "{id}");
    }
}

#[test]
fn e2_the_same_command_line_restarts_a_restored_server_and_a_pending_job_waits() {
    let mut cluster = Cluster::start_with("--max-concurrent 1", &[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let first = api.submit(&job("all", [sleep("250s")]));
    let pending = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.job(&pending).status(), "pending");
    let file = backup(&cluster, "grid.backup");
    lose_and_restore(&mut cluster, &file, "restored");
    assert!(is_held(&api.job(&pending)) && api.job(&pending).status() == "pending");
    let raised = epoch(&api);
    cluster.server.kill9();
    std::fs::remove_file(&file).expect("the backup is not needed any more");
    std::fs::write(&file, "not even there").expect("written");
    cluster.server.restart();
    ready(&api);
    assert_eq!(epoch(&api), raised + 1, "the generation rises once");
    assert!(is_held(&api.job(&first)) && is_held(&api.job(&pending)), "and what is held stays so");
    cluster.gridc().run(&["job", "confirm", &pending]).exits(0);
    assert_eq!(api.wait_ended(&pending).status(), "completed", "the other one takes no place");
    cluster.gridc().run(&["job", "confirm", &pending]).exits(5);
    assert_eq!(api.cancel(&first).status, 200);
    assert_eq!(api.wait_ended(&first).status(), "cancelled");
}

/// W2, E2: workers that have seen the restored controller refuse offers of the replaced one.
#[test]
fn e2_the_controller_that_was_replaced_is_refused_by_workers() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let file = backup(&cluster, "grid.backup");
    lose_and_restore(&mut cluster, &file, "restored");
    ready(&api);
    let seen = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.wait_ended(&seen).status(), "completed");
    let ports = cluster.server.ports();
    cluster.server.kill9();
    let mut old = ServerOptions::new("n1", cluster.path("n1")).spawn_at(ports);
    old.wait_ready();
    // Accepted before a worker has shown the higher generation, or refused.
    let stale = api.try_submit("stale", &job("all", [record(&lines)])).ok();
    let refused = |cluster: &mut Cluster, node: &str| {
        wait_until(&format!("{node} refuses"), LIMIT, || {
            let log = cluster.worker(node).process().log_text();
            ensure(log.contains("SUPERSEDED"), log)
        });
    };
    refused(&mut cluster, "web-01");
    refused(&mut cluster, "web-02");
    assert!(stale.is_none_or(|id| lines.of(&id).is_empty()), "an old controller's orders are not carried out");
    old.kill9();
    cluster.server.restart();
    ready(&api);
    let new = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.wait_ended(&new).status(), "completed");
}

/// One backup may have to be restored twice: the second must not look older than the first.
#[test]
fn e2_workers_follow_the_second_restore_of_one_backup() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let lines = cluster.record("lines");
    let file = backup(&cluster, "grid.backup");
    for folder in ["first", "second"] {
        lose_and_restore(&mut cluster, &file, folder);
        ready(&api);
        let id = wait_until("a new job is accepted", LIMIT, || api.try_submit(folder, &job("all", [record(&lines)])));
        let ended = api.wait_ended(&id);
        assert_eq!(ended.status(), "completed", "{folder}: {ended}");
    }
}

fn refused_start(cluster: &Cluster, node: &str, folder: &Path, source: &Path) -> String {
    let mut server = ServerOptions::new(node, folder).restore(source).spawn_at((0, 0));
    let status = server.process().wait_exit(Duration::from_secs(60));
    assert_eq!(status.code(), Some(2), "{}", server.process().log_text());
    assert!(cluster.path("n1").exists());
    server.process().log_text()
}

#[test]
fn a_damaged_backup_is_refused_and_nothing_is_created() {
    let cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let file = backup(&cluster, "grid.backup");
    let whole = std::fs::read(&file).expect("the backup");
    let damages: [(&str, Value); 5] = [
        ("flipped", json!(whole.len() / 2)),
        ("flipped-header", json!(30)),
        ("cut", json!(whole.len() - 1)),
        ("empty", json!(0)),
        ("missing", Value::Null),
    ];
    for (name, at) in damages {
        let damaged = cluster.path(name);
        let at = at.as_u64().and_then(|at| usize::try_from(at).ok());
        match (name, at) {
            ("flipped" | "flipped-header", Some(at)) => {
                let mut bytes = whole.clone();
                bytes[at] ^= 1;
                std::fs::write(&damaged, bytes).expect("written");
            }
            (_, Some(at)) => std::fs::write(&damaged, &whole[..at]).expect("written"),
            (_, None) => {}
        }
        let folder = cluster.path(&format!("from-{name}"));
        let log = refused_start(&cluster, "n1", &folder, &damaged);
        assert!(log.contains("error: cannot restore") && log.contains(name), "{name}: {log}");
        assert!(!folder.join("data").exists(), "{name}: nothing is created");
    }
}

#[test]
fn a_restore_over_data_is_refused_and_changes_nothing() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let file = backup(&cluster, "grid.backup");
    let id = api.submit(&job("all", [echo()]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    cluster.server.terminate();
    let own = cluster.path("n1");
    let log = refused_start(&cluster, "n1", &own, &file);
    assert!(log.contains("restore into an empty folder"), "{log}");
    let log = refused_start(&cluster, "n2", &own, &file);
    assert!(log.contains("n1"), "whose it is: {log}");
    let foreign = cluster.path("foreign");
    std::fs::create_dir_all(foreign.join("data")).expect("made");
    std::fs::write(foreign.join("data/thesis.txt"), "x").expect("written");
    assert!(refused_start(&cluster, "n1", &foreign, &file).contains("thesis.txt"));
    cluster.server.restart();
    assert_eq!(api.job(&id).status(), "completed", "it is as it was");
}

#[test]
fn a_backup_file_is_never_half_and_not_replaced_unasked() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let file = cluster.path("kept");
    std::fs::write(&file, "precious").expect("written");
    let name = file.to_str().expect("a plain path");
    let refused = cluster.gridc().run(&["cluster", "backup", "--output", name]).exits(2);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(std::fs::read(&file).expect("still there"), b"precious");
    cluster.gridc().run(&["cluster", "backup", "--output", name, "--force"]).exits(0);
    assert!(std::fs::read(&file).expect("a backup").starts_with(b"GRIDBKUP"));
    cluster.gridc().run(&["cluster", "backup", "-o", cluster.dir().to_str().expect("plain")]).exits(2);
    let nowhere = cluster.path("no/such/folder");
    cluster.gridc().run(&["cluster", "backup", "-o", nowhere.to_str().expect("plain")]).exits(2);
    let left: Vec<_> = std::fs::read_dir(cluster.dir()).expect("listed").flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".part")), "{left:?}");
    let data: Vec<_> = std::fs::read_dir(cluster.server.data_dir()).expect("listed").flatten().collect();
    assert!(!data.iter().any(|e| e.file_name().to_string_lossy().contains("backup")), "{data:?}");
}
