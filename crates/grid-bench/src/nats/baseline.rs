//! Runs the parts of a baseline over NATS: its leader, and the workers in the processes of a swarm.

use std::process::ExitCode;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{core, durable};
use crate::args::{BaselineArgs, BaselineKind, SwarmArgs};

/// Runs the leader of a baseline until its stdin ends.
pub async fn leader(args: BaselineArgs) -> anyhow::Result<ExitCode> {
    let mut leader = match args.kind {
        BaselineKind::Core => Leader::Core(core::Leader::new(&args.nats).await?),
        BaselineKind::Durable => Leader::Durable(Box::new(durable::Leader::new(&args.nats).await?)),
    };
    crate::say::out(format_args!("baseline ready"));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.context("cannot read from the benchmark")? {
        let rounds: u64 = line.strip_prefix("rounds ").and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
        for _ in 0..rounds {
            match &mut leader {
                Leader::Core(leader) => leader.round(args.workers).await?,
                Leader::Durable(leader) => leader.round(args.workers).await?,
            }
        }
        crate::say::out(format_args!("baseline done"));
    }
    Ok(ExitCode::SUCCESS)
}

enum Leader {
    Core(core::Leader),
    Durable(Box<durable::Leader>),
}

/// Runs the workers of one process until they end; calls `ready` for each that listens.
pub async fn workers(
    kind: BaselineKind,
    url: &str,
    args: &SwarmArgs,
    ready: impl Fn() + Clone + Send + 'static,
) -> anyhow::Result<()> {
    match kind {
        BaselineKind::Core => core::workers(url, args, ready).await,
        BaselineKind::Durable => durable::workers(url, args, ready).await,
    }
}
