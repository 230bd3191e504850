//! Runs `grid server` as a child, or `grid node`, which has one.
//!
//! Ports are chosen once and kept over restarts, so that workers find the server again; the data folder and the command line
//! stay the same too: a restart must need no other.

use std::path::PathBuf;
use std::time::Duration;

use crate::api::Api;
use crate::bin::{after, command, command_in};
use crate::netns::Lan;
use crate::ports::free_port;
use crate::process::{Process, field};
use crate::procfs::Seen;

/// How a server is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// `server`, or `node` for one under a supervisor.
    pub verb: &'static str,
    pub node_id: String,
    /// Data, log and everything else of this server.
    pub dir: PathBuf,
    /// Further flags, such as `--dead-after 4s`.
    pub flags: Vec<String>,
    /// A backup to restore, instead of creating a cluster.
    pub restore: Option<PathBuf>,
    /// API addresses of a cluster to join; empty: it creates one.
    pub join: Option<String>,
    /// The namespace it runs in, and its address there; none: in the test's namespace, on loopback.
    pub machine: Option<(String, String)>,
    /// Shell commands that run before it starts.
    pub prelude: String,
}

impl ServerOptions {
    pub fn new(node_id: &str, dir: impl Into<PathBuf>) -> Self {
        Self {
            verb: "server",
            node_id: node_id.to_owned(),
            dir: dir.into(),
            flags: Vec::new(),
            join: None,
            restore: None,
            machine: None,
            prelude: String::new(),
        }
    }

    /// Under `grid node`.
    pub fn supervised(mut self) -> Self {
        self.verb = "node";
        self
    }

    /// A shell runs this first: `"umask 000"`.
    pub fn prelude(mut self, script: &str) -> Self {
        script.clone_into(&mut self.prelude);
        self
    }

    /// It runs on a host of `lan`.
    pub fn on(mut self, lan: &Lan, host: usize) -> Self {
        self.machine = Some((lan.namespace(host), lan.address(host)));
        self
    }

    fn host(&self) -> &str {
        self.machine.as_ref().map_or("127.0.0.1", |(_, address)| address)
    }

    /// It joins the cluster of the controller at `url`.
    pub fn join(mut self, url: &str) -> Self {
        self.join = Some(url.to_owned());
        self
    }

    /// Flags as on a command line: `"--max-concurrent 1"`.
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
        let mut server = self.spawn();
        server.wait_ready();
        server
    }

    /// Starts it without waiting: for a server that is expected to be refused.
    pub fn spawn(self) -> Server {
        self.spawn_at((free_port(), free_port()))
    }

    /// Starts it at the ports of another one without waiting: for one that replaces it, or is expected to be refused.
    pub fn spawn_at(self, ports: (u16, u16)) -> Server {
        self.spawn_with(ports, free_port())
    }

    /// The same, also where other controllers look for it.
    pub fn spawn_with(self, (api, grpc): (u16, u16), raft: u16) -> Server {
        std::fs::create_dir_all(&self.dir).expect("the server's folder");
        let ports = Ports { api, grpc, raft };
        let process = spawn(&self, ports);
        Server { options: self, ports, process }
    }
}

/// The same over restarts.
#[derive(Debug, Clone, Copy)]
struct Ports {
    api: u16,
    grpc: u16,
    raft: u16,
}

/// A controller process.
pub struct Server {
    options: ServerOptions,
    ports: Ports,
    process: Process,
}

impl Server {
    pub fn url(&self) -> String {
        format!("http://{}:{}", self.options.host(), self.ports.api)
    }

    pub fn node_id(&self) -> &str {
        &self.options.node_id
    }

    /// For [`ServerOptions::spawn_at`].
    pub fn ports(&self) -> (u16, u16) {
        (self.ports.api, self.ports.grpc)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.options.dir.join("data")
    }

    pub fn api(&self) -> Api {
        Api::new(&self.url())
    }

    pub fn api_port(&self) -> u16 {
        self.ports.api
    }

    /// Its address for workers.
    pub fn grpc_port(&self) -> u16 {
        self.ports.grpc
    }

    /// Its address for other controllers.
    pub fn raft_port(&self) -> u16 {
        self.ports.raft
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its child `grid server` or `grid worker`, under `grid node`.
    pub fn child(&self, verb: &str) -> Option<Seen> {
        self.process.descendants().into_iter().find(|seen| seen.arguments().get(1).is_some_and(|word| word == verb))
    }

    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// SIGTERM, then waits for the end.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        self.process.terminate();
        self.process.wait_exit(Duration::from_secs(60))
    }

    /// Sets other flags for the next start, such as those of another version.
    pub fn set_flags(&mut self, flags: &str) {
        self.options.flags = flags.split_whitespace().map(str::to_owned).collect();
    }

    /// Starts the same command line again, without waiting for it to serve.
    pub fn respawn(&mut self) {
        assert!(!self.process.is_running(), "stop the server first");
        self.process = spawn(&self.options, self.ports);
    }

    /// Starts the same command line again and waits until it serves.
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

fn spawn(options: &ServerOptions, ports: Ports) -> Process {
    let mut command = match &options.machine {
        None => command("grid"),
        Some((namespace, _)) => command_in(namespace, "grid"),
    };
    let host = options.host();
    command
        .args([options.verb, "--node-id", &options.node_id])
        .arg("--data-dir")
        .arg(options.dir.join("data"))
        .args(["--api", &format!("{host}:{}", ports.api)])
        .args(["--raft", &format!("{host}:{}", ports.raft)])
        .args(["--grpc", &format!("{host}:{}", ports.grpc)])
        .args(&options.flags)
        .current_dir(&options.dir);
    match (&options.restore, &options.join) {
        (Some(backup), _) => command.arg("--restore").arg(backup),
        (None, Some(url)) => command.args(["--join", url]),
        (None, None) => command.arg("--bootstrap"),
    };
    let name = format!("grid {} {}", options.verb, options.node_id);
    Process::spawn(&name, after(&options.prelude, command), &options.dir.join("server.log"))
}
