//! Tolerated failures on 300 real sessions (J1, I8): one failure in 300 exceeds a tolerance of 0, and after it no other node
//! starts.
//!
//! 299 sessions belong to `grid dev`, each with its own connection, journal and folder; one is a separate worker process, the
//! second to register, so that it is in the first window. It alone fails, because the record's path is relative and its working
//! folder lacks that folder: every node runs the same task.

use std::path::{Path, PathBuf};

use grid_testkit::spec::{job, task, with};
use grid_testkit::{Api, Job, LIMIT, Process, Record, Worker, WorkerOptions, bin, ensure, free_port, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

const ODD: &str = "odd-one";

struct Crowd {
    // Dropped in this order, so that no worker logs a lost server.
    _odd: Worker,
    _dev: Process,
    api: Api,
    dir: TempDir,
}

fn dev(dir: &Path, port: u16, workers: u32) -> Process {
    // A shell's usual limit, fewer files than 300 workers need: the process raises it itself.
    let mut shell = std::process::Command::new("sh");
    let api = format!("127.0.0.1:{port}");
    shell.args(["-c", "ulimit -Sn 1024 && exec \"$0\" \"$@\""]).arg(bin("grid"));
    shell.args(["dev", "--workers", &workers.to_string(), "--data-dir", "data", "--api", &api]).current_dir(dir);
    let mut dev = Process::spawn("grid dev", shell, &dir.join("dev.log"));
    dev.wait_line("grid ready ");
    dev
}

impl Crowd {
    fn gather() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        std::fs::create_dir(dir.path().join("lines")).expect("a folder");
        let (port, url) = (free_port(), |port| format!("http://127.0.0.1:{port}"));
        let mut few = dev(dir.path(), port, 1);
        let odd = WorkerOptions::new(ODD, &url(port), dir.path().join(ODD)).start();
        few.terminate();
        few.wait_exit(LIMIT);
        let dev = dev(dir.path(), port, 299);
        let crowd = Self { _odd: odd, _dev: dev, api: Api::new(&url(port)), dir };
        wait_until("300 nodes that are ready", LIMIT, || {
            let nodes = crowd.api.get("/status").json()["nodes"].clone();
            ensure(nodes["ready"] == 300, nodes)
        });
        crowd
    }

    fn record(&self, name: &str) -> Record {
        Record::at(self.dir.path().join(relative(name)))
    }
}

fn relative(name: &str) -> PathBuf {
    Path::new("lines").join(name)
}

/// Writes a line on every node except one, which fails.
fn rolling(name: &str, delay: &str, tolerance: &Value) -> Value {
    let record = task("test", "record", &json!({"path": relative(name).to_str(), "delay": delay}));
    with(job("all", [with(record, json!({"concurrency": 10}))]), json!({"failure_tolerate": tolerance}))
}

fn counts(job: &Job) -> (u64, u64, u64) {
    (job.count("success"), job.count("failed"), job.count("skipped"))
}

#[test]
fn j1_one_failure_in_300_trips_a_tolerance_of_0_and_nobody_else_begins() {
    let crowd = Crowd::gather();
    let api = &crowd.api;
    // The other nodes of the first window are still busy when the failure is reported, so that exactly they have begun.
    let id = api.submit(&rolling("tripped", "12s", &json!(0)));
    let tripped = api.wait_job(&id, "the failure", |j| j.count("failed") == 1);
    assert_eq!(tripped.outcome(0, ODD), "failed", "{tripped}");
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), counts(&ended)), ("failed", (9, 1, 290)), "{}", ended.reason());
    assert_eq!(ended.expected().len(), 300);
    let lines = crowd.record("tripped");
    assert_eq!(lines.of(&id).len(), 9, "those of the first window finished what they ran");

    // A share that one in 300 exceeds by a hair, and one that it does not.
    let id = api.submit(&rolling("hair", "12s", &json!("0.33%")));
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), counts(&ended)), ("failed", (9, 1, 290)), "{}", ended.reason());
    assert_eq!(crowd.record("hair").of(&id).len(), 9);
    let id = api.submit(&rolling("within", "0s", &json!("0.34%")));
    let ended = api.wait_ended(&id);
    assert_eq!((ended.status(), counts(&ended)), ("completed", (299, 1, 0)), "{}", ended.reason());
    let within = crowd.record("within");
    assert_eq!((within.of(&id).len(), within.duplicates().len()), (299, 0), "each of them ran once");

    // No node began late in that time.
    assert_eq!(lines.lines().len(), 9);
    assert_eq!(crowd.record("hair").lines().len(), 9);
}
