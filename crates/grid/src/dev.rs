//! `grid dev`: runs a controller and workers in one process, the explicit exception to "no worker beside the leader".

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use grid_controller::{Opening, Pace, Settings, Start};
use grid_fabric::nats::{Client, NatsBroker};
use grid_tasks::Tasks;
use grid_types::clock::SystemClock;
use grid_worker::allow::Allow;
use grid_worker::{Shutdown, ShutdownHandle, WorkerConfig, WorkerError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cli::DevArgs;
use crate::nats::beside::Beside;
use crate::server::{Fabrics, OverNats, Serving};
use crate::tuning::Tuned;
use crate::{net, open_files, say, signals};

/// Open files per worker: its socket, its lock, its journal, outputs that it writes.
const FILES_PER_WORKER: u64 = 12;

pub async fn run(args: DevArgs) -> anyhow::Result<ExitCode> {
    let tuned = args.tuning.checked()?;
    net::check_exposure(&[("--api", args.api)], false)?;
    let tasks = Tasks::default();
    let signals = signals::asked_to_end(&tasks, None)?;
    let scratch = match &args.data_dir {
        Some(_) => None,
        None => Some(tempfile::tempdir().context("cannot make a temporary folder")?),
    };
    let data_dir: PathBuf = match (&args.data_dir, &scratch) {
        (Some(dir), _) => dir.clone(),
        (None, Some(dir)) => dir.path().to_path_buf(),
        (None, None) => anyhow::bail!("no data folder"),
    };
    grid_folder::enter(&data_dir, grid_folder::Kind::DEV)
        .with_context(|| format!("--data-dir {} cannot be used", data_dir.display()))?;
    let options =
        WorkerOptions { pass_env: args.pass_env, enable_backends: args.enable_backends, allow: args.allow.lists() };
    let embedded = Embedded {
        api: args.api,
        allow_hosts: args.allow_hosts,
        workers: args.workers,
        options,
        tuned,
        nats: Beside::start_for(args.fabric, &data_dir).await?,
    };
    let mut dev = Dev::start(&data_dir, embedded).await?;
    let nats = dev.nats.as_ref().map(|beside| format!(" nats={}", beside.url)).unwrap_or_default();
    say::out(format_args!("grid ready api={}{nats}", dev.api_url));
    say::err(format_args!("hint: try it in another terminal:"));
    say::err(format_args!("  gridc --server {} node list", dev.api_url));
    say::err(format_args!("  gridc --server {} job run --target all ping echo --wait", dev.api_url));
    let mut asked = Box::pin(signals::first(signals));
    let ended = loop {
        tokio::select! {
            () = &mut asked => break Ok(ExitCode::SUCCESS),
            failed = tasks.failed() => break Err(anyhow::anyhow!("{failed}")),
            why = Beside::ended_of(&mut dev.nats) => break Err(anyhow::anyhow!("{why}")),
            why = dev.serving.stopped() => break Err(anyhow::anyhow!("{}: {why}", data_dir.display())),
            Some(ended) = dev.workers.join_next() => match ended {
                // An operator removed the node; the other workers continue.
                Ok(Err(WorkerError::Removed)) => tracing::info!("a worker ended: its node was removed"),
                ended => break Err(worker_error(ended)),
            },
        }
    };
    dev.stop().await;
    ended
}

fn worker_error(ended: Result<Result<(), WorkerError>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Err(e)) => anyhow::Error::new(e).context("a worker has ended"),
        Ok(Ok(())) => anyhow::anyhow!("a worker ended unexpectedly"),
        Err(e) => anyhow::Error::new(e).context("a worker has ended"),
    }
}

/// What the workers of an embedded cluster may run.
#[derive(Default)]
pub struct WorkerOptions {
    pub pass_env: Vec<String>,
    pub enable_backends: Vec<String>,
    pub allow: Allow,
}

/// How to run an embedded cluster.
pub struct Embedded {
    pub api: SocketAddr,
    pub allow_hosts: Vec<String>,
    /// How many workers.
    pub workers: u32,
    pub options: WorkerOptions,
    pub tuned: Tuned,
    /// Through which the workers connect; none: over gRPC.
    pub nats: Option<Beside>,
}

/// An embedded cluster.
pub struct Dev {
    pub api_url: String,
    pub serving: Serving,
    pub workers: JoinSet<Result<(), WorkerError>>,
    stop_workers: ShutdownHandle,
    /// Through which the workers connect; none: over gRPC.
    pub nats: Option<Beside>,
}

impl Dev {
    /// Returns when every worker is registered.
    pub async fn start(data_dir: &Path, embedded: Embedded) -> anyhow::Result<Self> {
        let Embedded { api, allow_hosts, workers, options, tuned, nats } = embedded;
        let (api, api_addr) = net::bind(api, "the API").await?;
        let (grpc, grpc_addr) = net::bind(([127, 0, 0, 1], 0).into(), "workers").await?;
        let api_url = format!("http://{api_addr}");
        let settings = Settings {
            node_id: "dev".parse()?,
            api_url: api_url.clone(),
            grpc_addr: grpc_addr.to_string(),
            quotas: tuned.quotas,
            thresholds: tuned.thresholds,
            heartbeat_ms: tuned.heartbeat_ms,
            history_ms: tuned.history_ms,
        };
        let opening = Opening {
            settings,
            data_dir: data_dir.join("controller"),
            raft_addr: "127.0.0.1:8766".to_owned(),
            peers: None,
            start: Start::Bootstrap,
            feature_level: grid_controller::FEATURE_LEVEL,
            starts_paused: false,
            pace: Pace::default(),
            clock: Arc::new(SystemClock::new()),
            tasks: Tasks::default(),
        };
        let connections = open_files::connections(u64::from(workers) * FILES_PER_WORKER);
        let fabrics = match &nats {
            None => Fabrics { grpc: Some(grpc), nats: None },
            Some(beside) => {
                let client = Client::connect(&beside.settings("controller_dev")).await?;
                Fabrics { grpc: None, nats: Some(OverNats { client, replicas: 1 }) }
            }
        };
        let serving =
            Serving::start(opening, api, fabrics, net::hosts(api_addr, None, &allow_hosts), connections).await?;
        let controller = serving.controller.clone();
        tokio::select! {
            () = controller.serves() => {}
            why = serving.stopped() => anyhow::bail!("{}: {why}", data_dir.display()),
        }
        let (stop_workers, stop) = Shutdown::new();
        let mut dev = Self { api_url, serving, workers: JoinSet::new(), stop_workers, nats };
        dev.start_workers(data_dir, workers, options, &stop).await?;
        Ok(dev)
    }

    async fn start_workers(
        &mut self,
        data_dir: &Path,
        count: u32,
        options: WorkerOptions,
        stop: &Shutdown,
    ) -> anyhow::Result<()> {
        let (registered, mut registrations) = mpsc::channel(usize::try_from(count)?.max(1));
        for i in 1..=count {
            let (id, groups) = worker_name(i);
            let mut config = WorkerConfig::new(vec![self.api_url.clone()], data_dir.join("workers").join(&id));
            config.node_id = Some(id.parse()?);
            config.groups = groups.iter().map(|group| group.parse()).collect::<Result<_, _>>()?;
            config.enable_backends = options.enable_backends.iter().cloned().chain(["test".to_owned()]).collect();
            config.pass_env.clone_from(&options.pass_env);
            config.allow.clone_from(&options.allow);
            let (stop, registered) = (stop.clone(), registered.clone());
            // The name is replaced by the node's.
            let settings = self.nats.as_ref().map(|beside| beside.settings(""));
            self.workers.spawn(async move {
                let ready = move |_| {
                    let _ = registered.try_send(());
                };
                match settings {
                    None => grid_worker::run(config, stop, ready).await,
                    Some(settings) => grid_worker::run_by(config, NatsBroker::new(settings), stop, ready).await,
                }
            });
        }
        for _ in 0..count {
            tokio::select! {
                Some(()) = registrations.recv() => {}
                Some(ended) = self.workers.join_next() => return Err(worker_error(ended)),
            }
        }
        Ok(())
    }

    pub async fn stop(mut self) {
        // Drain and stop running leases at once: an operator who stops a dev cluster does not want to wait for its jobs.
        self.stop_workers.signal();
        self.stop_workers.signal();
        let limit = std::time::Duration::from_secs(10);
        let drained = tokio::time::timeout(limit, async { while self.workers.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::warn!("workers were still busy after {limit:?}");
        }
        self.serving.stop().await;
        if let Some(beside) = self.nats {
            beside.stop().await;
        }
    }
}

/// The id and groups of worker `n`: web-01 and web-02 (web, prod), db-01 (db, prod), then node-04 …
fn worker_name(i: u32) -> (String, &'static [&'static str]) {
    match i {
        1 | 2 => (format!("web-{i:02}"), &["web", "prod"]),
        3 => ("db-01".to_owned(), &["db", "prod"]),
        _ => (format!("node-{i:02}"), &[]),
    }
}
