//! Data folders on a machine with other users: modes, owners, planted links. Files of other users need root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use grid_testkit::spec::{job, task};
use grid_testkit::{Cluster, LIMIT, Process, ServerOptions, bin, command, ensure, wait_until};
use serde_json::json;
use tempfile::TempDir;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// Everything below a folder, with its mode; what is removed meanwhile is left out.
fn modes(folder: &Path) -> Vec<(PathBuf, bool, u32)> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(at) = left.pop() {
        let Ok(here) = fs::symlink_metadata(&at) else { continue };
        found.push((at.clone(), here.is_dir(), here.mode() & 0o7777));
        if here.is_dir() {
            left.extend(fs::read_dir(&at).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    found
}

fn assert_closed(folder: &Path) -> Vec<PathBuf> {
    let found = modes(folder);
    for (path, is_folder, mode) in &found {
        let want = if *is_folder { 0o700 } else { 0o600 };
        assert_eq!(*mode, want, "{} has mode {mode:04o}", path.display());
    }
    found.into_iter().map(|(path, ..)| path).collect()
}

/// A file of root that no other user may change.
struct Victim(PathBuf);

impl Victim {
    fn at(path: PathBuf) -> Self {
        fs::write(&path, "precious").expect("written");
        set_mode(&path, 0o640);
        Self(path)
    }

    fn assert_untouched(&self, how: &str) {
        let found = fs::symlink_metadata(&self.0).expect("there");
        assert_eq!(
            (fs::read_to_string(&self.0).expect("read").as_str(), found.mode() & 0o7777),
            ("precious", 0o640),
            "{how}"
        );
    }
}

/// Runs a process on `data` that is expected to be refused; returns its stderr.
fn refusal(dir: &TempDir, verb: &str, data: &Path) -> String {
    let log = dir.path().join("log");
    let _ = fs::remove_file(&log);
    let mut grid = command("grid");
    match verb {
        "worker" => grid.args(["worker", "--server", "http://127.0.0.1:9", "--node-id", "w1"]),
        "dev" => grid.args(["dev", "--workers", "1", "--api", "127.0.0.1:0"]),
        verb => {
            let at = "127.0.0.1:0";
            grid.args([verb, "--node-id", "c1", "--bootstrap", "--api", at, "--raft", at, "--grpc", at])
        }
    };
    grid.arg("--data-dir").arg(data).current_dir(dir.path());
    let mut process = Process::spawn(verb, grid, &log);
    let status = process.wait_exit(LIMIT);
    assert!(!status.success(), "{verb} took {}", data.display());
    process.log_text()
}

const WORKER_FILES: [&str; 11] = [
    "lock",
    "identity",
    "identity.new",
    "journal",
    "journal.new",
    "journal.len",
    "journal.old",
    "output",
    "reserve",
    "rke2",
    "work",
];
const CONTROLLER_FILES: [&str; 22] = [
    "node-id",
    "node-id.new",
    "raft",
    "raft/raft.lock",
    "raft/raft.json",
    "raft/raft.tmp",
    "raft/member.json",
    "raft/member.tmp",
    "raft/raft-log",
    "raft/raft-log/LOCK",
    "raft/raft-log.mark",
    "raft/snapshots",
    "raft/snapshots/building.tmp",
    "state.sqlite",
    "state.sqlite-wal",
    "state.sqlite-shm",
    "state.sqlite.new",
    "state.sqlite.seal",
    "state.sqlite.seal.new",
    "state.sqlite.incoming",
    "backup.part",
    "restoring",
];

#[test]
fn issue14_6_a_link_planted_under_any_name_is_refused_and_its_target_unchanged() {
    for (verb, inner, names) in [
        ("worker", "", &WORKER_FILES[..]),
        ("server", "", &CONTROLLER_FILES[..]),
        ("node", "controller", &["node-id", "raft"]),
        ("node", "worker", &["lock"]),
        ("dev", "", &["controller", "workers"]),
    ] {
        for name in names {
            let dir = tempfile::tempdir().expect("temp dir");
            let victim = Victim::at(dir.path().join("victim"));
            let data = dir.path().join("data");
            let planted = data.join(inner).join(name);
            fs::create_dir_all(planted.parent().expect("a parent")).expect("a folder");
            for (path, ..) in modes(&data) {
                set_mode(&path, 0o700);
            }
            symlink(&victim.0, &planted).expect("a link");
            let told = refusal(&dir, verb, &data);
            let want = format!("{} is a symbolic link", planted.display());
            assert!(told.contains(&want), "{verb} {name}: {told}");
            victim.assert_untouched(name);
        }
    }
}

/// The folder of a cluster that has run, with manipulated files.
#[test]
fn issue14_6_a_link_planted_in_a_folder_in_use_is_refused_at_the_next_start() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let id = cluster.api().submit(&job("all", [task("test", "output", &json!({"lines": 9000, "width": 99}))]));
    assert_eq!(cluster.api().wait_ended(&id).status(), "completed");
    cluster.worker("web-01").kill9();
    cluster.server.kill9();
    let victim = Victim::at(cluster.path("victim"));
    let folders = [cluster.worker("web-01").data_dir(), cluster.server.data_dir()];
    let dir = tempfile::tempdir().expect("temp dir");
    for (folder, verb) in folders.iter().zip(["worker", "server"]) {
        let files = modes(folder).into_iter().filter(|(_, is_folder, _)| !is_folder).map(|(path, ..)| path);
        for file in files.collect::<Vec<_>>() {
            let aside = dir.path().join("aside");
            fs::rename(&file, &aside).expect("moved");
            symlink(&victim.0, &file).expect("a link");
            let told = refusal(&dir, verb, folder);
            assert!(told.contains(&format!("{} is a symbolic link", file.display())), "{verb}: {told}");
            victim.assert_untouched(verb);
            fs::remove_file(&file).expect("the link");
            fs::rename(&aside, &file).expect("moved back");
        }
    }
}

#[test]
fn issue14_6_files_are_closed_to_others_whatever_the_umask() {
    for umask in ["000", "0777"] {
        let prelude = format!("umask {umask}");
        let dir = tempfile::tempdir().expect("temp dir");
        fs::create_dir_all(dir.path().join("n1/data/lost+found")).expect("a folder");
        for path in ["n1", "n1/data", "n1/data/lost+found"] {
            set_mode(&dir.path().join(path), 0o700);
        }
        let options = ServerOptions::new("n1", dir.path().join("n1")).prelude(&prelude).flags("--snapshot-after 65536");
        let mut server = options.start();
        let mut worker =
            grid_testkit::WorkerOptions::new("w1", &server.url(), dir.path().join("w1")).prelude(&prelude).start();
        let api = server.api();
        let snapshots = server.data_dir().join("raft/snapshots");
        wait_until("a snapshot", LIMIT, || {
            let id = api.submit(&job("all", [task("test", "output", &json!({"lines": 5000, "width": 99}))]));
            assert_eq!(api.wait_ended(&id).status(), "completed");
            ensure(fs::read_dir(&snapshots).is_ok_and(|found| found.count() >= 2), "none yet")
        });
        let backup = dir.path().join("grid.backup");
        let mut gridc = Command::new("sh");
        gridc.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(bin("gridc"));
        gridc.args(["--server", &server.url(), "cluster", "backup", "-o"]).arg(&backup);
        assert!(gridc.output().expect("gridc").status.success());
        assert_closed(&backup);
        let of_worker = assert_closed(&worker.data_dir());
        let of_server = assert_closed(&server.data_dir());
        for name in ["lock", "identity", "journal", "journal.len"] {
            assert!(of_worker.contains(&worker.data_dir().join(name)), "{name}: {of_worker:?}");
        }
        assert!(of_worker.iter().any(|path| path.starts_with(worker.data_dir().join("output/"))), "{of_worker:?}");
        for name in [
            "state.sqlite",
            "state.sqlite-wal",
            "state.sqlite-shm",
            "raft/raft.json",
            "raft/member.json",
            "raft/raft-log.mark",
        ] {
            assert!(of_server.contains(&server.data_dir().join(name)), "{name}: {of_server:?}");
        }
        assert!(worker.terminate().success());
        assert!(server.terminate().success());
        assert_closed(&server.data_dir());
        // A new file system has this from the beginning.
        fs::create_dir_all(dir.path().join("restored/data/lost+found")).expect("a folder");
        for path in ["restored", "restored/data", "restored/data/lost+found"] {
            set_mode(&dir.path().join(path), 0o700);
        }
        let mut restored =
            ServerOptions::new("n1", dir.path().join("restored")).prelude(&prelude).restore(&backup).start();
        assert_closed(&restored.data_dir());
        restored.kill9();
    }
}

#[test]
fn issue14_6_dev_and_node_close_their_folders_too() {
    let dir = tempfile::tempdir().expect("temp dir");
    for verb in ["dev", "node"] {
        let data = dir.path().join(verb);
        let mut grid = Command::new("sh");
        let at = "127.0.0.1:0";
        grid.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(bin("grid")).args([verb, "--api", at]);
        if verb == "node" {
            grid.args(["--node-id", "c1", "--bootstrap", "--raft", at, "--grpc", at, "--worker"]);
        }
        grid.arg("--data-dir").arg(&data).current_dir(dir.path());
        let mut process = Process::spawn(verb, grid, &dir.path().join("log"));
        process.wait_line("grid ready ");
        assert!(assert_closed(&data).len() > 5);
        process.terminate();
        process.wait_exit(LIMIT);
        assert_closed(&data);
    }
}

#[test]
fn issue14_6_a_folder_of_another_user_or_open_to_others_is_refused_with_the_command_that_mends_it() {
    for verb in ["worker", "server", "node", "dev"] {
        let dir = tempfile::tempdir().expect("temp dir");
        let data = dir.path().join("data");
        fs::create_dir(&data).expect("a folder");
        chown(&data, Some(1000), None).expect("this test needs to be root");
        set_mode(&data, 0o700);
        let told = refusal(&dir, verb, &data);
        assert!(told.contains(&format!("chown -hR 0 {}", data.display())), "{verb}: {told}");
        assert!(told.contains("sudo -u '#1000'"), "{verb}: {told}");
        chown(&data, Some(0), None).expect("root");
        set_mode(&data, 0o777);
        let told = refusal(&dir, verb, &data);
        let mend = format!("chmod -R go-rwx {}", data.display());
        assert!(told.contains(&mend), "{verb}: {told}");
        assert_eq!(fs::read_dir(&data).expect("listed").count(), 0, "{verb}: nothing is written to it");
        assert!(Command::new("sh").args(["-c", &mend]).status().expect("a shell").success());
        set_mode(dir.path(), 0o777);
        let told = refusal(&dir, verb, &data);
        assert!(told.contains(&format!("chmod +t {}", dir.path().display())), "{verb}: {told}");
    }
}

#[test]
fn issue14_6_a_folder_that_others_may_read_is_closed_and_used() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    cluster.worker("web-01").terminate();
    let data = cluster.worker("web-01").data_dir();
    for (path, is_folder, _) in modes(&data) {
        set_mode(&path, if is_folder { 0o755 } else { 0o644 });
    }
    cluster.worker("web-01").restart();
    assert_closed(&data);
    let log = cluster.worker("web-01").process().log_text();
    assert!(log.contains("other users could read"), "{log}");
}

#[test]
fn issue14_6_a_second_worker_names_the_first_and_leaves_its_lock_alone() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let data = cluster.worker("web-01").data_dir();
    let before = fs::read(data.join("lock")).expect("a lock");
    let dir = tempfile::tempdir().expect("temp dir");
    let told = refusal(&dir, "worker", &data);
    let pid = cluster.worker("web-01").process().pid();
    assert!(told.contains("another worker process") && told.contains(&pid.to_string()), "{told}");
    assert_eq!(fs::read(data.join("lock")).expect("a lock"), before);
}

#[test]
fn issue14_6_a_backup_replaces_a_planted_link_and_not_its_target() {
    let cluster = Cluster::start(&[]);
    let victim = Victim::at(cluster.path("victim"));
    let target = cluster.path("grid.backup");
    symlink(&victim.0, &target).expect("a link");
    let gridc = cluster.gridc();
    let words = ["cluster", "backup", "-o", target.to_str().expect("a plain path")];
    let told = gridc.run(&words).exits(2).stderr;
    assert!(told.contains("is there already"), "{told}");
    let told = gridc.run(&[&words[..], &["--force"]].concat()).exits(0).stderr;
    assert!(told.contains("replaced"), "{told}");
    victim.assert_untouched("backup");
    let found = fs::symlink_metadata(&target).expect("there");
    assert!(found.is_file() && found.mode() & 0o777 == 0o600, "{found:?}");
}
