//! `grid bench all`: runs every benchmark once, with the cases of the design's floors.

use std::process::ExitCode;

use crate::args::{
    AllArgs, Effects, Fabric, FailoverArgs, FanoutArgs, GrowthArgs, NatsArgs, PeersArgs, RestartArgs, SubmitArgs,
    WorkerBenchArgs,
};
use crate::report::Report;
use crate::{failover, fanout, growth, peers, restart, submit, worker};

pub async fn run(args: &AllArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    let output = || args.output.clone();
    for (workers, controllers, rounds) in [(1_000, 1, 15), (1_000, 3, 15), (10_000, 1, 15)] {
        let fabric = Fabric::Grpc;
        let effects = if workers == 1_000 { Effects::Both } else { Effects::Pure };
        let nats = NatsArgs::default();
        let case =
            FanoutArgs { workers, steps: 1, jobs: 10, rounds, controllers, fabric, nats, effects, output: output() };
        for row in fanout::measure(&case).await? {
            report.add(row)?;
        }
    }
    report.add(
        submit::measure(&SubmitArgs { clients: 64, submits: 20_000, rounds: 3, controllers: 1, output: output() })
            .await?,
    )?;
    growth::measure(&GrowthArgs { most_workers: 10_000, rounds: 9, output: output() }, &mut report).await?;
    for row in restart::measure(&RestartArgs { results: 1_000_000, rounds: 3, output: output() }).await? {
        report.add(row)?;
    }
    report.add(failover::measure(&FailoverArgs { rounds: 5, output: output() }).await?)?;
    worker::measure(&WorkerBenchArgs { rounds: 5, steps: 1_000, output: output() }, &mut report).await?;
    peers::measure(&PeersArgs { nodes: 50, rounds: 1, output: output() }, &mut report).await?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}
