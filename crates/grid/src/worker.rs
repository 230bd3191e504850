//! `grid worker`.

use std::process::ExitCode;

use grid_worker::{Shutdown, WorkerConfig};

use crate::cli::WorkerArgs;
use crate::{ready, signals};

pub async fn run(args: WorkerArgs) -> anyhow::Result<ExitCode> {
    // A name that can never answer is refused now, not tried for ever.
    grid_client::parse_servers(&args.server.join(","))?;
    let signals = signals::asked_to_end()?;
    let config = WorkerConfig {
        servers: args.server,
        node_id: args.node_id,
        groups: args.groups.into_iter().collect(),
        labels: args.labels.into_iter().collect(),
        data_dir: args.data_dir,
        enable_backends: args.enable_backends,
        disable_backends: args.disable_backends,
        slots: args.slots,
        address: args.address,
        heartbeat: args.heartbeat_interval,
        reset_journal: args.reset_journal,
    };
    let (stop, stopped) = Shutdown::new();
    tokio::spawn(signals::each(signals, move || stop.signal()));
    grid_worker::run(config, stopped, |at| {
        ready::announce(&format!("grid worker ready node={} session={}", at.node_id, at.session));
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}
