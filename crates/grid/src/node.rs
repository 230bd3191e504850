//! `grid node`: the supervisor of a machine with a controller and a worker, as two child processes of the same binary.
//!
//! ```text
//!                       words (stdin)          ┌──────────────┐
//!   worker keeper ───────────────────────────► │ grid server  │
//!     │     ▲                                  └──────┬───────┘
//!     │     └──────── standing, ready (stdout) ───────┘
//!     ▼
//!   grid worker, while the controller is a standby
//! ```
//!
//! Rules: E8, and of the seed's node-controller: a machine never leads and works at once; children are restarted with
//! backoff; SIGTERM ends the worker first, then the controller.
//! Not here: the role itself, which is the controller's alone; the children's side (`supervised`).
//! The controller decides, not the supervisor: it begins held, and gives nothing out until it is told that the worker is gone. A
//! supervisor that is slow, paused or dead costs time, never the rule.

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
use crate::supervised::{Saying, Word};
use worker::WorkerKeeper;

pub async fn run(args: NodeArgs) -> anyhow::Result<ExitCode> {
    let name = format!("{}-worker", args.server.node_id);
    let node_id: NodeId = name.parse().with_context(|| format!("--node-id: the worker would be named {name:?}"))?;
    let (controller_dir, worker_dir) = (args.server.data_dir.join("controller"), args.server.data_dir.join("worker"));
    grid_folder::enter(&args.server.data_dir, grid_folder::Kind::NODE)
        .with_context(|| format!("--data-dir {} cannot be used", args.server.data_dir.display()))?;

    let (word, words) = watch::channel(Word { number: 1, saying: Saying::Hold { problem: None } });
    let (stand, local) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let (ask, asked) = watch::channel(0);
    let tasks = Tasks::default();
    let signals = signals::asked_to_end(&tasks, None)?;
    let asking = ask.clone();
    tasks.start("shutdown", signals::each(signals, move || asking.send_modify(|asked| *asked += 1)));

    let line = controller_line(&args, &controller_dir);
    let mut controller = tokio::spawn(controller::keep(line, words, stand, stopped));
    let worker = WorkerKeeper {
        line: args.worker.then(|| WorkerLine::new(&args, &node_id, &worker_dir)),
        node_id,
        data_dir: worker_dir,
        drain_limit: Duration::from_millis(args.drain_timeout.ms()),
        word,
        local,
        api: String::new(),
        asked,
    };
    let mut worker = tokio::spawn(worker.keep());
    tokio::select! {
        // It will not run again; neither will anything else here.
        code = &mut controller => {
            ask.send_modify(|asked| *asked += 1);
            worker.await.context("the worker's keeper failed")?;
            code.context("the controller's keeper failed")
        }
        kept = &mut worker => {
            kept.context("the worker's keeper failed")?;
            stop.send_replace(true);
            controller.await.context("the controller's keeper failed")
        }
        // The children end with their supervisor.
        failed = tasks.failed() => anyhow::bail!("{failed}"),
    }
}
