//! `grid bench peers`: measures the ping of well-known tools, over as many nodes on this machine.
//!
//! It installs nothing: a benchmark must not change the machine.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::args::{Effects, Fabric, FanoutArgs, NatsArgs, PeersArgs};
use crate::fanout;
use crate::quantiles::Times;
use crate::report::Report;
use crate::row::{Found, Row, Setup};

mod ansible;
mod salt;

pub async fn run(args: &PeersArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    measure(args, &mut report).await?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &PeersArgs, report: &mut Report) -> anyhow::Result<()> {
    let (ansible, salt) = (installed("ansible"), installed("salt-master"));
    for (tool, package, found) in [("ansible", "ansible-core", &ansible), ("Salt", "salt", &salt)] {
        if found.is_none() {
            crate::say::err(format_args!("{tool} is not installed; to compare with it: pip install {package}"));
        }
    }
    if ansible.is_none() && salt.is_none() {
        return Ok(());
    }
    let own_p50_ms = own_p50_ms(args).await?;
    if let Some(ansible) = ansible {
        let times = ansible::pings(&ansible, args).await?;
        report.add(row("ansible ping, 25 forks; baseline: Grid", args, &times, own_p50_ms))?;
    }
    if let Some(salt) = salt {
        let times = salt::pings(&salt, args).await?;
        report.add(row("salt test.ping; baseline: Grid", args, &times, own_p50_ms))?;
    }
    Ok(())
}

async fn own_p50_ms(args: &PeersArgs) -> anyhow::Result<f64> {
    let fanout = FanoutArgs {
        workers: args.nodes,
        steps: 1,
        jobs: 0,
        rounds: 5,
        controllers: 1,
        fabric: Fabric::Grpc,
        nats: NatsArgs::default(),
        effects: Effects::Pure,
        output: args.output.clone(),
    };
    let own = fanout::measure(&fanout).await?.into_iter().find(|row| row.case == "barrier");
    Ok(own.and_then(|row| row.found.p50_ms).unwrap_or_default())
}

fn row(case: &str, args: &PeersArgs, times: &Times, own_p50_ms: f64) -> Row {
    Row {
        bench: "peers",
        case: case.to_owned(),
        setup: Setup { workers: Some(args.nodes), ..Setup::default() },
        found: Found {
            p50_ms: Some(times.p50()),
            max_ms: Some(times.max()),
            baseline_p50_ms: Some(own_p50_ms),
            ratio: Some(times.p50() / own_p50_ms),
            ..Found::default()
        },
    }
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
