//! `grid bench restart`: measures how long a controller with a long history needs until it serves again.
//!
//! The process ended in one of two ways before: in an orderly stop, after which the stored state is used directly, or by `kill
//! -9`, after which it is rebuilt from snapshot and log.

use std::process::ExitCode;
use std::time::Instant;

use serde_json::Value;

use crate::args::RestartArgs;
use crate::cluster::Cluster;
use crate::http_client::Connection;
use crate::load::{Action, Load, pipeline};
use crate::procfs::{cpu_seconds, float, rss_kib};
use crate::quantiles::Times;
use crate::report::Report;
use crate::row::{Found, Row, Setup};
use crate::swarm::Swarm;

const WORKERS: u32 = 1_000;
const STEPS: u32 = 100;
const JOBS_AT_ONCE: u64 = 2;

pub async fn run(args: &RestartArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    for row in measure(args).await? {
        report.add(row)?;
    }
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &RestartArgs) -> anyhow::Result<Vec<Row>> {
    let mut cluster = Cluster::start(1, &args.output).await?;
    let results = fill(&cluster, args.results).await?;
    let mut rows = Vec::new();
    for (case, orderly) in [("after an orderly stop", true), ("after kill -9", false)] {
        let (mut times, mut cpu_s) = (Times::default(), 0.0);
        for _ in 0..args.rounds {
            let process = &mut cluster.members[0].process;
            if orderly {
                process.stop().await?;
            } else {
                process.kill().await?;
            }
            let began = Instant::now();
            cluster.restart(0).await?;
            times.push(began.elapsed());
            cpu_s += cpu_seconds(cluster.members[0].process.pid())?;
            ready(&cluster).await?;
        }
        let rss_mib = float(rss_kib(cluster.members[0].process.pid())?) / 1024.0;
        rows.push(Row {
            bench: "restart",
            case: case.to_owned(),
            setup: Setup { controllers: Some(1), workers: Some(WORKERS), results: Some(results), ..Setup::default() },
            found: Found {
                p50_ms: Some(times.p50()),
                max_ms: Some(times.max()),
                cpu_s: Some(cpu_s / f64::from(args.rounds)),
                rss_mib: Some(rss_mib),
                ..Found::default()
            },
        });
    }
    Ok(rows)
}

/// Creates a history of at least this many results.
async fn fill(cluster: &Cluster, wanted: u64) -> anyhow::Result<u64> {
    crate::say::err(format_args!("creating a history of {wanted} results first"));
    let _swarm = Swarm::start("swarm", &["--api", &cluster.api_urls()], WORKERS, cluster.folder()).await?;
    let client = cluster.client()?;
    let mut load = Load::new(&client).await?;
    let per_job = u64::from(WORKERS) * u64::from(STEPS);
    let mut made = 0;
    while made < wanted {
        let count = (wanted - made).div_ceil(per_job).min(JOBS_AT_ONCE);
        let jobs: Vec<Value> = (0..count).map(|_| pipeline(Action::Pure, STEPS)).collect();
        for id in load.run(&jobs).await? {
            load.check(&id, per_job).await?;
            made += per_job;
        }
    }
    Ok(made)
}

/// Waits until it prints that it serves, and checks that it does.
async fn ready(cluster: &Cluster) -> anyhow::Result<()> {
    let address = cluster.members[0].api_url.trim_start_matches("http://").to_owned();
    let mut connection = Connection::open(&address).await?;
    let answer = connection.get("/readyz").await?;
    anyhow::ensure!(answer.status == 200, "/readyz answers {} after it was announced", answer.status);
    Ok(())
}
