//! `grid`: runs controllers, workers and clusters of both. Wiring only: it reads the command line, opens sockets and folders,
//! and connects the parts; the decisions are made in their own crates.

// `print!` and its relatives panic if the output is closed; everything is printed through `say`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod config;
mod demo;
mod dev;
mod inherited;
mod join;
mod nats;
mod net;
mod node;
mod open_files;
mod outlet;
mod say;
mod server;
mod signals;
mod supervised;
mod tuning;
mod worker;

use std::process::ExitCode;

use cli::Verb;
use config::BadStart;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;

/// Thousands of sessions allocate and free small objects from many threads: less memory and a fifth less time than with the C
/// library's allocator. Without huge pages, which would make every thread's first page two megabytes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Comes first: descriptors that are opened later must not count as inherited.
    inherited::close_descriptors();
    say::catch_panics();
    let code = run();
    say::flush();
    code
}

fn run() -> ExitCode {
    let cli = match config::parse(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(cli) => cli,
        Err(BadStart::Usage(error)) => error.exit(),
        Err(bad) => {
            say::err(format_args!("{bad}"));
            return ExitCode::from(2);
        }
    };
    if !matches!(cli.verb, Verb::Bench(_)) {
        inherited::close_new_files();
    }
    start_log(cli.log.log_level.as_deref().unwrap_or(default_level(&cli.verb)));
    if matches!(cli.verb, Verb::Dev(_) | Verb::Server(_) | Verb::Bench(_)) {
        open_files::raise_limit();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            say::err(format_args!("error: cannot start: {e}"));
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match cli.verb {
            Verb::Demo(args) => demo::run(args).await,
            Verb::Dev(args) => dev::run(args).await,
            Verb::Server(args) => server::run(args).await,
            Verb::Worker(args) => worker::run(args).await,
            Verb::Node(args) => node::run(*args).await,
            Verb::Bench(args) => grid_bench::run(args).await,
            Verb::Nats(args) => nats::run(args),
        }
    });
    // A blocked read of a signal or a pipe must not delay the exit.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(error) => {
            say::err(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Commands that run in the foreground log only what an operator should look at, so that their output stays readable.
fn default_level(verb: &Verb) -> &'static str {
    match verb {
        Verb::Demo(_) => "error",
        Verb::Dev(_) => "warn",
        Verb::Nats(_) => "warn",
        Verb::Server(_) | Verb::Worker(_) | Verb::Node(_) | Verb::Bench(_) => "info",
    }
}

/// Logs go to stderr because stdout is data. openraft logs every lost heartbeat, and async-nats every attempt to connect; `grid_raft`
/// and `grid_fabric` log the events that matter.
fn start_log(filter: &str) {
    use std::io::IsTerminal;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    // The command line has validated it.
    let filter: Targets = format!("openraft=off,async_nats=off,{filter}").parse().unwrap_or_default();
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(say::log).log_internal_errors(false).with_ansi(colour);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}
