//! `grid bench worker`: measures what a real `grid worker` costs its machine: idle, and for each step that it runs.
//!
//! Steps run in pipelines, with twice as many jobs as the worker has slots, so that it always has leases. The worker's own CPU
//! time counts, with the start and end of programs, but without the time of the programs themselves.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use grid_types::limits::DEFAULT_SLOTS;
use serde_json::json;

use crate::args::WorkerBenchArgs;
use crate::cluster::Cluster;
use crate::load::{Action, Load, pipeline};
use crate::process::Process;
use crate::procfs::{cpu_seconds, float, rss_kib};
use crate::quantiles::Times;
use crate::report::Report;
use crate::row::{Found, IN_PROCESS, Row, Setup};

/// After this time it only sends heartbeats.
const SETTLE: Duration = Duration::from_secs(1);

/// Jobs at once: a job has one running lease at a time, and no slot should wait for the controller.
const JOBS: u32 = 2 * DEFAULT_SLOTS;

pub async fn run(args: &WorkerBenchArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    measure(args, &mut report).await?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &WorkerBenchArgs, report: &mut Report) -> anyhow::Result<()> {
    let cluster = Cluster::start(1, &args.output).await?;
    report.add(starts(args, &cluster).await?)?;
    report.add(steps(&cluster, IN_PROCESS, Action::Pure, args.steps).await?)?;
    // A process costs a hundred times as much as a step without one.
    report.add(steps(&cluster, "steps with a process", Action::Program, args.steps.div_ceil(20)).await?)
}

async fn start(cluster: &Cluster, name: &str) -> anyhow::Result<Process> {
    let data_dir = cluster.folder().join(name).display().to_string();
    let line = ["worker", "--server", &cluster.api_urls(), "--node-id", name, "--data-dir", &data_dir];
    let line = line.into_iter().chain(["--enable-backend", "test"]).map(str::to_owned);
    let mut worker = Process::start(name, &line.collect::<Vec<_>>(), cluster.folder())?;
    worker.says("grid worker ready").await?;
    Ok(worker)
}

async fn starts(args: &WorkerBenchArgs, cluster: &Cluster) -> anyhow::Result<Row> {
    let (mut times, mut most_kib) = (Times::default(), 0);
    for number in 0..args.rounds {
        let began = Instant::now();
        let mut worker = start(cluster, &format!("worker-{number}")).await?;
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

async fn steps(cluster: &Cluster, case: &str, action: Action, steps: u32) -> anyhow::Result<Row> {
    let name = case.replace(' ', "-");
    let mut worker = start(cluster, &name).await?;
    let client = cluster.client()?;
    let mut load = Load::new(&client).await?;
    let job = |steps| {
        let mut job = pipeline(action, steps);
        job["target"] = json!(format!("node:{name}"));
        job
    };
    let jobs: Vec<_> = (0..JOBS).map(|_| job(steps)).collect();
    // Caches, pages of the program, the first growth of every table.
    load.run(&[job(steps.div_ceil(10))]).await?;
    let (cpu_before, began) = (cpu_seconds(worker.pid())?, Instant::now());
    let ids = load.run(&jobs).await?;
    let took = began.elapsed().as_secs_f64();
    // The last answers and the removal of the steps' files are part of their cost.
    tokio::time::sleep(SETTLE).await;
    let cpu_s = cpu_seconds(worker.pid())? - cpu_before;
    for id in &ids {
        load.check(id, u64::from(steps)).await?;
    }
    let rss_mib = float(rss_kib(worker.pid())?) / 1024.0;
    worker.stop().await?;
    let results = u64::from(JOBS) * u64::from(steps);
    Ok(Row {
        bench: "worker",
        case: case.to_owned(),
        setup: Setup {
            workers: Some(1),
            controllers: Some(1),
            fabric: Some("grpc"),
            jobs: Some(JOBS),
            steps: Some(steps),
            results: Some(results),
            ..Setup::default()
        },
        found: Found {
            results_per_s: Some(float(results) / took),
            results_per_cpu_s: Some(float(results) / cpu_s),
            cpu_s: Some(cpu_s),
            rss_mib: Some(rss_mib),
            ..Found::default()
        },
    })
}
