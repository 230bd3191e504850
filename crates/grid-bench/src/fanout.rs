//! `grid bench fanout`: measures jobs over N workers, each round next to a round of the bare echo (`baseline`).
//!
//! - barrier: one job at a time, `steps` barriers over all workers, from the submit to the durable end.
//! - pipeline: `jobs` of them at once, so that the log always has something to merge; the leader's CPU per result is measured
//!   here, where the time is work and not waiting.
//! - document: `GET /job/{id}` of each of these jobs, summary and first page, as the client reads it.
//! - once barrier, once pipeline: the same with `once` steps. Each costs one more round trip to the leader and one more commit
//!   (W3), which is merged like a result.
//!
//! Over NATS there are two baselines: the fan-out over core NATS, and a durable consumer for every worker. No stream of Grid may have more
//! consumers than that of the requests; it is counted.
//! The rounds of the baseline run between the jobs, not before them: other load on the machine slows both.

mod baseline;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::args::{Effects, Fabric, FanoutArgs};
use crate::cluster::{Cluster, scratch};
use crate::load::{Action, Load, barriers, pipeline};
use crate::nats::NatsServer;
use crate::procfs::{cpu_seconds, disk_bytes, float, rss_kib};
use crate::quantiles::Times;
use crate::report::Report;
use crate::row::{DURABLE, Found, Row, Setup};
use crate::swarm::Swarm;
use baseline::Baselines;

/// Rounds that do not count: first allocations, first pages.
const WARM_UP: u32 = 2;
/// Pipelines have at least this many steps,
const FEWEST_STEPS: u32 = 10;
/// and up to this many until they produce [`ENOUGH_RESULTS`]: their begin and end, and the first pages and allocations of their
/// length, are not measured.
const MOST_STEPS: u32 = 50;
const ENOUGH_RESULTS: u32 = 500_000;
/// How long a cluster is idle before its memory is read.
const SETTLE: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn run(args: &FanoutArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    for row in measure(args).await? {
        report.add(row)?;
    }
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// The rows of one set-up: barrier, and pipeline and document unless `jobs` is 0; for each kind of action.
pub async fn measure(args: &FanoutArgs) -> anyhow::Result<Vec<Row>> {
    let mut baselines = Baselines::start(args).await?;
    let folder = scratch(&args.output)?;
    let broker = match args.fabric {
        Fabric::Grpc => None,
        Fabric::Nats => Some(NatsServer::start("nats-server", folder.path()).await?),
    };
    let broker = broker.as_ref();
    let flags =
        broker.map_or_else(Vec::new, |broker| ["--fabric", "nats", "--nats", &broker.url].map(str::to_owned).to_vec());
    let cluster = Cluster::start_with(args.controllers, folder, &flags).await?;
    let leader = cluster.leader().await?;
    tokio::time::sleep(SETTLE).await;
    let rss_before = rss_kib(cluster.members[leader].process.pid())?;
    let (api_urls, shared) = (cluster.api_urls(), args.nats.per_connection.to_string());
    let to = broker.map_or(vec!["--api", &api_urls], |broker| vec!["--nats", &broker.url, "--per-connection", &shared]);
    let swarm = Swarm::start("swarm", &to, args.workers, cluster.folder()).await?;
    let client = cluster.client()?;
    let load = Load::new(&client).await?;
    let mut under_test = UnderTest { args, cluster: &cluster, broker, leader, load, swarm, rss_before, done: 0 };
    let mut rows = Vec::new();
    for action in [Action::Pure, Action::Once] {
        let is_wanted = match args.effects {
            Effects::Both => true,
            Effects::Pure => action == Action::Pure,
            Effects::Once => action == Action::Once,
        };
        if is_wanted {
            rows.extend(under_test.measure(action, &mut baselines).await?);
        }
    }
    Ok(rows)
}

/// A cluster and its swarm.
struct UnderTest<'a> {
    args: &'a FanoutArgs,
    cluster: &'a Cluster,
    broker: Option<&'a NatsServer>,
    leader: usize,
    load: Load<'a>,
    swarm: Swarm,
    rss_before: u64,
    /// Results so far.
    done: u64,
}

impl UnderTest<'_> {
    async fn measure(&mut self, action: Action, baselines: &mut Baselines) -> anyhow::Result<Vec<Row>> {
        let args = self.args;
        let pid = self.cluster.members[self.leader].process.pid();
        let (barrier, durable) = self.barrier_rounds(action, baselines, pid).await?;
        let piped = match args.jobs {
            0 => None,
            _ => Some(pipelines(args, action, self.cluster, self.leader, &mut self.load).await?),
        };
        tokio::time::sleep(SETTLE).await;
        let rss = float(rss_kib(pid)?.saturating_sub(self.rss_before)) / f64::from(args.workers);
        self.done += piped.as_ref().map_or(0, |piped| piped.results);
        all_answered(&mut self.swarm, self.done).await?;
        let setup = Setup {
            workers: Some(args.workers),
            controllers: Some(args.controllers),
            fabric: Some(args.fabric.word()),
            per_connection: (args.fabric == Fabric::Nats).then_some(args.nats.per_connection),
            ..Setup::default()
        };
        let row = |case: &str, setup, found| {
            let case = if action == Action::Once { format!("once {case}") } else { case.to_owned() };
            Row { bench: "fanout", case, setup, found }
        };
        let found = Found { rss_kib_per_session: Some(rss), ..barrier };
        let barriers = Setup { jobs: Some(1), steps: Some(args.steps), ..setup };
        let mut rows = vec![row("barrier", barriers, found)];
        if let Some((workers, found)) = durable {
            rows.push(row(DURABLE, Setup { baseline_workers: Some(workers), ..barriers }, found));
        }
        if let Some(Piped { results, found, documents }) = piped {
            let (jobs, steps) = (Some(args.jobs), Some(pipeline_steps(args)));
            let found = Found { rss_kib_per_session: Some(rss), ..found };
            rows.push(row("pipeline", Setup { jobs, steps, results: Some(results), ..setup }, found));
            let found = Found {
                p50_ms: Some(documents.p50()),
                p99_ms: Some(documents.p99()),
                max_ms: Some(documents.max()),
                ..Found::default()
            };
            if action == Action::Pure {
                rows.push(row("document", Setup { jobs: Some(1), steps, ..setup }, found));
            }
        }
        Ok(rows)
    }

    /// What was found against the bare fan-out, and against durable consumers with the number of these.
    async fn barrier_rounds(
        &mut self,
        action: Action,
        baselines: &mut Baselines,
        pid: u32,
    ) -> anyhow::Result<(Found, Option<(u32, Found)>)> {
        let args = self.args;
        let job = [barriers(action, args.steps)];
        let results = u64::from(args.workers) * u64::from(args.steps);
        let (mut times, mut echoes, mut consumers) = (Times::default(), Times::default(), Times::default());
        let (mut cpu_s, mut broker_cpu_s) = (0.0, 0.0);
        for round in 0..args.rounds + WARM_UP {
            let echoed = baselines.bare.rounds(args.steps).await?;
            let consumed = match &mut baselines.durable {
                Some(durable) => Some(durable.rounds(args.steps).await?),
                None => None,
            };
            let (cpu_before, broker_before, began) = (cpu_seconds(pid)?, self.broker_cpu()?, Instant::now());
            let ids = self.load.run(&job).await?;
            let took = began.elapsed();
            // Answers and forgets that follow the end of the job are part of its cost, and must not slow down the baseline.
            self.done += results;
            all_answered(&mut self.swarm, self.done).await?;
            let (spent, broker_spent) = (cpu_seconds(pid)? - cpu_before, self.broker_cpu()? - broker_before);
            self.load.check(&ids[0], results).await?;
            if round >= WARM_UP {
                times.push(took);
                echoes.push(echoed);
                consumed.into_iter().for_each(|took| consumers.push(took));
                cpu_s += spent;
                broker_cpu_s += broker_spent;
            }
        }
        let all = float(results) * f64::from(args.rounds);
        let found = Found {
            p50_ms: Some(times.p50()),
            p99_ms: Some(times.p99()),
            max_ms: Some(times.max()),
            baseline_p50_ms: Some(echoes.p50()),
            ratio: Some(times.p50() / echoes.p50()),
            results_per_s: Some(float(results) * 1_000.0 / times.p50()),
            results_per_cpu_s: Some(all / cpu_s),
            cpu_s: Some(cpu_s),
            broker_cpu_s: self.broker.map(|_| broker_cpu_s),
            consumers: self.consumers().await?,
            ..Found::default()
        };
        let durable = baselines.durable.as_ref().map(|durable| {
            let per_worker = f64::from(durable.workers) / f64::from(args.workers);
            let ratio = times.p50() / consumers.p50() * per_worker;
            let (p50_ms, baseline_p50_ms) = (Some(times.p50()), Some(consumers.p50()));
            (durable.workers, Found { p50_ms, baseline_p50_ms, ratio: Some(ratio), ..Found::default() })
        });
        Ok((found, durable))
    }

    fn broker_cpu(&self) -> anyhow::Result<f64> {
        self.broker.map_or(Ok(0.0), |broker| cpu_seconds(broker.process.pid()))
    }

    /// N8: neither a worker nor a step has a consumer of its own.
    async fn consumers(&self) -> anyhow::Result<Option<u64>> {
        let Some(broker) = self.broker else { return Ok(None) };
        let consumers = broker.consumers().await?;
        anyhow::ensure!(
            consumers <= 1,
            "the streams of Grid have {consumers} consumers instead of that of the requests"
        );
        Ok(Some(consumers))
    }
}

/// The results of the pipelines.
struct Piped {
    results: u64,
    found: Found,
    /// Times of `GET /job/{id}`.
    documents: Times,
}

async fn pipelines(
    args: &FanoutArgs,
    action: Action,
    cluster: &Cluster,
    leader: usize,
    load: &mut Load<'_>,
) -> anyhow::Result<Piped> {
    let (pid, data_dir) = (cluster.members[leader].process.pid(), cluster.data_dir(leader));
    let disk_before = disk_bytes(&data_dir);
    let steps = pipeline_steps(args);
    let jobs: Vec<Value> = (0..args.jobs).map(|_| pipeline(action, steps)).collect();
    let per_job = u64::from(args.workers) * u64::from(steps);
    let (cpu_before, began) = (cpu_seconds(pid)?, Instant::now());
    let ids = load.run(&jobs).await?;
    let (took, cpu_s) = (began.elapsed().as_secs_f64(), cpu_seconds(pid)? - cpu_before);
    tokio::time::sleep(SETTLE).await;
    let mut documents = Times::default();
    for id in &ids {
        let asked = Instant::now();
        load.check(id, per_job).await?;
        documents.push(asked.elapsed());
    }
    let results = per_job * u64::from(args.jobs);
    let grown = float(disk_bytes(&data_dir).saturating_sub(disk_before));
    let found = Found {
        results_per_s: Some(float(results) / took),
        results_per_cpu_s: Some(float(results) / cpu_s),
        cpu_s: Some(cpu_s),
        disk_bytes_per_result: Some(grown / float(results)),
        ..Found::default()
    };
    Ok(Piped { results, found, documents })
}

fn pipeline_steps(args: &FanoutArgs) -> u32 {
    let enough = ENOUGH_RESULTS / args.workers.saturating_mul(args.jobs).max(1);
    args.steps.max(enough.clamp(FEWEST_STEPS, MOST_STEPS))
}

/// Checks that every lease ran once and every result has its final answer; the last of these may still be under way.
async fn all_answered(swarm: &mut Swarm, expected: u64) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let counts = swarm.counts().await?;
        if counts.runs == expected && counts.committed + counts.superseded >= expected {
            return Ok(());
        }
        if counts.runs > expected || began.elapsed() > PATIENCE {
            anyhow::bail!("{expected} leases should have run and been committed, but the sessions report {counts:?}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
