//! `grid bench`: measures the performance of Grid on this machine, each figure next to a baseline of the same run.
//!
//! ```text
//!   grid bench ──starts──► grid server ×1|3   (real processes, fsync on)       ◄── measured: time, CPU, memory, disk
//!        │      ──starts──► bench swarm ×n     (N sessions, a connection each)
//!        ├──────starts──► bench echo | http | nats-baseline   (the baseline: the same sockets, no storage)
//!        └──────starts──► nats-server ×1|2  (`fanout --fabric nats`)
//! ```
//!
//! Everything under test is the real binary behind its real sockets; this crate never links a controller (`cargo xtask deps`
//! proves it), so that nothing is measured from the inside.
//! Figures are ratios wherever there is a baseline: other load on the machine slows both sides.
//! Not here: any judgement by exit code. A missed floor is printed as missed; a timed test would only be flaky.
//! Errors are `anyhow`: the crate is a part of a program, and no caller matches on its errors.

mod args;
mod cluster;
mod echo;
mod everything;
mod failover;
mod fanout;
mod floors;
mod growth;
mod http_baseline;
mod http_client;
mod load;
mod nats;
mod peers;
mod plot;
mod process;
mod procfs;
mod quantiles;
mod report;
mod restart;
mod row;
mod say;
mod submit;
mod swarm;
mod swarm_counts;
mod swarm_peer;
mod worker;

use std::process::ExitCode;

pub use args::BenchArgs;
use args::What;

/// Runs the benchmark of the command line.
///
/// # Errors
/// When a process under test does not start, or does not do what it is measured for.
pub async fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) && !args.what.is_a_part() {
        crate::say::err(format_args!("warning: this is a debug build; its figures mean nothing. Build with --release"));
    }
    let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        done = run_one(args.what) => done,
        // The return drops, and so ends, every process that was started.
        _ = ended.recv() => Ok(ExitCode::from(143)),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
    }
}

async fn run_one(what: What) -> anyhow::Result<ExitCode> {
    match what {
        What::Fanout(args) => fanout::run(&args).await,
        What::Submit(args) => submit::run(&args).await,
        What::Restart(args) => restart::run(&args).await,
        What::Growth(args) => growth::run(&args).await,
        What::Failover(args) => failover::run(&args).await,
        What::Worker(args) => worker::run(&args).await,
        What::Peers(args) => peers::run(&args).await,
        What::All(args) => everything::run(&args).await,
        What::Swarm(args) => swarm::run(args).await,
        What::Echo => echo::run().await,
        What::Http => http_baseline::run().await,
        What::NatsBaseline(args) => nats::leader(args).await,
    }
}
