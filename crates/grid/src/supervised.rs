//! The children's side of `grid node`: a process whose stdin is its supervisor.
//!
//! When stdin closes the supervisor is gone, even by kill -9, and its child ends in order: nobody would end it later, and
//! nobody would keep the worker and the controller of a machine apart (E8).
//! Not here: the words (`words`), the other side (`node`).

mod words;

use std::time::Duration;

use grid_controller::{Controller, LocalWorker};
use grid_tasks::Tasks;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::{mpsc, watch};

use crate::say;

pub use words::{Saying, Standing, Word};

/// Words that wait for a controller that is still starting; a supervisor says few.
const WAITING: usize = 64;

/// For a controller: the supervisor's words, and when there will be no more.
pub fn controller_words(tasks: &Tasks) -> (mpsc::Receiver<Word>, mpsc::Receiver<()>) {
    let (words, heard) = mpsc::channel(WAITING);
    let (orphaned, gone) = mpsc::channel(1);
    tasks.start_finite("supervisor-input", async move {
        let mut lines = BufReader::new(stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match line.parse() {
                Ok(word) => {
                    // A controller that does not listen has ended.
                    let _ = words.send(word).await;
                }
                Err(_) => tracing::warn!("a supervisor's word is not understood: {line:?}"),
            }
        }
        tracing::warn!("the supervisor is gone");
        let _ = orphaned.send(()).await;
    });
    (heard, gone)
}

/// Starts the task that does what the supervisor says, and tells it how this controller stands, until it ends.
pub fn obey(tasks: &Tasks, controller: Controller, words: mpsc::Receiver<Word>) {
    let (leading, led) = watch::channel(false);
    let followed = controller.clone();
    tasks.start("supervisor-role", async move {
        let told = |leads| {
            leading.send_replace(leads);
        };
        followed.follow_leading(told).await;
    });
    tasks.start_finite("supervisor-words", answer(controller, words, led));
}

/// Ends with the supervisor, or with the controller.
async fn answer(controller: Controller, mut words: mpsc::Receiver<Word>, mut led: watch::Receiver<bool>) {
    let mut standing = Standing { word: 0, leads: false, is_held: true };
    loop {
        standing.leads = *led.borrow_and_update();
        say::out(standing);
        tokio::select! {
            word = words.recv() => {
                let Some(Word { number, saying }) = word else { return };
                standing.word = number;
                match saying {
                    Saying::Hold { problem } => {
                        controller.pause_dispatch(problem);
                        standing.is_held = true;
                    }
                    Saying::Gone { node, holds_nothing } => {
                        controller.local_worker_gone(LocalWorker { node, holds_nothing });
                        standing.is_held = false;
                    }
                }
            }
            changed = led.changed() => if changed.is_err() { return },
        }
    }
}

/// For a worker: asks it to drain when the supervisor is gone, and to stop what runs after `limit`.
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
