//! Counts SIGTERM and SIGINT: the first asks for an orderly end, the second for a quick one. The loss of the supervisor counts
//! like a signal (`supervised`).

use anyhow::Context;
use grid_tasks::Tasks;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// How often the process was asked to end, by signals and by `others`.
pub fn asked_to_end(tasks: &Tasks, others: Option<mpsc::Receiver<()>>) -> anyhow::Result<watch::Receiver<u32>> {
    let term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let (count, counted) = watch::channel(0);
    tasks.start("signals", count_them(term, int, others, count));
    Ok(counted)
}

async fn count_them(
    mut term: Signal,
    mut int: Signal,
    mut others: Option<mpsc::Receiver<()>>,
    count: watch::Sender<u32>,
) {
    loop {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            () = asked(&mut others) => {}
        }
        count.send_modify(|count| *count += 1);
    }
}

async fn asked(others: &mut Option<mpsc::Receiver<()>>) {
    if let Some(asking) = others {
        match asking.recv().await {
            Some(()) => return,
            None => *others = None,
        }
    }
    std::future::pending::<()>().await;
}

/// Resolves at the first signal.
pub async fn first(mut counted: watch::Receiver<u32>) {
    if counted.wait_for(|count| *count > 0).await.is_err() {
        // The counting task has failed, which ends the process in another way.
        std::future::pending::<()>().await;
    }
}

/// Calls `notify` at every signal.
pub async fn each(mut counted: watch::Receiver<u32>, notify: impl Fn() + Send) {
    let mut seen = 0;
    while counted.wait_for(|count| *count > seen).await.is_ok() {
        seen += 1;
        notify();
    }
}
