//! A child of the supervisor: its command line, its pipes, its end.
//!
//! It runs in a process group of its own, so that Ctrl-C in a terminal reaches the supervisor alone, which ends its children in
//! order. It lives no longer than the supervisor: its stdin closes, even by kill -9, and it ends (`supervised`).

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
    /// Starts this very program with other words.
    pub fn spawn(name: &'static str, words: &[OsString]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the program that runs")?;
        let mut command = Command::new(program);
        command
            .args(words)
            // What the file says is in the words already.
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

    /// What it does next.
    pub async fn next(&mut self) -> Next {
        loop {
            let Some(stdout) = &mut self.stdout else { return Next::Ended(self.process.wait().await) };
            tokio::select! {
                // Lines first: what it printed last is heard before its end.
                biased;
                line = stdout.next_line() => match line {
                    Ok(Some(line)) => return Next::Line(line),
                    Ok(None) | Err(_) => self.stdout = None,
                },
                ended = self.process.wait() => return Next::Ended(ended),
            }
        }
    }

    /// A child that does not listen any more has ended, which [`Child::next`] says.
    pub async fn say(&mut self, word: impl std::fmt::Display) {
        let _ = self.stdin.write_all(format!("{word}\n").as_bytes()).await;
    }

    pub async fn ended(&mut self) {
        // An error means that there is no such child.
        let _ = self.process.wait().await;
    }

    pub fn terminate(&self) {
        let pid = self.process.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It is not reaped yet, so the id is its own; the only error left is that it has ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Returns when it has ended: by itself within `limit`, or by SIGKILL.
    pub async fn end_within(&mut self, limit: Duration) {
        if timeout(limit, self.process.wait()).await.is_err() {
            tracing::warn!("the {} did not end within {limit:?}: SIGKILL", self.name);
            if let Err(error) = self.process.kill().await {
                tracing::error!("the {} cannot be killed: {error}", self.name);
            }
        }
    }
}
