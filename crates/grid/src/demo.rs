//! `grid demo`: runs an example job on an embedded cluster and shows its progress.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use grid_client::{Client, Options, parse_servers};
use grid_types::{JobId, JobStatus};
use serde_json::json;

use crate::cli::DemoArgs;
use crate::dev::{Dev, Embedded, WorkerOptions};
use crate::nats::beside::Beside;
use crate::say;
use crate::tuning::Tuned;

pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    say::err(format_args!("starting a controller and three workers: web-01, web-02, db-01"));
    let embedded = Embedded {
        api: ([127, 0, 0, 1], 0).into(),
        allow_hosts: Vec::new(),
        workers: 3,
        options: WorkerOptions::default(),
        tuned: Tuned::default(),
        nats: Beside::start_for(args.fabric, scratch.path()).await?,
    };
    let mut dev = Dev::start(scratch.path(), embedded).await?;
    let shown = tokio::select! {
        shown = show_job(&dev.api_url) => shown,
        why = Beside::ended_of(&mut dev.nats) => Err(anyhow::anyhow!("{why}")),
    };
    dev.stop().await;
    shown
}

async fn show_job(api_url: &str) -> anyhow::Result<ExitCode> {
    let client = Client::new(parse_servers(api_url)?, Options { patience: Duration::from_secs(10) })?;
    // A pipeline that each node runs through on its own, then two barriers that all nodes reach together.
    let job = json!({
        "target": {"scope": "all"},
        "tasks": [
            {"tasks": [
                {"backend": "ping", "action": "hostname"},
                {"backend": "test", "action": "succeed", "params": {"message": "prepared", "delay": "600ms"}},
            ]},
            {"backend": "ping", "action": "sleep", "params": {"duration": "400ms"}},
            {"backend": "ping", "action": "echo", "params": {"message": "all nodes are here"}},
        ],
    });
    let submitted = client.submit("default", &job).await?;
    let id: JobId = submitted.id.parse()?;
    say::err(format_args!("{id}: a pipeline of two steps on every node, then two barriers"));
    say::flush();
    let mut view = gridc::live_view();
    let doc = gridc::watch(&client, "default", id, view.as_mut()).await?;
    let summary = gridc::summary(&client, "default", id, &doc).await?;
    say::out(summary.trim_end_matches('\n'));
    for node in doc.expected_names() {
        let said = client.output("default", id, grid_types::StepIndex(3), node).await?;
        say::out(format_args!("  {node:8} {}", said.trim_end()));
    }
    say::err(format_args!(
        "hint: `grid dev` keeps such a cluster running; `gridc --help` lists the commands to use it"
    ));
    Ok(if doc.status == JobStatus::Completed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
