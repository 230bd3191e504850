//! `grid server`, and the controller part of `grid dev`.

use std::convert::Infallible;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use grid_api::{Audience, Hosts};
use grid_controller::{BackupInfo, Controller, OpenError, Opening, Pace, Restoring, Settings, Start, has_cluster};
use grid_fabric::nats;
use grid_folder::Kind;
use grid_tasks::{Running, Tasks};
use grid_types::clock::SystemClock;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::cli::ServerArgs;
use crate::open_files::{self, Connections};
use crate::{join, net, say, signals, supervised};

/// Longer than the time that the API gives to requests under way.
const STOP_LIMIT: Duration = Duration::from_secs(12);
/// Exit code of a controller that was removed from its cluster: a restart on this folder changes nothing.
pub const REMOVED: u8 = 5;

pub async fn run(args: ServerArgs) -> anyhow::Result<ExitCode> {
    let tuned = args.tuning.checked()?;
    let pace = pace(&args)?;
    args.fabrics.check()?;
    let listening = [("--api", args.api), ("--raft", args.raft), ("--grpc", args.grpc)];
    let listening = if args.fabrics.has_grpc() { &listening[..] } else { &listening[..2] };
    net::check_exposure(listening, args.insecure)?;
    for &(flag, addr) in listening {
        net::check_reachable(flag, addr, args.advertise.as_deref())?;
    }
    if let Err(refused) = grid_folder::check(&args.data_dir, Kind::CONTROLLER) {
        say::err(format_args!("error: {}: {refused}", args.data_dir.display()));
        return Ok(ExitCode::from(2));
    }
    let tasks = Tasks::default();
    let (orders, orphaned) = args.supervised.then(|| supervised::controller_orders(&tasks)).unzip();
    let signals = signals::asked_to_end(&tasks, orphaned)?;
    let (api, api_addr) = net::bind(args.api, "the API").await?;
    let (grpc, grpc_addr) = if args.fabrics.has_grpc() {
        let (listener, addr) = net::bind(args.grpc, "workers").await?;
        (Some(listener), Some(addr))
    } else {
        (None, None)
    };
    let nats = match args.fabrics.settings(args.node_id.as_str()) {
        Some(settings) => {
            let client = nats::Client::connect(&settings).await?;
            Some(OverNats { client, replicas: usize::from(args.fabrics.nats_replicas) })
        }
        None => None,
    };
    let (peers, raft_addr) = net::bind(args.raft, "other controllers").await?;
    let host = args.advertise.as_deref();
    let raft_addr = net::advertised(host, raft_addr);
    let settings = Settings {
        node_id: args.node_id.clone(),
        api_url: format!("http://{}", net::advertised(host, api_addr)),
        grpc_addr: grpc_addr.map(|addr| net::advertised(host, addr)).unwrap_or_default(),
        quotas: tuned.quotas,
        thresholds: tuned.thresholds,
        heartbeat_ms: tuned.heartbeat_ms,
        history_ms: tuned.history_ms,
    };
    let start = tokio::select! {
        start = begin(&args, &settings, &raft_addr) => start?,
        () = signals::first(signals.clone()) => return Ok(ExitCode::SUCCESS),
    };
    let connections = open_files::connections(0);
    let opening = Opening {
        settings,
        data_dir: args.data_dir.clone(),
        raft_addr: raft_addr.clone(),
        peers: Some((peers, connections.controllers)),
        start,
        feature_level: args.feature_level,
        starts_paused: args.supervised,
        pace,
        clock: Arc::new(SystemClock::new()),
        tasks: tasks.clone(),
    };
    if let Some(source) = &args.restore
        && let Err(why) = restore(&opening, source).await
    {
        // The same exit code as for refused input: nothing was created or changed.
        say::err(format_args!("error: {why:#}"));
        return Ok(ExitCode::from(2));
    }
    let hosts = net::hosts(api_addr, host, &args.allow_hosts);
    let serving = match Serving::start(opening, api, Fabrics { grpc, nats }, hosts, connections).await {
        Err(e) if e.downcast_ref::<OpenError>().is_some_and(OpenError::is_removal) => {
            say::err(format_args!("error: {e:#}"));
            return Ok(ExitCode::from(REMOVED));
        }
        started => started?,
    };
    if let Some(orders) = orders {
        supervised::carry_out(&tasks, serving.controller.clone(), orders);
    }
    let workers = grpc_addr.map_or_else(|| "fabric=nats".to_owned(), |addr| format!("grpc={addr}"));
    let ready = format!("grid ready api=http://{api_addr} {workers} raft={raft_addr} node={}", args.node_id);
    serve(serving, &ready, signals, &args).await
}

/// Runs until the process is asked to end, or cannot continue.
async fn serve(
    serving: Serving,
    ready: &str,
    signals: watch::Receiver<u32>,
    args: &ServerArgs,
) -> anyhow::Result<ExitCode> {
    let controller = serving.controller.clone();
    let announcing = async {
        controller.serves().await;
        say::out(ready);
        std::future::pending::<Infallible>().await
    };
    let code = tokio::select! {
        never = announcing => match never {},
        () = signals::first(signals) => ExitCode::SUCCESS,
        () = controller.removed() => {
            say::err(format_args!(
                "error: {}: {} was removed from its cluster; to join again, start with an empty data folder and --join",
                args.data_dir.display(),
                args.node_id
            ));
            ExitCode::from(REMOVED)
        }
        why = controller.rolled_back() => {
            say::err(format_args!("error: {}: {why}", args.data_dir.display()));
            ExitCode::from(REMOVED)
        }
        why = serving.stopped() => anyhow::bail!("{}: {why}", args.data_dir.display()),
    };
    serving.stop().await;
    Ok(code)
}

/// Creates the data folder from a backup. On a folder that was restored before it changes nothing, so that the same command
/// line restarts the process; on any other data it is refused, because the operator asked for that backup.
async fn restore(opening: &Opening, source: &Path) -> anyhow::Result<()> {
    let restoring = Restoring {
        data_dir: opening.data_dir.clone(),
        node_id: opening.settings.node_id.clone(),
        raft_addr: opening.raft_addr.clone(),
        source: source.to_path_buf(),
    };
    let doing = || format!("cannot restore {} to {}", source.display(), opening.data_dir.display());
    match grid_controller::restore(&restoring).await.with_context(doing)? {
        Some(made) => {
            print_restored(&made.info);
        }
        None if grid_controller::restored(&opening.data_dir).with_context(doing)?.is_some() => {}
        None => anyhow::bail!(
            "{}: the folder has data that does not come from a backup; restore into an empty folder, or leave --restore out",
            doing()
        ),
    }
    Ok(())
}

/// Printed to stderr whatever the log level: the operator needs to know from which state the cluster continues.
fn print_restored(info: &BackupInfo) {
    let state_of = grid_controller::time_text(info.taken_wall_ms);
    let mut text = format!(
        "restored: index={} leader_epoch={} state_of={state_of} stale={} jobs={}; jobs that had not ended are held until \
         `gridc job confirm`\n",
        info.applied.index,
        info.epoch.wire(),
        info.stale,
        info.jobs
    );
    if info.stale {
        text.push_str(&format!("warning: stale backup: it may lack what was acknowledged after {state_of}\n"));
    }
    // A restore must not depend on a reader of stderr.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Decides what the command line means for this folder.
async fn begin(args: &ServerArgs, settings: &Settings, raft_addr: &str) -> anyhow::Result<Start> {
    if has_cluster(&args.data_dir) {
        return Ok(Start::Existing);
    }
    // The flag overrides the `join` of a settings file that serves the whole cluster.
    if args.bootstrap {
        return Ok(Start::Bootstrap);
    }
    if args.join.is_empty() {
        return Ok(Start::Existing);
    }
    join::join(args, settings, raft_addr).await?;
    Ok(Start::Join)
}

fn pace(args: &ServerArgs) -> anyhow::Result<Pace> {
    let (heartbeat_ms, election_ms) = (args.raft_heartbeat.ms(), args.election_timeout.ms());
    if heartbeat_ms < 10 || election_ms < 3 * heartbeat_ms {
        anyhow::bail!("--election-timeout must be at least three times --raft-heartbeat, which is at least 10ms");
    }
    Ok(Pace { heartbeat_ms, election_ms, snapshot_after_bytes: args.snapshot_after })
}

/// The ways of workers to a controller.
pub struct Fabrics {
    pub grpc: Option<TcpListener>,
    pub nats: Option<OverNats>,
}

/// The way through NATS, which clients share with workers.
pub struct OverNats {
    pub client: nats::Client,
    /// Of streams and buckets.
    pub replicas: usize,
}

/// A controller with its sockets.
pub struct Serving {
    pub controller: Controller,
    tasks: Tasks,
    api: Running,
    fabrics: Vec<Running>,
    stop: watch::Sender<bool>,
}

impl Serving {
    /// `hosts`: the host names that the API accepts.
    pub async fn start(
        opening: Opening,
        api: TcpListener,
        fabrics: Fabrics,
        hosts: Hosts,
        connections: Connections,
    ) -> anyhow::Result<Self> {
        let (folder, tasks) = (opening.data_dir.clone(), opening.tasks.clone());
        let controller =
            Controller::open(opening).await.with_context(|| format!("cannot start on {}", folder.display()))?;
        let (stop, stopped) = watch::channel(false);
        let until = |mut stopped: watch::Receiver<bool>| async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let (hub, control) = (Arc::new(controller.hub()), controller.clone());
        let mut serving = Vec::new();
        if let Some(grpc) = fabrics.grpc {
            let ends = until(stopped.clone());
            let served = grid_fabric::serve(grpc, connections.workers, Arc::clone(&hub), ends);
            serving.push(tasks.start("worker-port", served));
        }
        if let Some(OverNats { client, replicas }) = fabrics.nats {
            let clients = (client.clone(), Arc::clone(&hub), Arc::new(controller.clone()));
            let served = nats::serve_clients(clients.0, replicas, clients.1, clients.2, until(stopped.clone()));
            serving.push(tasks.start("nats-clients", served));
            let served = nats::serve(client, Arc::clone(&hub), tasks.clone(), until(stopped.clone()));
            serving.push(tasks.start("nats", served));
        }
        let audience = Audience { hosts, connections: connections.clients };
        let api = tasks.start("api", grid_api::serve(api, control, audience, until(stopped)));
        Ok(Self { controller, tasks, api, fabrics: serving, stop })
    }

    /// Resolves with the reason when the controller cannot continue; the process must end (L2), rather than serve half of its
    /// clients.
    pub async fn stopped(&self) -> String {
        self.controller.stopped().await
    }

    /// Hands over leadership, answers pending requests, closes the sessions, closes the log and the state.
    pub async fn stop(mut self) {
        self.tasks.stopping();
        self.controller.leave_leadership().await;
        self.stop.send_replace(true);
        let late = |who: &str| tracing::warn!("{who} were still connected after {STOP_LIMIT:?}");
        if timeout(STOP_LIMIT, self.api.ended()).await.is_err() {
            late("clients");
        }
        // Without a limit: a store that is not closed cleanly is rebuilt at the next start.
        self.controller.shutdown().await;
        for fabric in &mut self.fabrics {
            if timeout(STOP_LIMIT, fabric.ended()).await.is_err() {
                late("workers");
            }
        }
        self.tasks.stop().await;
    }
}
