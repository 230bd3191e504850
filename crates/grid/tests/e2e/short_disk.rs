//! Outputs never take the disk space of the journal: a worker on its own small disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use grid_testkit::spec::{job, task};
use grid_testkit::{Cluster, LIMIT, WorkerOptions, ensure, wait_until};
use serde_json::json;

/// A disk of some megabytes in memory; gone with the value.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf, megabytes: u32) -> Self {
        std::fs::create_dir_all(&at).expect("a folder");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "grid-test"]).arg(&at).status();
        let mounted = mounted.is_ok_and(|status| status.success());
        assert!(mounted, "this test needs to mount a tmpfs: run it as root, where mount(8) is allowed");
        Self(at)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Writes until not one byte more fits.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("somebody-else");
    let mut file = std::fs::File::create(&path).expect("a file");
    for size in [65_536, 4_096, 1] {
        let bytes = vec![0; size];
        while std::io::Write::write(&mut file, &bytes).is_ok() {}
    }
    path
}

#[test]
fn issue13_outputs_that_fill_the_disk_are_cut_and_the_worker_goes_on() {
    let cluster = Cluster::start(&[]);
    let (api, gridc) = (cluster.api(), cluster.gridc());
    let disk = Disk::mount(cluster.path("small"), 40);
    let mut worker = WorkerOptions::new("w1", &cluster.server.url(), &disk.0).start();

    // 60 MB on a disk of 40 MiB.
    let flood = |lines: u32| job("all", [task("test", "output", &json!({"lines": lines, "width": 999}))]);
    let first = api.submit(&flood(10_000));
    assert_eq!(api.wait_ended(&first).status(), "completed");
    let id = api.submit(&flood(60_000));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    let logs = gridc.run(&["job", "logs", &id]).stdout;
    let note = "[grid: output beyond this point was dropped: the disk of this worker is short of space]";
    assert!(logs.contains(note), "{} bytes without a note", logs.len());
    assert!(logs.len() > 20_000_000, "most of the disk was used: {}", logs.len());
    let output = api.get(&format!("/job/{id}/output/0/w1"));
    assert!(output.text.contains("[grid: output b"), "the output itself says so");

    let row = &api.job(&id).0["results"]["0"]["w1"];
    assert!(row["reason"].as_str().is_some_and(|reason| reason.contains("truncated")), "so does the result: {row}");
    let whole = &api.job(&first).0["results"]["0"]["w1"];
    assert!(whole["reason"].is_null(), "{whole}");

    // The journal has room: `once` steps continue, and a restart works.
    let record = cluster.record("record");
    let mut runs = 0;
    let mut once = |worker: &mut grid_testkit::Worker| {
        runs += 1;
        let id = api.submit(&job("all", [task("test", "record", &json!({"path": record.path()}))]));
        assert_eq!(api.wait_ended(&id).status(), "completed");
        assert_eq!(record.lines().len(), runs);
        assert!(worker.process().is_running());
    };
    once(&mut worker);
    assert_eq!(worker.terminate().code(), Some(0));
    worker.restart();
    once(&mut worker);

    // Another process takes all of the remaining space: the reserve is for this case.
    let theirs = fill(&disk.0);
    once(&mut worker);
    worker.kill9();
    worker.restart();
    once(&mut worker);
    std::fs::remove_file(theirs).expect("their file");
    let again = api.submit(&flood(100));
    wait_until("an output that fits again", LIMIT, || {
        let job = api.try_job(&again)?;
        ensure(job.status() == "completed", &job)
    });
}
