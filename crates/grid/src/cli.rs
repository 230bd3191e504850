//! Defines the command line of `grid`.

mod children;
mod dev;
mod fabrics;
mod nats;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use grid_types::limits::{DEFAULT_SLOTS, MAX_CONCURRENT, MAX_NODES, MAX_PENDING, MAX_SLOTS, MAX_WAITING};
use grid_types::node::{LABEL_RULE, is_label};
use grid_types::{Name, NodeId, Span};
use grid_worker::allow::Allow;

pub use children::{Given, WorkerLine, controller_line};
pub use dev::{DemoArgs, DevArgs};
pub use fabrics::{Fabric, FabricArgs, NatsArgs, url as nats_url};
pub use nats::{NatsChildArgs, NatsConfigArgs, NatsVerb, NatsVerbArgs};
pub use values::{allowed_connect, allowed_path, allowed_program, allowed_variable, backend, variable};

#[derive(Parser)]
#[command(
    name = "grid",
    version,
    about = "Runs operations on fleets of machines.",
    long_about = "Runs operations on fleets of machines: controllers that never lose what they accepted, and workers \
                  that never run a once-only step twice.\n\nTalk to a running controller with gridc.",
    after_help = "Examples:\n  grid demo                      see a job run, then exit\n  grid dev                       \
                  a controller and three workers to try things on\n  grid server --node-id c1 --data-dir ./c1 --bootstrap\n  \
                  grid worker --server http://127.0.0.1:8765 --node-id web-01 --groups web --data-dir ./web-01"
)]
pub struct Cli {
    /// Settings from a YAML file; GRID_* variables override it, and flags override both
    #[arg(short = 'c', long, env = "GRID_CONFIG", global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
    #[command(subcommand)]
    pub verb: Verb,
}

/// What is logged. Separate `Args`, because `grid node` passes it on to its children.
#[derive(Args)]
pub struct LogArgs {
    /// What to log on stderr: error, warn, info, debug, trace or off, also per part, like info,grid_worker=debug
    /// [default: info; warn for dev, error for demo]
    #[arg(long, env = "GRID_LOG", global = true, value_name = "LEVEL", value_parser = log_level)]
    pub log_level: Option<String>,
}

#[derive(Subcommand)]
pub enum Verb {
    /// Run an example job on an embedded cluster of three workers, show its progress, exit
    Demo(DemoArgs),
    /// Run a controller and workers in one process until stopped
    Dev(DevArgs),
    /// Run a controller
    Server(ServerArgs),
    /// Run the worker of this machine
    Worker(WorkerArgs),
    /// Run a controller and, while it does not lead, a worker: two processes and their supervisor
    Node(Box<NodeArgs>),
    /// Measure what a cluster does on this machine, next to a baseline
    Bench(grid_bench::BenchArgs),
    /// Prepare NATS servers for a cluster
    Nats(NatsVerbArgs),
}

#[derive(Args)]
#[command(
    after_help = "The same command line starts it again on its own data: --bootstrap, --join and --restore act on an \
                        empty folder only.\n\
                        Prints \"grid ready api=… grpc=… node=…\" on stdout when it serves. SIGTERM stops it cleanly; nothing \
                        acknowledged is lost by kill -9 either.\nExit code 5: it was removed from its cluster."
)]
pub struct ServerArgs {
    /// Name of this controller
    #[arg(long, env = "GRID_NODE_ID")]
    pub node_id: Name,
    /// Data folder for the log and the state; used by this controller alone
    #[arg(long, env = "GRID_DATA_DIR")]
    pub data_dir: PathBuf,
    /// Address of the HTTP API; port 0 picks a free one
    #[arg(long, env = "GRID_API", default_value = "127.0.0.1:8765")]
    pub api: SocketAddr,
    /// Address for other controllers (Raft); port 0 picks a free one
    #[arg(long, env = "GRID_RAFT", default_value = "127.0.0.1:8766")]
    pub raft: SocketAddr,
    /// Address for workers (gRPC); port 0 picks a free one
    #[arg(long, env = "GRID_GRPC", default_value = "127.0.0.1:8767")]
    pub grpc: SocketAddr,
    #[command(flatten)]
    pub fabrics: FabricArgs,
    /// Host name or address that clients, workers and controllers use, if it differs from --api, --grpc and --raft
    #[arg(long, env = "GRID_ADVERTISE", value_parser = host)]
    pub advertise: Option<String>,
    /// Further host names by which clients reach the API, with or without a port, comma-separated; may be repeated.
    /// Requests for any other host are refused, so that no web page can pass for a client
    #[arg(long = "allow-host", env = "GRID_ALLOW_HOST", value_name = "HOST", value_delimiter = ',', value_parser = allowed_host)]
    pub allow_hosts: Vec<String>,
    /// Create a new cluster in an empty folder
    #[arg(long, conflicts_with = "join")]
    pub bootstrap: bool,
    /// Continue from a backup, in an empty folder; unfinished jobs are held until they are confirmed. Also takes the data
    /// folder of a damaged controller, or a snapshot or state.sqlite in it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bootstrap", "join"])]
    pub restore: Option<PathBuf>,
    /// Join a cluster with an empty folder: API addresses of any of its controllers, comma-separated
    #[arg(long, env = "GRID_JOIN", value_name = "URL[,URL]", value_delimiter = ',')]
    pub join: Vec<String>,
    /// Join in place of a member of the same name whose folder is lost
    #[arg(long, requires = "join")]
    pub replace: bool,
    /// Interval of the leader's heartbeats to the other controllers
    #[arg(long, env = "GRID_RAFT_HEARTBEAT", default_value = "100ms")]
    pub raft_heartbeat: Span,
    /// Election timeout: a leader that is silent for two to four times as long is replaced; at least three heartbeats
    #[arg(long, env = "GRID_ELECTION_TIMEOUT", default_value = "300ms")]
    pub election_timeout: Span,
    /// Take a snapshot and cut the log when the log has grown by this many bytes
    #[arg(long, env = "GRID_SNAPSHOT_AFTER", default_value_t = 64 * 1024 * 1024, value_parser = clap::value_parser!(u64).range(64 * 1024..))]
    pub snapshot_after: u64,
    #[command(flatten)]
    pub tuning: Tuning,
    /// Serve other machines without TLS and tokens
    #[arg(long)]
    pub insecure: bool,
    /// Support this feature level instead of the program's own: for tests of upgrades
    #[arg(long, hide = true, value_name = "LEVEL", default_value_t = grid_controller::FEATURE_LEVEL, value_parser = clap::value_parser!(u32).range(i64::from(grid_controller::OLDEST_LEVEL)..=i64::from(grid_controller::FEATURE_LEVEL) + 1))]
    pub feature_level: u32,
    /// Started by `grid node`: dispatch is paused until the supervisor allows it on stdin; ends when stdin closes
    #[arg(long, hide = true)]
    pub supervised: bool,
}

/// Settings of a controller that apply to all of its nodes and jobs.
#[derive(Args)]
pub struct Tuning {
    /// Maximum number of jobs that run at once; more wait
    #[arg(long, env = "GRID_MAX_CONCURRENT", default_value_t = MAX_CONCURRENT, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_concurrent: u32,
    /// Maximum number of jobs that wait; more are refused
    #[arg(long, env = "GRID_MAX_PENDING", default_value_t = MAX_PENDING, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub max_pending: u32,
    /// Maximum number of unfinished jobs that wait for an operator or for offline nodes; beyond it new jobs are refused
    #[arg(long, env = "GRID_MAX_WAITING", default_value_t = MAX_WAITING, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_waiting: u32,
    /// Maximum number of registered nodes, offline ones and agents included; more are refused
    #[arg(long, env = "GRID_MAX_NODES", default_value_t = MAX_NODES, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_nodes: u32,
    /// Interval of the workers' heartbeats
    #[arg(long, env = "GRID_HEARTBEAT_INTERVAL", default_value = "5s", value_parser = heartbeat)]
    pub heartbeat_interval: Span,
    /// Silence after which a node is in warning [default: 3 heartbeats]
    #[arg(long, env = "GRID_WARNING_AFTER")]
    pub warning_after: Option<Span>,
    /// Silence after which a node is unhealthy and gets no new work [default: 6 heartbeats]
    #[arg(long, env = "GRID_UNHEALTHY_AFTER")]
    pub unhealthy_after: Option<Span>,
    /// Silence after which a node is dead and its leases are unknown [default: 12 heartbeats]
    #[arg(long, env = "GRID_DEAD_AFTER")]
    pub dead_after: Option<Span>,
    /// How long finished jobs, their results and events are kept, like 30d or 12h
    #[arg(long, env = "GRID_HISTORY", default_value = "30d", value_parser = history)]
    pub history: Span,
}

#[derive(Args)]
#[command(
    after_help = "SIGTERM: takes no new leases, finishes the running ones, reports them, leaves. A second SIGTERM ends \
                        the running ones too.\nPrints \"grid worker ready node=… session=…\" on stdout when it is registered."
)]
pub struct WorkerArgs {
    /// API addresses of controllers, comma-separated; not used with --nats
    #[arg(long, env = "GRID_SERVER", value_delimiter = ',', default_value = "http://127.0.0.1:8765")]
    pub server: Vec<String>,
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Name of this node; without it a name is made from the host name and kept in the data folder
    #[arg(long, env = "GRID_NODE_ID")]
    pub node_id: Option<NodeId>,
    /// Data folder for the journal and the outputs; used by this worker alone
    #[arg(long, env = "GRID_DATA_DIR")]
    pub data_dir: PathBuf,
    #[command(flatten)]
    pub traits: WorkerTraits,
    /// Send heartbeats at least this often; a controller may ask for more
    #[arg(long, env = "GRID_HEARTBEAT_INTERVAL", value_parser = heartbeat)]
    pub heartbeat_interval: Option<Span>,
    /// Start with a new journal: once-only steps that only the old journal knew become unknown
    #[arg(long)]
    pub reset_journal: bool,
    /// Started by `grid node`: drains when stdin closes, and stops running leases after this time
    #[arg(long, hide = true, value_name = "TIME")]
    pub supervised: Option<Span>,
}

/// What a worker registers with.
#[derive(Args)]
pub struct WorkerTraits {
    /// Groups of this node, comma-separated
    #[arg(long, env = "GRID_GROUPS", value_delimiter = ',')]
    pub groups: Vec<Name>,
    /// Labels of this node, comma-separated key=value
    #[arg(long, env = "GRID_LABELS", value_delimiter = ',', value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Run a backend that is off by default, or whose programs are not installed (yet); may be repeated
    #[arg(long = "enable-backend", value_name = "NAME", value_parser = backend)]
    pub enable_backends: Vec<String>,
    /// Do not run a backend that is on by default; may be repeated
    #[arg(long = "disable-backend", value_name = "NAME", value_parser = backend)]
    pub disable_backends: Vec<String>,
    /// Environment variables of the worker that its tasks inherit, comma-separated, like http_proxy; may be repeated. Without
    /// it tasks get a fixed PATH, LANG, HOME and the variables that their action declares
    #[arg(long, env = "GRID_PASS_ENV", value_name = "NAME", value_delimiter = ',', value_parser = variable)]
    pub pass_env: Vec<String>,
    #[command(flatten)]
    pub allow: AllowArgs,
    /// Maximum number of leases that run at once
    #[arg(long, env = "GRID_SLOTS", default_value_t = DEFAULT_SLOTS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SLOTS)))]
    pub slots: u32,
    /// Address to report, if it is not the one that the controller sees
    #[arg(long, env = "GRID_ADDRESS")]
    pub address: Option<String>,
}

/// What callers may do with the backends that run programs of their choice. Every list is empty by default.
#[derive(Args, Clone, Default)]
pub struct AllowArgs {
    /// Programs that `command run` may run, comma-separated: names or paths from /; '*' allows every program; may be repeated
    #[arg(long = "allow-command", env = "GRID_ALLOW_COMMAND", value_name = "PROGRAM", value_delimiter = ',', value_parser = allowed_program)]
    pub allow_commands: Vec<String>,
    /// Programs that may read the text of `script run`, comma-separated: names or paths from /; '*' allows every program; may be
    /// repeated
    #[arg(long = "allow-interpreter", env = "GRID_ALLOW_INTERPRETER", value_name = "PROGRAM", value_delimiter = ',', value_parser = allowed_program)]
    pub allow_interpreters: Vec<String>,
    /// Folders in which `file` and `wait file` may work, comma-separated: FOLDER:ro to read, FOLDER:rw or FOLDER to write, too; the
    /// longest one decides; may be repeated
    #[arg(long = "allow-path", env = "GRID_ALLOW_PATH", value_name = "FOLDER", value_delimiter = ',', value_parser = allowed_path)]
    pub allow_paths: Vec<String>,
    /// Hosts to which `http check` and `wait port` may connect, comma-separated: HOST or HOST:PORT; '*' allows every host; may be
    /// repeated
    #[arg(long = "allow-connect", env = "GRID_ALLOW_CONNECT", value_name = "HOST", value_delimiter = ',', value_parser = allowed_connect)]
    pub allow_connect: Vec<String>,
    /// Variables that callers may set for programs, comma-separated: names, or APP_* for all that begin so; '*' allows every
    /// variable; may be repeated. Where --allow-command is '*', all are allowed
    #[arg(long = "allow-env", env = "GRID_ALLOW_ENV", value_name = "NAME", value_delimiter = ',', value_parser = allowed_variable)]
    pub allow_env: Vec<String>,
}

impl AllowArgs {
    pub fn lists(self) -> Allow {
        Allow {
            commands: self.allow_commands,
            interpreters: self.allow_interpreters,
            paths: self.allow_paths,
            hosts: self.allow_connect,
            env: self.allow_env,
        }
    }
}

#[derive(Args)]
#[command(
    after_help = "The controller and the worker are child processes, restarted when they end. The worker is stopped while the controller \
                        leads, and runs (with --worker) while it is a standby; its node is named NODE-ID-worker.\nA controller that is \
                        promoted lets its worker finish, or stops it after --drain-timeout, before it starts to dispatch.\nIn the data \
                        folder: controller/ and worker/. The children's stdout is passed on. SIGTERM ends the worker first, then \
                        the controller."
)]
pub struct NodeArgs {
    // Comes first: clap removes values from the matches as the other fields read them.
    #[command(flatten)]
    pub given: Given,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Run a worker while the controller is a standby
    #[arg(long, env = "GRID_WORKER")]
    pub worker: bool,
    #[command(flatten)]
    pub traits: WorkerTraits,
    /// Credentials of the worker for NATS, if they are not those of the controller (--nats-creds)
    #[arg(long, env = "GRID_NATS_WORKER_CREDS", value_name = "FILE", requires = "nats")]
    pub nats_worker_creds: Option<PathBuf>,
    /// How long running leases may take to finish before they are stopped
    #[arg(long, env = "GRID_DRAIN_TIMEOUT", default_value = "30s")]
    pub drain_timeout: Span,
}

/// Parses a filter of `tracing`, which would take an unknown level for the name of a part and log nothing.
pub fn log_level(text: &str) -> Result<String, String> {
    let known = |level: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
    let valid = |directive: &str| match directive.split_once('=') {
        Some((part, level)) => !part.is_empty() && known(level),
        None => known(directive),
    };
    if text.split(',').all(valid) {
        return Ok(text.to_owned());
    }
    Err("a level (error, warn, info, debug, trace, off) or PART=LEVEL, comma-separated, like info,grid_worker=debug"
        .to_owned())
}

pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not key=value"))?;
    if !is_label(key, value) {
        return Err(LABEL_RULE.to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses a duration, also in days; at least a second, at most ten years.
pub fn history(text: &str) -> Result<Span, String> {
    const DAY_MS: u64 = 24 * 3_600_000;
    let days = text.strip_suffix('d').and_then(|digits| digits.parse::<u64>().ok());
    let span = match days {
        Some(days) => Span::from_ms(days.saturating_mul(DAY_MS)),
        None => text.parse().map_err(|e| format!("{e}; days are written 30d"))?,
    };
    if (1_000..=3_650 * DAY_MS).contains(&span.ms()) { Ok(span) } else { Err("must be from 1s to 3650d".to_owned()) }
}

/// Parses a heartbeat interval within the bounds that a worker enforces.
pub fn heartbeat(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|e: grid_types::span::BadSpan| e.to_string())?;
    if (50..=60_000).contains(&span.ms()) { Ok(span) } else { Err("must be from 50ms to 1m".to_owned()) }
}

pub fn host(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    if text.is_empty() || !text.chars().all(plain) {
        return Err("a host name or an address, without scheme and port".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses a host as the headers `Host` and `Origin` name it.
pub fn allowed_host(text: &str) -> Result<String, String> {
    if grid_api::is_host(text) {
        return Ok(text.to_owned());
    }
    Err("a host name or an address, with or without a port, like grid.example or grid.example:8443".to_owned())
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_lines_of_the_contract_parse() {
        for line in [
            "grid demo",
            "grid dev --log-level info",
            "grid --log-level off,grid_worker=debug dev",
            "grid dev --workers 5 --data-dir d --api 127.0.0.1:0",
            "grid server --node-id c1 --data-dir d --api 127.0.0.1:0 --raft 127.0.0.1:0 --grpc 127.0.0.1:0 --bootstrap --max-concurrent 9 --max-pending 3 --history 90d",
            "grid server --node-id c1 --data-dir d --restore grid.backup",
            "grid server --node-id c1 --data-dir d --allow-host a,b.example:8443 --allow-host [::1]:80",
            "grid server --node-id c2 --data-dir d --join http://a:1,http://b:2 --replace --raft-heartbeat 50ms --election-timeout 200ms",
            "grid node --node-id c1 --data-dir d --bootstrap --worker --groups web --enable-backend test --drain-timeout 5s",
            "grid worker --server http://a:1,http://b:2 --node-id n --groups a,b --labels k=v,x=y --data-dir d --enable-backend test --slots 2 --pass-env http_proxy,no_proxy --pass-env TZ",
            "grid worker --server http://a:1 --data-dir d --enable-backend command --allow-command uname,/usr/bin/id --allow-command * --allow-env APP_*,TZ",
            "grid dev --enable-backend command --allow-command *",
            "grid worker --server http://a:1 --data-dir d --allow-interpreter sh --allow-path /srv:ro,/srv/app --allow-connect 127.0.0.1:80,[::1]:80",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in [
            "grid server --node-id c --data-dir d --history 0s",
            "grid server --node-id c --data-dir d --restore f --bootstrap",
            "grid server --node-id c --data-dir d --history 30days",
            "grid dev --log-level loud",
            "grid dev --log-level info,=debug",
            "grid worker --data-dir d --labels k",
            "grid worker --data-dir d --slots 0",
            "grid worker --data-dir d --pass-env GRID_TOKEN",
            "grid worker --data-dir d --pass-env A=B",
            "grid worker --data-dir d --enable-backend nope",
            "grid worker --data-dir d --allow-command bin/uname",
            "grid worker --data-dir d --allow-env A=B",
            "grid worker --data-dir d --allow-path srv",
            "grid worker --data-dir d --allow-connect http://a",
            "grid server --node-id c --data-dir d --advertise a/b",
            "grid server --node-id c --data-dir d --allow-host http://a",
            "grid server --node-id c --data-dir d --bootstrap --join http://a:1",
            "grid server --node-id c --data-dir d --replace",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
