//! `grid worker`: runs the worker of a machine until it is stopped.

use std::process::ExitCode;

use grid_fabric::nats::NatsBroker;
use grid_tasks::Tasks;
use grid_worker::{Ready, Shutdown, WorkerConfig};

use crate::cli::WorkerArgs;
use crate::{say, signals, supervised};

pub async fn run(args: WorkerArgs) -> anyhow::Result<ExitCode> {
    // An address that can never answer is refused now, instead of being tried forever.
    grid_client::parse_servers(&args.server.join(","))?;
    // The name is replaced by the node's.
    let nats = args.nats.settings("");
    if let Some(settings) = &nats {
        settings.check().await?;
    }
    let tasks = Tasks::default();
    let limit = args.supervised.map(|limit| std::time::Duration::from_millis(limit.ms()));
    let orphaned = limit.map(|limit| supervised::worker_orphaned(&tasks, limit));
    let signals = signals::asked_to_end(&tasks, orphaned)?;
    let config = WorkerConfig {
        servers: args.server,
        node_id: args.node_id,
        groups: args.traits.groups.into_iter().collect(),
        labels: args.traits.labels.into_iter().collect(),
        data_dir: args.data_dir,
        enable_backends: args.traits.enable_backends,
        disable_backends: args.traits.disable_backends,
        pass_env: args.traits.pass_env,
        allow: args.traits.allow.lists(),
        slots: args.traits.slots,
        address: args.traits.address,
        heartbeat: args.heartbeat_interval,
        reset_journal: args.reset_journal,
    };
    let (stop, stopped) = Shutdown::new();
    tasks.start("shutdown", signals::each(signals, move || stop.signal()));
    let ready = |at: Ready| say::out(format_args!("grid worker ready node={} session={}", at.node_id, at.session));
    let working = async {
        match nats {
            Some(settings) => grid_worker::run_by(config, NatsBroker::new(settings), stopped, ready).await,
            None => grid_worker::run(config, stopped, ready).await,
        }
    };
    tokio::select! {
        ended = working => ended?,
        failed = tasks.failed() => anyhow::bail!("{failed}"),
    }
    Ok(ExitCode::SUCCESS)
}
