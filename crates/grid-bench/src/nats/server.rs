//! Runs a real nats-server with JetStream, and reads its monitoring port.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

use crate::http_client::Connection;
use crate::process::Process;

const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);

pub struct NatsServer {
    pub process: Process,
    pub url: String,
    /// Host and port.
    monitor: String,
}

impl NatsServer {
    /// Returns when it serves clients and JetStream. Its data is in `folder`.
    pub async fn start(name: &str, folder: &Path) -> anyhow::Result<Self> {
        let program = program()?;
        let data = folder.join(name);
        std::fs::create_dir_all(&data)?;
        let data_text = data.display().to_string();
        // Ports of its own choice, which it writes into a file.
        let args = ["-a", "127.0.0.1", "-p", "-1", "-m", "-1", "-js", "-n", name, "-sd", &data_text];
        let args = args.into_iter().chain(["--ports_file_dir", &data_text]).map(str::to_owned).collect::<Vec<_>>();
        let process = Process::start_program(name, &program, &args, folder)?;
        let (url, monitor) = addresses(&data, process.pid()).await?;
        let server = Self { process, url, monitor };
        server.healthy().await?;
        Ok(server)
    }

    /// Consumers of all streams.
    pub async fn consumers(&self) -> anyhow::Result<u64> {
        let doc = self.monitor("/jsz").await?;
        doc["consumers"].as_u64().ok_or_else(|| anyhow!("/jsz has no number of consumers: {doc}"))
    }

    async fn healthy(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.monitor("/healthz").await.is_ok_and(|doc| doc["status"] == "ok") {
            if began.elapsed() > PATIENCE {
                bail!("nats-server is not healthy after {PATIENCE:?}");
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    async fn monitor(&self, path: &str) -> anyhow::Result<Value> {
        let mut connection = Connection::open(&self.monitor).await?;
        Ok(serde_json::from_slice(connection.get(path).await?.body)?)
    }
}

/// `GRID_TEST_NATS_SERVER`, else that of `PATH`, else the one that `cargo xtask tools` installs.
fn program() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("GRID_TEST_NATS_SERVER") {
        return Ok(given.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join("nats-server")).collect();
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    candidates.extend(cache.map(|cache| cache.join("grid-tools/nats-server/bin/nats-server")));
    candidates.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        anyhow!("there is no nats-server on PATH: install it, or name the program in GRID_TEST_NATS_SERVER")
    })
}

/// Of clients and of monitoring, as the server reports them in its file of ports.
async fn addresses(folder: &Path, pid: u32) -> anyhow::Result<(String, String)> {
    let file = folder.join(format!("nats-server_{pid}.ports"));
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        // It may be half written.
        if let Ok(doc) = serde_json::from_str::<Value>(&text)
            && let (Some(url), Some(monitor)) = (doc["nats"][0].as_str(), doc["monitoring"][0].as_str())
        {
            return Ok((url.to_owned(), monitor.trim_start_matches("http://").to_owned()));
        }
        if began.elapsed() > PATIENCE {
            bail!("nats-server has not reported its ports in {} after {PATIENCE:?}", file.display());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A connection of a benchmark.
pub async fn connect(url: &str) -> anyhow::Result<async_nats::Client> {
    let options = async_nats::ConnectOptions::new().subscription_capacity(SUBSCRIPTION_CAPACITY);
    options.connect(url).await.with_context(|| format!("cannot connect to {url}"))
}

/// The default loses answers of large fan-outs.
const SUBSCRIPTION_CAPACITY: usize = 262_144;
