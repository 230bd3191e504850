//! Runs one child process: its stdout lines, its log file, its end.
//!
//! A child gets its own process group, so that a signal to the test's terminal does not reach it, and is killed by its own id
//! when it is dropped, together with all of its descendants. stderr goes to a log file and not to a pipe: it needs no reader,
//! and survives `kill -9`. A test that panics prints the end of it.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;

use crate::procfs::{self, Seen};
use crate::wait::{LIMIT, ensure, wait_until};

const LOG_LINES_SHOWN: usize = 80;

/// A running (or ended) child.
pub struct Process {
    name: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// Ends when the last line has been read.
    reader: JoinHandle<()>,
    log: PathBuf,
    /// Left behind by `kill9`; killed at the end of the test at the latest.
    orphans: Vec<Seen>,
}

impl Process {
    /// Starts `command`; its stderr is appended to `log`.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Self {
        let log_file = OpenOptions::new().create(true).append(true).open(log);
        let log_file = log_file.unwrap_or_else(|e| panic!("log {}: {e}", log.display()));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("{name} does not start ({command:?}): {e}"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stdout = child.stdout.take().expect("stdout is piped");
        let reader = collect(stdout, Arc::clone(&lines));
        Self { name: name.to_owned(), child, lines, reader, log: log.to_owned(), orphans: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed on stdout, line by line.
    pub fn stdout_lines(&self) -> Vec<String> {
        self.lines.lock().expect("no reader panics").clone()
    }

    /// The log of this process and of those that used the same file before it.
    pub fn log_text(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The first stdout line that starts with `prefix`.
    ///
    /// # Panics
    /// When the process ends without it or never prints it.
    pub fn wait_line(&mut self, prefix: &str) -> String {
        let what = format!("the line `{prefix}…` of {}", self.name);
        wait_until(&what, LIMIT, || {
            // Checked before the lines are read: the last lines must not be missed.
            let ended = self.child.try_wait().expect("own child").filter(|_| self.reader.is_finished());
            let printed = self.stdout_lines();
            if let Some(line) = printed.iter().find(|line| line.starts_with(prefix)) {
                return Ok(line.clone());
            }
            if let Some(status) = ended {
                panic!("{} ended ({status}) before it printed `{prefix}…`", self.name);
            }
            Err(format!("stdout {printed:?}"))
        })
    }

    /// SIGKILL to this process only; its children keep running.
    pub fn kill9(&mut self) {
        self.orphans.extend(procfs::descendants(self.pid()));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGKILL to this process and to everything that descends from it.
    pub fn kill9_tree(&mut self) {
        self.kill9();
        for orphan in self.orphans.drain(..) {
            orphan.kill9();
        }
    }

    /// SIGTERM; see [`Process::wait_exit`].
    pub fn terminate(&self) {
        procfs::signal(self.pid(), Signal::TERM);
    }

    /// SIGSTOP: the process exists, but does not run.
    pub fn pause(&self) {
        procfs::signal(self.pid(), Signal::STOP);
    }

    /// SIGCONT after [`Process::pause`].
    pub fn resume(&self) {
        procfs::signal(self.pid(), Signal::CONT);
    }

    /// SIGHUP: many programs read their configuration again.
    pub fn hang_up(&self) {
        procfs::signal(self.pid(), Signal::HUP);
    }

    /// How it ended; everything it printed has been read by then.
    ///
    /// # Panics
    /// When it does not end within `limit`, or a descendant keeps its stdout open.
    pub fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("the end of {} and of its stdout", self.name);
        wait_until(&what, limit, || {
            let ended = self.child.try_wait().expect("own child");
            let status = ended.ok_or_else(|| "still running".to_owned())?;
            ensure(self.reader.is_finished(), "ended, but its stdout is still open")?;
            Ok(status)
        })
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("own child").is_none()
    }

    /// Its peak memory.
    pub fn peak_memory_kib(&self) -> u64 {
        procfs::peak_memory_kib(self.pid())
    }

    /// The living processes below this one.
    pub fn descendants(&self) -> Vec<Seen> {
        procfs::descendants(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill9();
        }
        for orphan in &self.orphans {
            orphan.kill9();
        }
        if std::thread::panicking() {
            let text = self.log_text();
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(LOG_LINES_SHOWN);
            eprintln!("--- {}: end of its log", self.name);
            for line in &lines[from..] {
                eprintln!("{line}");
            }
        }
    }
}

fn collect(stdout: ChildStdout, lines: Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    // Ends with the pipe: when the child and all processes that inherited its stdout have closed it.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            lines.lock().expect("no reader panics").push(line);
        }
    })
}

/// The `key=value` words of a ready line.
pub(crate) fn field(line: &str, key: &str) -> String {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    match found {
        Some(value) => value.to_owned(),
        None => panic!("`{key}=` is missing in `{line}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, field};
    use crate::wait::{LIMIT, ensure, wait_until};
    use std::process::Command;

    fn shell(script: &str, log: &std::path::Path) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn("sh", command, log)
    }

    #[test]
    fn stdout_lines_and_the_log_are_kept_apart() {
        let dir = tempfile::tempdir().expect("temp dir");
        let log = dir.path().join("log");
        let mut process = shell("echo ready a=1; echo trouble >&2; exit 3", &log);
        assert_eq!(field(&process.wait_line("ready"), "a"), "1");
        assert_eq!(process.wait_exit(LIMIT).code(), Some(3));
        assert_eq!(process.log_text(), "trouble\n");
    }

    #[test]
    fn dropping_a_process_kills_what_its_kill_left_behind() {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut process = shell("sleep 600 & echo up; wait", &dir.path().join("log"));
        process.wait_line("up");
        let below = process.descendants();
        assert_eq!(below.len(), 1, "{below:?}");
        process.kill9();
        assert!(below[0].alive(), "kill9 spares the children");
        drop(process);
        wait_until("the orphan's end", LIMIT, || ensure(!below[0].alive(), "alive"));
    }
}
