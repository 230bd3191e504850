//! The children's side of `grid node`: a process whose supervisor is at the other end of its stdin.
//!
//! When stdin closes, the supervisor is gone, even by kill -9, and its child stops cleanly: no other process would stop it
//! later, or keep the worker and the controller of a machine apart (E8).
//! Not here: the messages (`messages`), the supervisor's side (`node`).

mod messages;

use std::time::Duration;

use grid_controller::{Controller, LocalWorker};
use grid_tasks::Tasks;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::{mpsc, watch};

use crate::say;

pub use messages::{Instruction, Order, Report};

/// Orders that wait for a controller that is still starting; a supervisor sends few.
const WAITING: usize = 64;

/// For a controller: receives the supervisor's orders, and resolves when the supervisor is gone.
pub fn controller_orders(tasks: &Tasks) -> (mpsc::Receiver<Order>, mpsc::Receiver<()>) {
    let (orders, received) = mpsc::channel(WAITING);
    let (orphaned, gone) = mpsc::channel(1);
    tasks.start_finite("supervisor-input", async move {
        let mut lines = BufReader::new(stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match line.parse() {
                Ok(order) => {
                    // A closed receiver means that the controller has ended.
                    let _ = orders.send(order).await;
                }
                Err(_) => tracing::warn!("cannot parse an order of the supervisor: {line:?}"),
            }
        }
        tracing::warn!("the supervisor is gone");
        let _ = orphaned.send(()).await;
    });
    (received, gone)
}

/// Starts the tasks that carry out the supervisor's orders and report the controller's role, until the controller ends.
pub fn carry_out(tasks: &Tasks, controller: Controller, orders: mpsc::Receiver<Order>) {
    let (leading, led) = watch::channel(false);
    let followed = controller.clone();
    tasks.start("supervisor-role", async move {
        let publish = |leads| {
            leading.send_replace(leads);
        };
        followed.follow_leading(publish).await;
    });
    tasks.start_finite("supervisor-orders", report_orders(controller, orders, led));
}

/// Ends with the supervisor, or with the controller.
async fn report_orders(controller: Controller, mut orders: mpsc::Receiver<Order>, mut led: watch::Receiver<bool>) {
    let mut report = Report { order: 0, leads: false, is_paused: true };
    loop {
        report.leads = *led.borrow_and_update();
        say::out(report);
        tokio::select! {
            order = orders.recv() => {
                let Some(Order { number, instruction }) = order else { return };
                report.order = number;
                match instruction {
                    Instruction::Pause { problem } => {
                        controller.pause_dispatch(problem);
                        report.is_paused = true;
                    }
                    Instruction::WorkerGone { node, nothing_outstanding } => {
                        controller.local_worker_gone(LocalWorker { node, nothing_outstanding });
                        report.is_paused = false;
                    }
                }
            }
            changed = led.changed() => if changed.is_err() { return },
        }
    }
}

/// For a worker: asks it to drain when the supervisor is gone, and to stop running leases after `limit`.
pub fn worker_orphaned(tasks: &Tasks, limit: Duration) -> mpsc::Receiver<()> {
    let (orphaned, gone) = mpsc::channel(1);
    tasks.start_finite("supervisor-input", async move {
        let mut lines = BufReader::new(stdin()).lines();
        while let Ok(Some(_)) = lines.next_line().await {}
        tracing::warn!("the supervisor is gone");
        let _ = orphaned.send(()).await;
        tokio::time::sleep(limit).await;
        let _ = orphaned.send(()).await;
    });
    gone
}
