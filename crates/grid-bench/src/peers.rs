//! `grid bench peers`: the ping of tools people know, over as many nodes on this same machine.
//!
//! ansible-core runs its own `ping` over N hosts with local connections (no ssh: it gets the better of it). Salt is told
//! about, not run: it needs a master and a process of 50 MB for each of its minions, set up as root.
//! Nothing is installed by this: a benchmark that changes a machine is none.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use crate::args::{Fabric, FanoutArgs, PeersArgs};
use crate::cluster::scratch;
use crate::fanout;
use crate::quantiles::Times;
use crate::report::{Found, Report, Row, Setup};

const FORKS: &str = "25";
const SHOWN_CHARS: usize = 1_000;

pub async fn run(args: &PeersArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::new(&args.output);
    measure(args, &mut report).await?;
    report.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub async fn measure(args: &PeersArgs, report: &mut Report) -> anyhow::Result<()> {
    let Some(ansible) = installed("ansible") else {
        eprintln!("ansible is not installed; to compare with it: pip install ansible-core");
        return Ok(());
    };
    let fanout = FanoutArgs {
        workers: args.nodes,
        steps: 1,
        jobs: 0,
        rounds: 5,
        controllers: 1,
        fabric: Fabric::Grpc,
        output: args.output.clone(),
    };
    let own = fanout::measure(&fanout).await?.into_iter().find(|row| row.case == "barrier");
    let own_p50_ms = own.and_then(|row| row.found.p50_ms).unwrap_or_default();
    let times = ansible_pings(&ansible, args).await?;
    report.add(Row {
        bench: "peers",
        case: "ansible ping, 25 forks; baseline: Grid".to_owned(),
        setup: Setup { workers: Some(args.nodes), ..Setup::default() },
        found: Found {
            p50_ms: Some(times.p50()),
            max_ms: Some(times.max()),
            baseline_p50_ms: Some(own_p50_ms),
            ratio: Some(times.p50() / own_p50_ms),
            ..Found::default()
        },
    })
}

async fn ansible_pings(ansible: &Path, args: &PeersArgs) -> anyhow::Result<Times> {
    let folder = scratch(&args.output)?;
    // With the Python that runs ansible itself: what it would discover on this machine may not run at all.
    let facts = "ansible_connection=local ansible_python_interpreter=\"{{ ansible_playbook_python }}\"";
    let hosts: String = (0..args.nodes).map(|n| format!("node{n} {facts}\n")).collect();
    let inventory = folder.path().join("hosts");
    std::fs::write(&inventory, format!("[all]\n{hosts}"))?;
    let mut times = Times::default();
    for _ in 0..args.rounds {
        let mut command = tokio::process::Command::new(ansible);
        command.args(["all", "-m", "ping", "-f", FORKS, "-i"]).arg(&inventory).stdin(Stdio::null());
        command.env("ANSIBLE_LOCALHOST_WARNING", "False");
        let began = Instant::now();
        let out = command.output().await.with_context(|| format!("cannot run {}", ansible.display()))?;
        times.push(began.elapsed());
        let answered = String::from_utf8_lossy(&out.stdout).matches("SUCCESS").count();
        if u32::try_from(answered)? != args.nodes {
            let said = [out.stderr, out.stdout].concat();
            let said: String = String::from_utf8_lossy(&said).chars().take(SHOWN_CHARS).collect();
            bail!("ansible reached {answered} of {} nodes; it said: {said}", args.nodes);
        }
    }
    Ok(times)
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
