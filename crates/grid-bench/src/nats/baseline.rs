//! A baseline over NATS: one leader process and the worker processes of a swarm.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{core, durable};
use crate::args::{BaselineArgs, BaselineKind, SwarmArgs};
use crate::process::Process;
use crate::swarm::Swarm;

/// The baseline, as the benchmark sees it.
pub struct Baseline {
    leader: Process,
    _swarm: Swarm,
}

impl Baseline {
    /// So many workers, so many of them on a connection. Returns when every worker listens.
    pub async fn start(
        kind: BaselineKind,
        url: &str,
        (workers, per_connection): (u32, u32),
        log_dir: &Path,
    ) -> anyhow::Result<Self> {
        let word = kind.word();
        let args = ["bench", "nats-baseline", "--nats", url, "--kind", word, "--workers", &workers.to_string()];
        let args = args.map(str::to_owned);
        let mut leader = Process::start(&format!("nats-{word}"), &args, log_dir)?;
        leader.says("baseline ready").await?;
        let to = ["--nats", url, "--baseline", word, "--per-connection", &per_connection.to_string()];
        let swarm = Swarm::start(&format!("nats-{word}-swarm"), &to, workers, log_dir).await?;
        Ok(Self { leader, _swarm: swarm })
    }

    pub async fn rounds(&mut self, rounds: u32) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.leader.tell(&format!("rounds {rounds}")).await?;
        self.leader.says("baseline done").await?;
        Ok(began.elapsed())
    }
}

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
