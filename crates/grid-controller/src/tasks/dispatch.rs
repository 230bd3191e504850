//! Brings what was applied to the leader, and wakes sessions whose messages have waited long enough.
//!
//! Everything that is queued goes to the leader at once. The queue merges, so `apply` never waits for it. Answers and forgets alone
//! wait for what comes next, a moment if nothing does, [`LONGEST_WAIT`] at most.

use std::sync::Arc;
use std::time::Duration;

use grid_fabric::Outbox;
use tokio::time::Instant;

use crate::log::Mailbox;
use crate::shared::Shared;

/// A pause of this length ends the wait of answers and forgets.
const QUIET: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Runs until the member ends.
pub async fn dispatch(shared: Arc<Shared>, mailbox: Arc<Mailbox>) {
    let mut patient = Patient::default();
    let mut leadership = shared.tenure.leadership.clone();
    loop {
        let batch = tokio::select! {
            batch = mailbox.take() => batch,
            () = patient.waited() => {
                patient.hurry();
                continue;
            }
            // Never true: it ends with the member.
            _ = leadership.wait_for(|_| false) => return,
        };
        let _span = tracing::debug_span!("applied", term = batch.term, effects = batch.effects.len()).entered();
        let to_do = shared.lead(|leader, now| leader.on_applied(now, batch));
        debug_assert!(to_do.proposals.is_empty(), "what is applied leads to messages only");
        patient.extend(to_do.with_next);
    }
}

/// Sessions with something that may wait.
#[derive(Default)]
struct Patient {
    outboxes: Vec<Outbox>,
    /// When the first of them began to wait, and the last.
    since: Option<(Instant, Instant)>,
}

impl Patient {
    fn extend(&mut self, outboxes: Vec<Outbox>) {
        if !outboxes.is_empty() {
            let now = Instant::now();
            self.since = Some((self.since.map_or(now, |(first, _)| first), now));
            self.outboxes.extend(outboxes);
        }
    }

    /// Never if nobody waits.
    async fn waited(&self) {
        match self.since {
            Some((first, last)) => tokio::time::sleep_until((first + LONGEST_WAIT).min(last + QUIET)).await,
            None => std::future::pending().await,
        }
    }

    fn hurry(&mut self) {
        self.outboxes.drain(..).for_each(|outbox| outbox.hurry());
        self.since = None;
    }
}
