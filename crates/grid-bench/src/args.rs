//! Defines the command line of `grid bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args)]
#[command(after_help = "Each figure has a baseline of the same run: compare ratios, not milliseconds. Use a release \
                        build, and a disk (--dir) like that of your controllers.")]
pub struct BenchArgs {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Subcommand)]
pub enum What {
    /// Jobs over N workers: barriers and pipelines, against a bare gRPC echo
    Fanout(FanoutArgs),
    /// Durable submits of many clients, against a bare HTTP handler
    Submit(SubmitArgs),
    /// Start of a controller with a long history, after an orderly stop and after kill -9
    Restart(RestartArgs),
    /// Barriers over 1,000 to 10,000 workers and work in 1 to 100 jobs; fits the exponent
    Growth(GrowthArgs),
    /// Three controllers: time from kill -9 of the leader to the next accepted write
    Failover(FailoverArgs),
    /// A real worker: time from start to registration, idle memory, CPU per step
    Worker(WorkerBenchArgs),
    /// The ping of other tools, if they are installed
    Peers(PeersArgs),
    /// Run every benchmark once, and compare the results with the floors of the design
    All(AllArgs),
    /// N worker sessions of a benchmark, as a separate process
    #[command(hide = true)]
    Swarm(SwarmArgs),
    /// The baseline of fanout, as a separate process
    #[command(hide = true)]
    Echo,
    /// The baseline of submit, as a separate process
    #[command(hide = true)]
    Http,
    /// The leader of a baseline of fanout over NATS, as a separate process
    #[command(hide = true)]
    NatsBaseline(BaselineArgs),
}

impl What {
    /// A process that a benchmark has started.
    pub fn is_a_part(&self) -> bool {
        matches!(self, Self::Swarm(_) | Self::Echo | Self::Http | Self::NatsBaseline(_))
    }
}

#[derive(Args, Clone)]
pub struct Output {
    /// One JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Also write the rows, the table and the plot to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Parent of the temporary data folder of the controllers under test [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fabric {
    Grpc,
    Nats,
}

impl Fabric {
    pub fn word(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Nats => "nats",
        }
    }
}

/// A fan-out over NATS without Grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BaselineKind {
    /// Core subscriptions.
    Core,
    /// A durable pull consumer for every worker.
    Durable,
}

impl BaselineKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Durable => "durable",
        }
    }
}

/// Which actions the steps of a measured job have.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Effects {
    Pure,
    Once,
    Both,
}

/// Worker sessions per connection to NATS: one, as in a fleet, unless the benchmark is told otherwise.
const PER_CONNECTION: u32 = 1;

#[derive(Args, Clone)]
pub struct NatsArgs {
    /// Number of worker sessions that share a connection to NATS
    #[arg(long, default_value_t = PER_CONNECTION, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub per_connection: u32,
    /// Number of workers of the NATS baseline with a durable consumer each, 0 for none [default: --workers, at most 1000]
    #[arg(long, value_name = "WORKERS")]
    pub durable: Option<u32>,
}

impl Default for NatsArgs {
    fn default() -> Self {
        Self { per_connection: PER_CONNECTION, durable: None }
    }
}

#[derive(Args, Clone)]
pub struct FanoutArgs {
    /// Number of worker sessions, over gRPC each with its own connection
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub workers: u32,
    /// Steps per job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub steps: u32,
    /// Number of pipeline jobs at once
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub jobs: u32,
    /// Number of barrier jobs, one after another, each next to a round of the baseline
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Number of controllers: one, or three that replicate
    #[arg(long, default_value = "1", value_parser = controllers)]
    pub controllers: u32,
    /// Fabric between controllers and workers
    #[arg(long, value_enum, default_value = "grpc")]
    pub fabric: Fabric,
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Effect class of the steps: repeatable, once-only (their start is committed first), or both in turn
    #[arg(long, value_enum, default_value = "both")]
    pub effects: Effects,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct SubmitArgs {
    /// Number of clients at once, each with its own connection
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Submits per round, of all clients together
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=90_000))]
    pub submits: u32,
    /// Number of rounds, each next to one of the baseline
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Number of controllers: one, or three that replicate
    #[arg(long, default_value = "1", value_parser = controllers)]
    pub controllers: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct RestartArgs {
    /// Number of results in the history
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub results: u64,
    /// Number of restarts of each kind
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct GrowthArgs {
    /// Skip sizes above this number of workers
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000))]
    pub most_workers: u32,
    /// Barriers per number of workers
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct FailoverArgs {
    /// Number of leaders to kill, one after another
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct WorkerBenchArgs {
    /// Number of workers to start, one after another
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Steps of each of 16 jobs that run in the worker's process; a twentieth as many run as programs
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub steps: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct PeersArgs {
    /// Number of nodes, all on this machine
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub nodes: u32,
    /// Pings per tool
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Clone)]
pub struct AllArgs {
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct SwarmArgs {
    /// API addresses of the controllers; the sessions follow the leader
    #[arg(long, value_delimiter = ',', required_unless_present_any = ["grpc", "nats"])]
    pub api: Vec<String>,
    /// The one address to connect to
    #[arg(long, conflicts_with = "api")]
    pub grpc: Option<String>,
    /// The nats-server that the sessions use
    #[arg(long, conflicts_with_all = ["api", "grpc"])]
    pub nats: Option<String>,
    /// Workers of this baseline instead of sessions
    #[arg(long, value_enum, requires = "nats")]
    pub baseline: Option<BaselineKind>,
    /// Sessions that share a connection to NATS
    #[arg(long, default_value_t = PER_CONNECTION)]
    pub per_connection: u32,
    /// Number of the first session
    #[arg(long)]
    pub first: u32,
    #[arg(long)]
    pub sessions: u32,
}

#[derive(Args)]
pub struct BaselineArgs {
    /// The nats-server
    #[arg(long)]
    pub nats: String,
    #[arg(long, value_enum)]
    pub kind: BaselineKind,
    /// Number of workers that answer in a round
    #[arg(long)]
    pub workers: u32,
}

fn controllers(text: &str) -> Result<u32, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("1 or 3".to_owned()),
    }
}
