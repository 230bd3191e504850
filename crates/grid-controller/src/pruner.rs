//! Keeps history from growing for ever: what ended long ago is forgotten, in small commands (L6).
//!
//! Soon after a term begins and about once an hour, the leader proposes what is due until nothing is. What a command
//! leaves to be removed on disk goes with the batches after it; if nobody else writes, empty commands bring them about.
//! Not here: which jobs are due (`grid-plan`), what goes (`grid-core`, `grid-store`).

use std::sync::Arc;
use std::time::Duration;

use grid_core::{Command, PruneHistory};
use grid_plan::old_history;
use tracing::{debug, info};

use crate::shared::Shared;

const SELDOM: Duration = Duration::from_secs(3_600);
const OFTEN: Duration = Duration::from_secs(1);
/// Between two commands, so that they never crowd out what people wait for.
const BREATH: Duration = Duration::from_millis(20);

pub async fn prune(shared: Arc<Shared>) {
    // A history of a day or less is looked through more often.
    let pause = Duration::from_millis(shared.settings.history_ms / 24).clamp(OFTEN, SELDOM);
    let mut term = shared.term.clone();
    loop {
        if term.wait_for(Option::is_some).await.is_err() {
            return;
        }
        // A new leader has more urgent things to do first.
        tokio::time::sleep(OFTEN).await;
        let forgotten = forget_what_is_due(&shared).await;
        if forgotten > 0 {
            info!(jobs = forgotten, "old history was removed");
        }
        tokio::time::sleep(pause).await;
    }
}

async fn forget_what_is_due(shared: &Shared) -> usize {
    let mut forgotten = 0;
    loop {
        let Some(term) = shared.current_term() else { return forgotten };
        let due = old_history(&shared.state(), term.now_ms(), shared.settings.history_ms);
        let next = match due {
            Some(due) => due,
            None if unswept(shared).await => PruneHistory { ended_before_ms: 0, jobs: Vec::new() },
            None => return forgotten,
        };
        let jobs = next.jobs.len();
        if let Err(no_reply) = shared.proposer.propose(&Command::PruneHistory(next)).await {
            debug!("history is not pruned now: {no_reply}");
            return forgotten;
        }
        forgotten += jobs;
        tokio::time::sleep(BREATH).await;
    }
}

async fn unswept(shared: &Shared) -> bool {
    let reader = shared.reader.clone();
    let read = tokio::task::spawn_blocking(move || reader.unswept_jobs()).await;
    read.is_ok_and(|jobs| jobs.is_ok_and(|jobs| jobs > 0))
}
