//! Runs real NATS servers with JetStream: one, or a cluster of three.
//!
//! ```text
//!   NatsOptions ──> Nats (one process, its folder, its ports)      NatsTrio ──> three of them, connected by routes
//! ```
//!
//! Ports, folder and routes are flags and not a configuration file, because flags override a file: a test can run the files that
//! `grid nats config` writes without a change. Never a mock: what a server refuses or loses is what these tests are about.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::bin::clean;
use crate::ports::free_port;
use crate::process::Process;
use crate::wait::{LIMIT, ensure, wait_until};

const CLUSTER: usize = 3;
/// A paused server answers nothing.
const MONITOR_LIMIT: Duration = Duration::from_secs(5);

/// The program: `GRID_TEST_NATS_SERVER`, else that of `PATH`, else the one that `cargo xtask test` installs.
///
/// # Panics
/// When there is none, with how to get one.
pub fn nats_server() -> PathBuf {
    if let Some(given) = std::env::var_os("GRID_TEST_NATS_SERVER") {
        return given.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join("nats-server")).collect();
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    candidates.extend(cache.map(|cache| cache.join("grid-tools/nats-server/bin/nats-server")));
    candidates.into_iter().find(|file| file.is_file()).expect(
        "this test needs nats-server: run it by `cargo xtask test`, which installs it (or set GRID_TEST_NATS_SERVER)",
    )
}

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    config: Option<PathBuf>,
    flags: Vec<String>,
    scheme: Option<&'static str>,
}

impl NatsOptions {
    pub fn new() -> Self {
        Self::default()
    }

    /// With a configuration file. It must turn JetStream on itself.
    pub fn config(mut self, file: impl Into<PathBuf>) -> Self {
        self.config = Some(file.into());
        self
    }

    /// The configuration demands TLS: the URL begins with `tls://`.
    pub fn tls(mut self) -> Self {
        self.scheme = Some("tls");
        self
    }

    /// Further flags, as on a command line.
    pub fn flags(mut self, flags: &str) -> Self {
        self.flags.extend(flags.split_whitespace().map(str::to_owned));
        self
    }

    /// Starts it and waits until it is healthy.
    pub fn start(self) -> Nats {
        let mut server = self.spawn("nats");
        server.wait_ready();
        server
    }

    fn spawn(self, name: &str) -> Nats {
        let ports = Ports { client: free_port(), monitor: free_port() };
        let dir = tempfile::tempdir().expect("temp dir");
        let process = spawn(&self, name, ports, dir.path());
        Nats { options: self, name: name.to_owned(), ports, dir, process }
    }
}

/// The same over restarts.
#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    monitor: u16,
}

/// A NATS server; it ends when the value is dropped.
pub struct Nats {
    options: NatsOptions,
    name: String,
    ports: Ports,
    process: Process,
    /// After the process, which shows its log when a test fails.
    dir: TempDir,
}

impl Nats {
    /// One server with JetStream.
    pub fn start() -> Self {
        NatsOptions::new().start()
    }

    /// For `--nats`.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.options.scheme.unwrap_or("nats"), self.ports.client)
    }

    pub fn port(&self) -> u16 {
        self.ports.client
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// A document of its monitoring port: `/connz?subs=1`, `/jsz?streams=1&consumers=1&config=1`.
    ///
    /// # Panics
    /// When there is none.
    pub fn monitor(&self, path: &str) -> Value {
        self.ask(path).unwrap_or_else(|e| panic!("{path} of {}: {e}", self.name))
    }

    /// SIGKILL; its folder stays for [`Nats::restart`].
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Removes everything that JetStream has stored, while it is down.
    pub fn lose_storage(&mut self) {
        assert!(!self.process.is_running(), "stop the NATS server first");
        std::fs::remove_dir_all(self.dir.path().join("jetstream")).expect("it has stored something");
    }

    /// SIGTERM, then waits for the end.
    pub fn terminate(&mut self) {
        self.process.terminate();
        self.process.wait_exit(LIMIT);
    }

    /// SIGSTOP: its connections stay open, and nothing is answered.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// SIGCONT after [`Nats::pause`].
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Starts the same command line again, without waiting.
    pub fn respawn(&mut self) {
        assert!(!self.process.is_running(), "stop the NATS server first");
        self.process = spawn(&self.options, &self.name, self.ports, self.dir.path());
    }

    /// Starts the same command line again and waits until it is healthy.
    pub fn restart(&mut self) {
        self.respawn();
        self.wait_ready();
    }

    /// Reads its configuration file again: SIGHUP.
    pub fn reload(&self) {
        self.process.hang_up();
    }

    /// Waits until it serves clients and JetStream.
    ///
    /// # Panics
    /// When it ends or never does.
    pub fn wait_ready(&mut self) {
        wait_until(&format!("{} to be healthy", self.name), LIMIT, || {
            assert!(self.process.is_running(), "{} ended:\n{}", self.name, self.process.log_text());
            let health = self.ask("/healthz")?;
            ensure(health["status"] == "ok", health)
        });
    }

    /// Not by [`crate::Api`]: its blocking client cannot be used in a test that runs on tokio.
    fn ask(&self, path: &str) -> Result<Value, String> {
        let mut answer = String::new();
        let mut exchange = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.ports.monitor))?;
            stream.set_read_timeout(Some(MONITOR_LIMIT))?;
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
            stream.read_to_string(&mut answer)
        };
        exchange().map_err(|e| e.to_string())?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(|e| format!("{e}: {answer}"))
    }
}

fn spawn(options: &NatsOptions, name: &str, ports: Ports, dir: &Path) -> Process {
    let mut command = clean(Command::new(nats_server()));
    command
        .args(["-a", "127.0.0.1", "-p", &ports.client.to_string(), "-m", &ports.monitor.to_string()])
        .args(&options.flags)
        .current_dir(dir);
    match &options.config {
        None => command.args(["-n", name, "-js", "-sd"]).arg(dir.join("jetstream")),
        // It names the server and its files, which are relative to where it runs.
        Some(file) => command.arg("-c").arg(file).current_dir(file.parent().expect("a configuration is in a folder")),
    };
    Process::spawn(name, command, &dir.join("nats.log"))
}

/// Three servers of one cluster.
pub struct NatsTrio {
    servers: Vec<Nats>,
}

impl NatsTrio {
    /// Starts them and waits until JetStream has a leader.
    pub fn start() -> Self {
        Self::start_with(&NatsOptions::new())
    }

    /// The same with `options` for each.
    pub fn start_with(options: &NatsOptions) -> Self {
        let routes: Vec<u16> = (0..CLUSTER).map(|_| free_port()).collect();
        let urls: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let servers = routes.iter().enumerate().map(|(i, port)| {
            let flags = format!("--cluster_name grid --cluster nats://127.0.0.1:{port} --routes {}", urls.join(","));
            options.clone().flags(&flags).spawn(&format!("nats-{}", i + 1))
        });
        let mut trio = Self { servers: servers.collect() };
        trio.wait_ready();
        trio
    }

    /// All URLs, for `--nats`.
    pub fn urls(&self) -> String {
        self.servers.iter().map(Nats::url).collect::<Vec<_>>().join(",")
    }

    pub fn server(&mut self, i: usize) -> &mut Nats {
        &mut self.servers[i]
    }

    /// Waits until each server is healthy and knows the leader of JetStream.
    pub fn wait_ready(&mut self) {
        for server in &mut self.servers {
            server.wait_ready();
        }
        wait_until("a leader of JetStream and three known servers", Duration::from_secs(120), || {
            for server in &self.servers {
                let meta = &server.monitor("/jsz")["meta_cluster"];
                ensure(meta["leader"].is_string() && meta["cluster_size"] == CLUSTER, meta)?;
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Nats, NatsTrio};
    use crate::wait::{LIMIT, ensure, wait_until};

    #[test]
    fn a_server_has_jetstream_and_survives_a_kill() {
        let mut nats = Nats::start();
        assert!(nats.monitor("/varz")["jetstream"]["config"].is_object());
        assert_eq!(nats.monitor("/jsz")["streams"], 0);
        let port = nats.port();
        nats.kill9();
        nats.restart();
        assert_eq!(nats.port(), port);
        nats.pause();
        nats.resume();
        wait_until("an answer after the pause", LIMIT, || {
            ensure(nats.monitor("/connz")["num_connections"] == 0, "connections")
        });
    }

    #[test]
    fn three_servers_elect_a_leader_of_jetstream_again_after_a_kill() {
        let mut trio = NatsTrio::start();
        assert_eq!(trio.urls().split(',').count(), 3);
        trio.server(0).kill9();
        trio.server(0).restart();
        trio.wait_ready();
    }
}
