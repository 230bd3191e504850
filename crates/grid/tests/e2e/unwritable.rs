//! Nothing depends on the readers of stdout and stderr. A closed pipe, a full disk and a stopped reader cost log lines and
//! nothing else.

use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use grid_testkit::spec::{job, task};
use grid_testkit::{Api, Cluster, LIMIT, command, ensure, free_port, procfs, wait_until};
use serde_json::json;

/// Where stdout and stderr go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    ClosedPipe,
    FullDisk,
    /// A full pipe without a reader.
    FullPipe,
}

/// Ends with the value.
struct Running {
    child: Child,
    _readers: Vec<PipeReader>,
}

impl Running {
    fn spawn(mut command: Command, bad: Bad) -> Self {
        let mut readers = Vec::new();
        let mut end = || match bad {
            Bad::FullDisk => Stdio::from(File::options().write(true).open("/dev/full").expect("/dev/full")),
            Bad::ClosedPipe => Stdio::from(std::io::pipe().expect("a pipe").1),
            Bad::FullPipe => {
                let (reader, mut writer) = std::io::pipe().expect("a pipe");
                // As much as a pipe holds: the next byte has to wait.
                writer.write_all(&[b'\n'; 65_536]).expect("an empty pipe");
                readers.push(reader);
                Stdio::from(writer)
            }
        };
        let (stdout, stderr) = (end(), end());
        let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).env("GRID_LOG", "debug").spawn();
        Self { child: child.expect("grid starts"), _readers: readers }
    }

    fn terminate(&mut self) -> ExitStatus {
        procfs::terminate(self.child.id());
        wait_until("the end of a process after SIGTERM", LIMIT, || {
            self.child.try_wait().expect("own child").ok_or_else(|| "still running".to_owned())
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lead_work_and_end(bad: Bad) {
    let dir = tempfile::tempdir().expect("temp dir");
    let port = free_port();
    let mut server = command("grid");
    server.args(["server", "--node-id", "c1", "--bootstrap", "--api", &format!("127.0.0.1:{port}")]);
    server.args(["--raft", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--data-dir"]).arg(dir.path().join("c1"));
    let mut server = Running::spawn(server, bad);
    let url = format!("http://127.0.0.1:{port}");
    let api = Api::new(&url).with_timeout(Duration::from_secs(5));
    wait_until("a leader", LIMIT, || {
        let role = api.try_get("/role")?;
        ensure(role.json()["role"] == "LEADER", format!("{bad:?}: {role:?}"))
    });
    let mut worker = command("grid");
    worker.args(["worker", "--server", &url, "--node-id", "w1", "--enable-backend", "test", "--data-dir"]);
    let mut worker = Running::spawn(
        {
            worker.arg(dir.path().join("w1"));
            worker
        },
        bad,
    );
    api.wait_node("w1", "ready");
    // Many lines of log on both sides.
    for _ in 0..20 {
        let id = api.submit(&job("all", [task("ping", "echo", &json!({"message": "hello"}))]));
        let ended = api.wait_ended(&id);
        assert_eq!(ended.status(), "completed", "{bad:?}: {ended}");
    }
    assert_eq!(api.get("/role").json()["role"], "LEADER", "{bad:?}");
    assert_eq!(worker.terminate().code(), Some(0), "{bad:?}");
    assert_eq!(server.terminate().code(), Some(0), "{bad:?}");
}

#[test]
fn issue13_a_closed_pipe_ends_neither_leader_nor_worker() {
    lead_work_and_end(Bad::ClosedPipe);
}

#[test]
fn issue13_a_full_log_disk_ends_neither_leader_nor_worker() {
    lead_work_and_end(Bad::FullDisk);
}

#[test]
fn issue13_a_reader_that_has_stopped_delays_neither_leader_nor_worker() {
    lead_work_and_end(Bad::FullPipe);
}

#[test]
fn issue13_a_reader_of_gridc_that_has_seen_enough_ends_it_quietly() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let id = cluster.api().submit(&job("all", [task("ping", "echo", &json!({"message": "hello"}))]));
    cluster.api().wait_ended(&id);
    let url = cluster.server.url();
    for line in [
        "node list",
        "job list -o json",
        "events",
        "events -f",
        "--help",
        "backend list",
        &format!("job logs {id}"),
        "completion bash",
    ] {
        let (mut heard, stderr) = std::io::pipe().expect("a pipe");
        let (_, closed) = std::io::pipe().expect("a pipe");
        let mut gridc = command("gridc");
        gridc.args(["--server", &url]).args(line.split(' ')).stdin(Stdio::null()).stdout(closed).stderr(stderr);
        let mut child = gridc.spawn().expect("gridc starts");
        drop(gridc);
        let mut said = String::new();
        heard.read_to_string(&mut said).expect("its stderr");
        assert_eq!((child.wait().expect("own child").code(), said.as_str()), (Some(0), ""), "gridc {line}");
    }
    // Its messages have no reader either.
    let mut gridc = command("gridc");
    gridc.args(["--server", &url, "job", "status", "job-0000000000000"]).stdout(Stdio::null());
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    assert_eq!(gridc.stderr(full).status().expect("gridc runs").code(), Some(4));
}
