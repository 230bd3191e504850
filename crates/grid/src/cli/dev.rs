//! Defines `grid demo` and `grid dev`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{AllowArgs, Fabric, Tuning, allowed_host, backend, variable};

#[derive(Args)]
pub struct DemoArgs {
    /// How the workers connect; nats starts the program nats-server, which must be on PATH
    #[arg(long, env = "GRID_FABRIC", value_name = "FABRIC", default_value = "grpc")]
    pub fabric: Fabric,
}

#[derive(Args)]
#[command(
    after_help = "Workers are web-01 and web-02 (groups web, prod), db-01 (db, prod), then node-04 …, all with the \
                        backend test and those whose programs are installed on this machine: jobs act on it for real.\nTo try the backends that run programs: \
                        grid dev --enable-backend command --allow-command '*'\nPrints \"grid ready api=http://…\" on stdout when it serves."
)]
pub struct DevArgs {
    /// Number of workers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub workers: u32,
    /// How the workers connect; nats starts the program nats-server, which must be on PATH, for as long as this one runs
    #[arg(long, env = "GRID_FABRIC", value_name = "FABRIC", default_value = "grpc")]
    pub fabric: Fabric,
    /// Folder for the state; without it a temporary folder is used and removed at exit
    #[arg(long, env = "GRID_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the HTTP API; port 0 picks a free one
    #[arg(long, env = "GRID_API", default_value = "127.0.0.1:8765")]
    pub api: SocketAddr,
    /// Further host names by which clients reach the API, with or without a port, comma-separated; may be repeated. Requests
    /// for any other host are refused, so that a web page cannot act as a client
    #[arg(long = "allow-host", env = "GRID_ALLOW_HOST", value_name = "HOST", value_delimiter = ',', value_parser = allowed_host)]
    pub allow_hosts: Vec<String>,
    /// Environment variables that tasks inherit, comma-separated, like http_proxy; may be repeated
    #[arg(long, env = "GRID_PASS_ENV", value_name = "NAME", value_delimiter = ',', value_parser = variable)]
    pub pass_env: Vec<String>,
    /// Enable a backend that is off by default on every worker, besides test; may be repeated
    #[arg(long = "enable-backend", value_name = "NAME", value_parser = backend)]
    pub enable_backends: Vec<String>,
    #[command(flatten)]
    pub allow: AllowArgs,
    #[command(flatten)]
    pub tuning: Tuning,
}
