//! `grid bench submit`: measures durable submits of many clients, next to a bare handler that takes the same JSON.
//!
//! Each job is one `ping` on one of a few workers, and runs, so that the queue does not only grow. A submit counts when its
//! answer has arrived, which is after its entry is fsynced, applied and stored (L3).

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Value, json};

use crate::args::SubmitArgs;
use crate::cluster::{Cluster, scratch};
use crate::http_client::Connection;
use crate::process::Process;
use crate::procfs::cpu_seconds;
use crate::quantiles::Times;
use crate::report::Report;
use crate::row::{Found, Row, Setup};
use crate::swarm::Swarm;

const WORKERS: u32 = 16;
const POLL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(120);

pub async fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    report.add(measure(args).await?)?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &SubmitArgs) -> anyhow::Result<Row> {
    let folder = scratch(&args.output)?;
    let mut bare = Process::start("http", &["bench".to_owned(), "http".to_owned()], folder.path())?;
    let ready = bare.says("http ready ").await?;
    let bare_address = ready.trim_start_matches("http ready ").to_owned();
    let cluster = Cluster::start(args.controllers, &args.output).await?;
    let leader = &cluster.members[cluster.leader().await?];
    let address = leader.api_url.trim_start_matches("http://").to_owned();
    let _swarm = Swarm::start("swarm", &["--api", &cluster.api_urls()], WORKERS, cluster.folder()).await?;
    let per_client = args.submits.div_ceil(args.clients);

    // One round each to warm up, then alternating rounds, so that other load on the machine slows both.
    submit_all(&bare_address, args.clients, per_client / 10 + 1).await?;
    submit_all(&address, args.clients, per_client / 10 + 1).await?;
    let (mut times, mut bare_times) = (Times::default(), Times::default());
    let (mut took, mut bare_took, mut cpu_s) = (0.0, 0.0, 0.0);
    for _ in 0..args.rounds {
        let began = Instant::now();
        bare_times.extend(submit_all(&bare_address, args.clients, per_client).await?);
        bare_took += began.elapsed().as_secs_f64();
        let (began, cpu_before) = (Instant::now(), cpu_seconds(leader.process.pid())?);
        times.extend(submit_all(&address, args.clients, per_client).await?);
        took += began.elapsed().as_secs_f64();
        cpu_s += cpu_seconds(leader.process.pid())? - cpu_before;
        all_ended(&address).await?;
    }
    let submits = f64::from(per_client * args.clients) * f64::from(args.rounds);
    Ok(Row {
        bench: "submit",
        case: "durable".to_owned(),
        setup: Setup {
            workers: Some(WORKERS),
            controllers: Some(args.controllers),
            clients: Some(args.clients),
            ..Setup::default()
        },
        found: Found {
            p50_ms: Some(times.p50()),
            p99_ms: Some(times.p99()),
            max_ms: Some(times.max()),
            baseline_p50_ms: Some(bare_times.p50()),
            per_s: Some(submits / took),
            baseline_per_s: Some(submits / bare_took),
            ratio: Some(bare_took / took),
            cpu_s: Some(cpu_s),
            ..Found::default()
        },
    })
}

/// Every client submits this many jobs, one after another.
async fn submit_all(address: &str, clients: u32, each: u32) -> anyhow::Result<Times> {
    let mut running = tokio::task::JoinSet::new();
    for client in 0..clients {
        let address = address.to_owned();
        running.spawn(async move {
            let mut connection = Connection::open(&address).await?;
            let target = format!("node:bench-{:06}", client % WORKERS);
            let body = json!({"target": target, "tasks": [{"backend": "ping", "action": "echo"}]}).to_string();
            let mut times = Times::default();
            for _ in 0..each {
                let began = Instant::now();
                let answer = connection.post("/job", &body).await?;
                if answer.status != 201 {
                    bail!("a submit was answered {}: {}", answer.status, String::from_utf8_lossy(answer.body));
                }
                times.push(began.elapsed());
            }
            Ok(times)
        });
    }
    let mut all = Times::default();
    while let Some(times) = running.join_next().await {
        all.extend(times??);
    }
    Ok(all)
}

/// Accepted jobs finish before the next round, so that the rounds are comparable.
async fn all_ended(address: &str) -> anyhow::Result<()> {
    let mut connection = Connection::open(address).await?;
    let began = Instant::now();
    loop {
        let status: Value = serde_json::from_slice(connection.get("/status").await?.body)?;
        let open = ["pending", "running"].map(|word| status["jobs"][word].as_u64().unwrap_or_default());
        if open == [0, 0] {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            bail!("{open:?} jobs wait or run after {PATIENCE:?}");
        }
        tokio::time::sleep(POLL).await;
    }
}
