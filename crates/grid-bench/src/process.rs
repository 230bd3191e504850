//! Runs a process of a benchmark: this same binary, with other arguments.
//!
//! It writes lines to stdout and reads lines from stdin; its stderr goes to a file that is shown when it fails. It ends with
//! the benchmark, however that ends: by kill when it is dropped, otherwise by the end of its stdin.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Limit for any request to a process; 10,000 sessions on a busy machine are the slowest.
const PATIENCE: Duration = Duration::from_secs(300);
const SHOWN_LINES: usize = 15;

pub struct Process {
    name: String,
    child: Child,
    pid: u32,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Process {
    /// `log_dir`: where its stderr goes.
    pub fn start(name: &str, args: &[String], log_dir: &Path) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find the path of this program")?;
        Self::start_program(name, &own, args, log_dir)
    }

    pub fn start_program(name: &str, program: &Path, args: &[String], log_dir: &Path) -> anyhow::Result<Self> {
        let log = log_dir.join(format!("{name}.log"));
        let doing = || format!("cannot start {name} ({})", program.display());
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(&log).with_context(doing)?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
        // The caller's settings would change what is measured.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("GRID_") {
                command.env_remove(variable);
            }
        }
        let mut child = command.spawn().with_context(doing)?;
        let (pid, stdin) = (child.id(), child.stdin.take());
        let (Some(pid), Some(stdout)) = (pid, child.stdout.take()) else { bail!("{}: no pipes", doing()) };
        Ok(Self { name: name.to_owned(), child, pid, stdin, stdout: BufReader::new(stdout).lines(), log })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the next line that begins like this.
    pub async fn says(&mut self, beginning: &str) -> anyhow::Result<String> {
        let waiting = async {
            loop {
                match self.stdout.next_line().await? {
                    Some(line) if line.starts_with(beginning) => return Ok(line),
                    Some(_) => {}
                    None => bail!("it has ended"),
                }
            }
        };
        let said = tokio::time::timeout(PATIENCE, waiting).await;
        said.map_err(|_| anyhow!("silent for {PATIENCE:?}"))
            .and_then(|said| said)
            .with_context(|| self.last_words(beginning))
    }

    pub async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().ok_or_else(|| anyhow!("{} has closed its stdin", self.name))?;
        let told = stdin.write_all(format!("{line}\n").as_bytes()).await;
        told.with_context(|| format!("{} has ended", self.name))
    }

    /// Kills it, like a power cut.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.with_context(|| format!("cannot kill {}", self.name))
    }

    /// Ends it with SIGTERM, like an operator.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| anyhow!("{} has no process id", self.name))?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .with_context(|| format!("cannot stop {}", self.name))?;
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended
            .map_err(|_| anyhow!("{} did not end in time", self.name))?
            .with_context(|| format!("cannot stop {}", self.name))?;
        Ok(())
    }

    fn last_words(&self, wanted: &str) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        format!("{} did not print {wanted:?}; its last lines:\n{last}", self.name)
    }
}
