//! The baselines of `fanout`: bare echoes on the same wire, with swarms of their own.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::args::{BaselineKind, Fabric, FanoutArgs};
use crate::cluster::scratch;
use crate::nats::NatsServer;
use crate::process::Process;
use crate::swarm::Swarm;

/// Workers with a durable consumer, unless the command line says otherwise: more take minutes to start.
const MOST_DURABLE: u32 = 1_000;

/// The baselines of a run.
pub struct Baselines {
    pub bare: Bare,
    pub durable: Option<Durable>,
    _broker: Option<NatsServer>,
    _folder: tempfile::TempDir,
}

/// The fan-out without storage.
pub enum Bare {
    Grpc(Echo),
    Nats(OverNats),
}

/// The bare tonic echo.
pub struct Echo {
    echo: Process,
    _swarm: Swarm,
}

/// The fan-out over durable consumers.
pub struct Durable {
    pub workers: u32,
    baseline: OverNats,
}

impl Baselines {
    pub async fn start(args: &FanoutArgs) -> anyhow::Result<Self> {
        let folder = scratch(&args.output)?;
        let log_dir = folder.path();
        let broker = match args.fabric {
            Fabric::Grpc => None,
            Fabric::Nats => Some(NatsServer::start("nats-baseline-server", log_dir).await?),
        };
        let (bare, durable) = match &broker {
            None => (Bare::Grpc(Echo::start(args.workers, log_dir).await?), None),
            Some(broker) => {
                let start =
                    |kind, workers| OverNats::start(kind, &broker.url, (workers, args.nats.per_connection), log_dir);
                let bare = start(BaselineKind::Core, args.workers).await?;
                let durable = match args.nats.durable.unwrap_or(args.workers.min(MOST_DURABLE)) {
                    0 => None,
                    workers => Some(Durable { workers, baseline: start(BaselineKind::Durable, workers).await? }),
                };
                (Bare::Nats(bare), durable)
            }
        };
        Ok(Self { bare, durable, _broker: broker, _folder: folder })
    }
}

impl Bare {
    pub async fn rounds(&mut self, rounds: u32) -> anyhow::Result<Duration> {
        match self {
            Self::Grpc(echo) => echo.rounds(rounds).await,
            Self::Nats(core) => core.rounds(rounds).await,
        }
    }
}

impl Durable {
    pub async fn rounds(&mut self, rounds: u32) -> anyhow::Result<Duration> {
        self.baseline.rounds(rounds).await
    }
}

impl Echo {
    async fn start(workers: u32, log_dir: &Path) -> anyhow::Result<Self> {
        let mut echo = Process::start("echo", &["bench".to_owned(), "echo".to_owned()], log_dir)?;
        let ready = echo.says("echo ready grpc=").await?;
        let address = ready.trim_start_matches("echo ready grpc=");
        let swarm = Swarm::start("echo-swarm", &["--grpc", address], workers, log_dir).await?;
        Ok(Self { echo, _swarm: swarm })
    }

    async fn rounds(&mut self, rounds: u32) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.echo.tell(&format!("rounds {rounds}")).await?;
        self.echo.says("echo done").await?;
        Ok(began.elapsed())
    }
}

/// The fan-out over NATS, with a leader process and a swarm.
pub struct OverNats {
    leader: Process,
    _swarm: Swarm,
}

impl OverNats {
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
