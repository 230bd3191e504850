//! `grid bench worker`: what a real `grid worker` costs the machine it runs on.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::args::WorkerBenchArgs;
use crate::cluster::Cluster;
use crate::process::Process;
use crate::procfs::{float, rss_kib};
use crate::quantiles::Times;
use crate::report::{Found, Report, Row, Setup};

/// After this it has nothing left to do but to beat.
const SETTLE: Duration = Duration::from_secs(1);

pub async fn run(args: &WorkerBenchArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    report.add(measure(args).await?)?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &WorkerBenchArgs) -> anyhow::Result<Row> {
    let cluster = Cluster::start(1, &args.output).await?;
    let (mut times, mut most_kib) = (Times::default(), 0);
    for number in 0..args.rounds {
        let name = format!("worker-{number}");
        let data_dir = cluster.folder().join(&name).display().to_string();
        let line = ["worker", "--server", &cluster.api_urls(), "--node-id", &name, "--data-dir", &data_dir];
        let began = Instant::now();
        let mut worker = Process::start(&name, &line.map(str::to_owned), cluster.folder())?;
        worker.says("grid worker ready").await?;
        times.push(began.elapsed());
        tokio::time::sleep(SETTLE).await;
        most_kib = most_kib.max(rss_kib(worker.pid())?);
        worker.stop().await?;
    }
    Ok(Row {
        bench: "worker",
        case: "start to registered, then idle".to_owned(),
        setup: Setup { workers: Some(1), controllers: Some(1), fabric: Some("grpc"), ..Setup::default() },
        found: Found {
            p50_ms: Some(times.p50()),
            p99_ms: Some(times.p99()),
            max_ms: Some(times.max()),
            rss_mib: Some(float(most_kib) / 1024.0),
            ..Found::default()
        },
    })
}
