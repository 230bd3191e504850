//! Runs one child process of the supervisor: its command line, its pipes, its end.
//!
//! The child has its own process group, so that Ctrl-C in a terminal reaches the supervisor alone, which then ends its children
//! one after the other. It never outlives the supervisor: when the supervisor ends, even by kill -9, the child's stdin closes
//! and the child ends (`supervised`).

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

pub struct Child {
    name: &'static str,
    process: Process,
    stdin: ChildStdin,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
}

pub enum Next {
    Line(String),
    Ended(std::io::Result<ExitStatus>),
}

impl Child {
    /// Starts this same binary with other arguments.
    pub fn spawn(name: &'static str, arguments: &[OsString]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            // The arguments contain the settings of the file already.
            .env_remove("GRID_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut process = command.spawn().with_context(|| format!("cannot start the {name}"))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (stdin, stdout) = pipes.with_context(|| format!("the {name} has no pipes"))?;
        Ok(Self { name, process, stdin, stdout: Some(BufReader::new(stdout).lines()) })
    }

    /// Waits for the next line or the end of the child.
    pub async fn next(&mut self) -> Next {
        loop {
            let Some(stdout) = &mut self.stdout else { return Next::Ended(self.process.wait().await) };
            tokio::select! {
                // Lines first: the last lines are delivered before the end.
                biased;
                line = stdout.next_line() => match line {
                    Ok(Some(line)) => return Next::Line(line),
                    Ok(None) | Err(_) => self.stdout = None,
                },
                ended = self.process.wait() => return Next::Ended(ended),
            }
        }
    }

    /// Writes a line to the child. A write error means that the child has ended, which [`Child::next`] reports.
    pub async fn send(&mut self, message: impl std::fmt::Display) {
        let _ = self.stdin.write_all(format!("{message}\n").as_bytes()).await;
    }

    pub async fn ended(&mut self) {
        // An error means that there is no such child.
        let _ = self.process.wait().await;
    }

    pub fn terminate(&self) {
        let pid = self.process.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The child is not reaped yet, so the pid is still its own; the only remaining error is that it has ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Returns when the child has ended: within `limit`, or by SIGKILL.
    pub async fn end_within(&mut self, limit: Duration) {
        if timeout(limit, self.process.wait()).await.is_err() {
            tracing::warn!("the {} did not end within {limit:?}: SIGKILL", self.name);
            if let Err(error) = self.process.kill().await {
                tracing::error!("the {} cannot be killed: {error}", self.name);
            }
        }
    }
}
