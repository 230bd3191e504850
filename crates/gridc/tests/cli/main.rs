//! `gridc` as a person runs it: arguments in; stdout, stderr and exit code out.
//!
//! The server here is a script. It stands in only because the answers tested here (a refusal of every kind, a job
//! that stands still, a controller that is none) must come on demand; `gridc` against real controllers and workers
//! is tested in `crates/grid/tests`.

mod backends;
mod backups;
mod commands;
mod completion;
mod decisions;
mod fake;
mod hostile;
mod jobs;
mod listing;
mod names;
mod nodes;
mod outages;
mod outputs;
mod unwritten;
mod usage;
mod waiting;

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Only a hang can use it up.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("stdout is no JSON document ({e}): {self:?}"))
    }

    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

fn gridc(server: &str, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridc"));
    command
        .args(line.split(' ').filter(|word| !word.is_empty()))
        .env_remove("GRID_PATIENCE")
        .env_remove("GRID_SERVER")
        .env_remove("GRID_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if !server.is_empty() {
        command.env("GRID_SERVER", server);
    }
    command
}

async fn end(command: &mut Command) -> Ran {
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("gridc hangs").unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `gridc` with the words of `line`; an empty `server` leaves the default.
async fn run(server: &str, line: &str) -> Ran {
    end(&mut gridc(server, line)).await
}

async fn run_with_stdin(server: &str, line: &str, stdin: &str) -> Ran {
    let mut child = gridc(server, line).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // A child that refuses early closes its end; what it says is tested, not the pipe.
    let _ = pipe.write_all(stdin.as_bytes()).await;
    drop(pipe);
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await.expect("gridc hangs").unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
