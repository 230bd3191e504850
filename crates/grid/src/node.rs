//! `grid node`: supervises the controller and the worker of a machine, as two child processes of the same binary.
//!
//! ```text
//!                       orders (stdin)         ┌──────────────┐
//!   worker keeper ───────────────────────────► │ grid server  │
//!     │     ▲                                  └──────┬───────┘
//!     │     └──────── reports, ready (stdout) ────────┘
//!     ▼
//!   grid worker, while the controller is a standby
//! ```
//!
//! Rules: E8, and those of the seed's node-controller: a machine never leads and works at the same time; children are restarted
//! with backoff; SIGTERM ends the worker first, then the controller.
//! Not here: the role, which only the controller decides; the children's side (`supervised`).
//! The controller decides, not the supervisor: it starts with dispatch paused, and dispatches nothing until the supervisor
//! reports that the worker is gone. A slow, stopped or dead supervisor costs time, but cannot break the rule.

mod backoff;
mod child;
mod controller;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use grid_tasks::Tasks;
use grid_types::NodeId;
use tokio::sync::watch;

use crate::cli::{NodeArgs, WorkerLine, controller_line};
use crate::signals;
use crate::supervised::{Instruction, Order};
use worker::WorkerKeeper;

pub async fn run(args: NodeArgs) -> anyhow::Result<ExitCode> {
    let name = format!("{}-worker", args.server.node_id);
    let node_id: NodeId = name.parse().with_context(|| format!("--node-id: the worker would be named {name:?}"))?;
    let (controller_dir, worker_dir) = (args.server.data_dir.join("controller"), args.server.data_dir.join("worker"));
    grid_folder::enter(&args.server.data_dir, grid_folder::Kind::NODE)
        .with_context(|| format!("--data-dir {} cannot be used", args.server.data_dir.display()))?;

    let (order, orders) = watch::channel(Order { number: 1, instruction: Instruction::Pause { problem: None } });
    let (publish, local) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let (ask, asked) = watch::channel(0);
    let tasks = Tasks::default();
    let signals = signals::asked_to_end(&tasks, None)?;
    let asking = ask.clone();
    tasks.start("shutdown", signals::each(signals, move || asking.send_modify(|asked| *asked += 1)));

    let line = controller_line(&args, &controller_dir);
    let mut controller = tokio::spawn(controller::keep(line, orders, publish, stopped));
    let worker = WorkerKeeper {
        line: args.worker.then(|| WorkerLine::new(&args, &node_id, &worker_dir)),
        node_id,
        data_dir: worker_dir,
        drain_limit: Duration::from_millis(args.drain_timeout.ms()),
        order,
        local,
        api: String::new(),
        asked,
    };
    let mut worker = tokio::spawn(worker.keep());
    tokio::select! {
        // The controller will not run again, so the supervisor ends too.
        code = &mut controller => {
            ask.send_modify(|asked| *asked += 1);
            worker.await.context("the task that supervises the worker failed")?;
            code.context("the task that supervises the controller failed")
        }
        kept = &mut worker => {
            kept.context("the task that supervises the worker failed")?;
            stop.send_replace(true);
            controller.await.context("the task that supervises the controller failed")
        }
        // The children end with their supervisor.
        failed = tasks.failed() => anyhow::bail!("{failed}"),
    }
}
