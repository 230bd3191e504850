//! Runs `grid worker` as a child.
//!
//! The backend `test` is enabled: end-to-end jobs use it.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::bin::{after, command};
use crate::fabric::Fabric;
use crate::process::{Process, field};

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub node_id: String,
    /// API addresses of controllers; none for a worker on NATS.
    pub server_url: Option<String>,
    pub dir: PathBuf,
    pub flags: Vec<String>,
    /// The `PATH` of its programs; without it, that of the test.
    pub path: Option<std::ffi::OsString>,
    /// Shell commands that run before it starts.
    pub prelude: String,
}

impl WorkerOptions {
    pub fn new(node_id: &str, server_url: &str, dir: impl Into<PathBuf>) -> Self {
        Self {
            node_id: node_id.to_owned(),
            server_url: Some(server_url.to_owned()),
            dir: dir.into(),
            flags: Vec::new(),
            path: None,
            prelude: String::new(),
        }
    }

    /// A worker that reaches its controllers over the NATS servers at `urls`.
    pub fn nats(node_id: &str, urls: &str, dir: impl Into<PathBuf>) -> Self {
        Self { server_url: None, ..Self::new(node_id, "", dir) }.flags(&format!("--nats {urls}"))
    }

    /// On the fabric of a cluster whose controllers have these API addresses.
    pub fn over(fabric: &Fabric, node_id: &str, servers: &str, dir: impl Into<PathBuf>) -> Self {
        match fabric.urls() {
            Some(urls) => Self::nats(node_id, &urls, dir),
            None => Self::new(node_id, servers, dir),
        }
    }

    /// Flags as on a command line: `"--groups web,prod --slots 1"`.
    pub fn flags(mut self, flags: &str) -> Self {
        let words = flags.split_whitespace().map(str::to_owned);
        self.flags.extend(words);
        self
    }

    /// A shell runs this first: `"umask 000"`.
    pub fn prelude(mut self, script: &str) -> Self {
        script.clone_into(&mut self.prelude);
        self
    }

    /// With another `PATH`, such as that of [`crate::Stubs`]; its tasks inherit it.
    pub fn path(mut self, path: impl Into<std::ffi::OsString>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Starts it and waits until it is registered.
    pub fn start(self) -> Worker {
        let mut worker = self.spawn();
        worker.wait_ready();
        worker
    }

    /// Starts it without waiting: for a worker that is expected to be refused.
    pub fn spawn(self) -> Worker {
        std::fs::create_dir_all(&self.dir).expect("the worker's folder");
        Worker { process: spawn(&self), options: self }
    }
}

/// A worker process.
pub struct Worker {
    options: WorkerOptions,
    process: Process,
}

impl Worker {
    pub fn node_id(&self) -> &str {
        &self.options.node_id
    }

    pub fn data_dir(&self) -> PathBuf {
        data_dir(&self.options.dir)
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// SIGKILL to the worker alone; its tasks lose their parent.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// SIGKILL to the worker and its tasks, as a power cut would.
    pub fn kill9_tree(&mut self) {
        self.process.kill9_tree();
    }

    /// SIGTERM, then waits for the end.
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.terminate();
        self.process.wait_exit(Duration::from_secs(90))
    }

    /// Starts the same command line again, without waiting for registration.
    pub fn respawn(&mut self) {
        assert!(!self.process.is_running(), "stop the worker first");
        self.process = spawn(&self.options);
    }

    /// Starts the same command line again and waits until it is registered.
    pub fn restart(&mut self) {
        self.respawn();
        self.wait_ready();
    }

    /// Waits until it is registered and returns its session.
    pub fn wait_ready(&mut self) -> String {
        let line = self.process.wait_line("grid worker ready ");
        assert_eq!(field(&line, "node"), self.options.node_id, "{line}");
        field(&line, "session")
    }
}

fn data_dir(dir: &Path) -> PathBuf {
    dir.join("data")
}

fn spawn(options: &WorkerOptions) -> Process {
    let mut command = command("grid");
    command
        .args(["worker", "--node-id", &options.node_id])
        .arg("--data-dir")
        .arg(data_dir(&options.dir))
        .args(["--enable-backend", "test"])
        .args(&options.flags)
        .current_dir(&options.dir)
        .envs(options.path.iter().map(|path| ("PATH", path)));
    if let Some(url) = &options.server_url {
        command.args(["--server", url]);
    }
    if options.path.is_some() {
        command.env("GRID_PASS_ENV", "PATH");
    }
    let name = format!("grid worker {}", options.node_id);
    Process::spawn(&name, after(&options.prelude, command), &options.dir.join("worker.log"))
}
