//! `grid`: the binary that runs things. Wiring only: it reads the command line, opens sockets and folders, and connects
//! the parts; what they do is decided in their own crates.

// They panic when nobody can read; everything is printed through `say`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod config;
mod demo;
mod dev;
mod inherited;
mod join;
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

/// Thousands of sessions allocate and free small things from many threads: less memory and a fifth less time than with
/// the C library's. Without huge pages, which would make every thread's first page two megabytes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First: what is opened later must not be taken for inherited.
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
    let quiet = matches!(cli.verb, Verb::Demo(_));
    start_log(quiet);
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
        }
    });
    // A blocked read of a signal or a pipe must not keep the process.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(error) => {
            say::err(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Logs go to stderr: stdout is data. openraft calls every lost heartbeat an error; what matters of it is told by
/// `grid_raft`. `GRID_LOG` takes filters like `info,grid_worker=debug`.
fn start_log(quiet: bool) {
    use std::io::IsTerminal;
    let default = if quiet { "error" } else { "info,openraft=off" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("GRID_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(say::log)
        .log_internal_errors(false)
        .with_ansi(colour)
        .init();
}
