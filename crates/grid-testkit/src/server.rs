//! `grid server` as a child.
//!
//! Ports are chosen once and stay the same over restarts, so that workers find
//! the server again; the data folder stays too, and so does the command line:
//! a restart must need no other.

use std::path::PathBuf;
use std::time::Duration;

use crate::api::Api;
use crate::bin::command;
use crate::ports::free_port;
use crate::process::{Process, field};

/// How a server is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    pub node_id: String,
    /// Data, log and everything else of this server.
    pub dir: PathBuf,
    /// Further flags, such as `--dead-after 4s`.
    pub flags: Vec<String>,
    /// A backup to go on from, instead of founding a cluster.
    pub restore: Option<PathBuf>,
}

impl ServerOptions {
    pub fn new(node_id: &str, dir: impl Into<PathBuf>) -> Self {
        Self { node_id: node_id.to_owned(), dir: dir.into(), flags: Vec::new(), restore: None }
    }

    /// Flags as a person would type them: `"--max-concurrent 1"`.
    pub fn flags(mut self, flags: &str) -> Self {
        let words = flags.split_whitespace().map(str::to_owned);
        self.flags.extend(words);
        self
    }

    pub fn restore(mut self, backup: impl Into<PathBuf>) -> Self {
        self.restore = Some(backup.into());
        self
    }

    /// Starts it and waits until it serves.
    pub fn start(self) -> Server {
        let mut server = self.spawn_at((free_port(), free_port()));
        server.wait_ready();
        server
    }

    /// Starts it only, where another one has been: for one that takes its place, or is expected to be refused.
    pub fn spawn_at(self, (api_port, grpc_port): (u16, u16)) -> Server {
        std::fs::create_dir_all(&self.dir).expect("the server's folder");
        let process = spawn(&self, api_port, grpc_port);
        Server { options: self, api_port, grpc_port, process }
    }
}

/// A controller process.
pub struct Server {
    options: ServerOptions,
    api_port: u16,
    grpc_port: u16,
    process: Process,
}

impl Server {
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.api_port)
    }

    /// For [`ServerOptions::spawn_at`].
    pub fn ports(&self) -> (u16, u16) {
        (self.api_port, self.grpc_port)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.options.dir.join("data")
    }

    pub fn api(&self) -> Api {
        Api::new(&self.url())
    }

    pub fn api_port(&self) -> u16 {
        self.api_port
    }

    /// Where workers are served.
    pub fn grpc_port(&self) -> u16 {
        self.grpc_port
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// SIGTERM, then waits for the end.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        self.process.terminate();
        self.process.wait_exit(Duration::from_secs(60))
    }

    /// The same command line again, without waiting for it to serve.
    pub fn respawn(&mut self) {
        assert!(!self.process.is_running(), "stop the server first");
        self.process = spawn(&self.options, self.api_port, self.grpc_port);
    }

    /// The same command line again, until it serves.
    pub fn restart(&mut self) {
        self.respawn();
        self.wait_ready();
    }

    pub fn wait_ready(&mut self) {
        let line = self.process.wait_line("grid ready ");
        assert_eq!(field(&line, "api"), self.url(), "{line}");
        assert_eq!(field(&line, "node"), self.options.node_id, "{line}");
    }
}

fn spawn(options: &ServerOptions, api_port: u16, grpc_port: u16) -> Process {
    let mut command = command("grid");
    command
        .args(["server", "--node-id", &options.node_id])
        .arg("--data-dir")
        .arg(options.dir.join("data"))
        .args(["--api", &format!("127.0.0.1:{api_port}")])
        .args(["--raft", "127.0.0.1:0"])
        .args(["--grpc", &format!("127.0.0.1:{grpc_port}")])
        .args(&options.flags)
        .current_dir(&options.dir);
    match &options.restore {
        Some(backup) => command.arg("--restore").arg(backup),
        None => command.arg("--bootstrap"),
    };
    let name = format!("grid server {}", options.node_id);
    Process::spawn(&name, command, &options.dir.join("server.log"))
}
