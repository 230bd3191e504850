//! `grid bench failover`: measures the time from `kill -9` of the leader of three controllers to the next accepted write.
//!
//! Meanwhile one client submits all the time and a swarm runs the jobs. Afterwards every acknowledged job must exist and be
//! completed, and no lease may have run twice: figures of a cluster that loses jobs would be worthless.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use grid_client::Client;
use grid_types::JobStatus;

use crate::args::FailoverArgs;
use crate::cluster::Cluster;
use crate::load::{Action, barriers};
use crate::quantiles::Times;
use crate::report::Report;
use crate::row::{Found, Row, Setup};
use crate::swarm::Swarm;

const CONTROLLERS: u32 = 3;
const WORKERS: u32 = 20;
/// Pause between two submits, so that the jobs are many but not a load.
const PAUSE: Duration = Duration::from_millis(5);
/// How long writes continue before the next leader is killed.
const CALM: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(120);

pub async fn run(args: &FailoverArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    report.add(measure(args).await?)?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &FailoverArgs) -> anyhow::Result<Row> {
    let mut cluster = Cluster::start(CONTROLLERS, &args.output).await?;
    let mut swarm = Swarm::start("swarm", &["--api", &cluster.api_urls()], WORKERS, cluster.folder()).await?;
    let (mut gaps, mut acknowledged) = (Times::default(), Vec::new());
    for _ in 0..args.rounds {
        let leader = cluster.leader().await?;
        let (client, stop) = (cluster.client()?, Arc::new(AtomicBool::new(false)));
        let writer = tokio::spawn(write(client, Arc::clone(&stop)));
        tokio::time::sleep(CALM).await;
        let killed = Instant::now();
        cluster.members[leader].process.kill().await?;
        tokio::time::sleep(CALM * 2).await;
        stop.store(true, Ordering::Relaxed);
        let written = writer.await??;
        // It is not known which leader accepted a submit that was already under way.
        let next = written.iter().find(|write| write.sent > killed);
        let next = next.ok_or_else(|| anyhow!("nothing was accepted within {CALM:?} after the leader was killed"))?;
        gaps.push(next.answered - killed);
        acknowledged.extend(written.into_iter().map(|write| write.job));
        cluster.restart(leader).await?;
        cluster.settled(CONTROLLERS).await?;
    }
    let jobs = u32::try_from(acknowledged.len())?;
    all_completed(&cluster, &acknowledged).await?;
    let (counts, expected) = (swarm.counts().await?, u64::from(jobs) * u64::from(WORKERS));
    if counts.runs != expected {
        bail!("{expected} leases should have run once each, but {} ran", counts.runs);
    }
    Ok(Row {
        bench: "failover",
        case: format!("{} leaders killed", args.rounds),
        setup: Setup {
            workers: Some(WORKERS),
            controllers: Some(CONTROLLERS),
            fabric: Some("grpc"),
            jobs: Some(jobs),
            results: Some(expected),
            ..Setup::default()
        },
        found: Found {
            p50_ms: Some(gaps.p50()),
            p99_ms: Some(gaps.p99()),
            max_ms: Some(gaps.max()),
            ..Found::default()
        },
    })
}

struct Write {
    sent: Instant,
    answered: Instant,
    job: String,
}

async fn write(client: Client, stop: Arc<AtomicBool>) -> anyhow::Result<Vec<Write>> {
    let (mut written, job) = (Vec::new(), barriers(Action::Pure, 1));
    while !stop.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let doc = client.submit("default", &job).await?;
        written.push(Write { sent, answered: Instant::now(), job: doc.id });
        tokio::time::sleep(PAUSE).await;
    }
    Ok(written)
}

async fn all_completed(cluster: &Cluster, jobs: &[String]) -> anyhow::Result<()> {
    let (client, began) = (cluster.client()?, Instant::now());
    for id in jobs {
        let job = id.parse().map_err(|e| anyhow!("{id}: {e}"))?;
        loop {
            let doc = client.job("default", job).await?;
            if doc.status == JobStatus::Completed {
                break;
            }
            if doc.status.is_ended() || began.elapsed() > PATIENCE {
                bail!("{id} was accepted and is {}: {:?}", doc.status, doc.reason);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
