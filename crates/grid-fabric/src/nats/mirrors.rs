//! Copies jobs, nodes, controllers and the cluster's status into buckets, for readers that know NATS and not Grid (N7).
//!
//! ```text
//!   term won --> read which keys each bucket has --> write what is there, remove strays --> changes, in rounds, until the term ends
//!                        \-- an entry of a higher epoch --> stop: another leader writes
//! ```
//!
//! Every value has the leader epoch and the log index that it shows, and is written by compare-and-set on its revision: of two
//! controllers that both believe to lead, the one with the lower epoch loses, notices the other's entry and stops.
//! Rounds bound what a busy cluster costs: a job is written at most once a second, however often it changes. `last_seen` of a node is refreshed
//! once a minute.
//! Nothing is ever read back into the state. Whatever fails here delays copies, and nothing else.

mod bucket;
mod fit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use grid_types::LeaderEpoch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::bucket::Bucket;
use super::client::Client;
use crate::mirrored::{Changed, Collection, Mirrored};

/// Between two rounds, so that no key is written more often.
const ROUND: Duration = Duration::from_secs(1);
/// Keys of one bucket in a round; the others wait for the next.
const MOST: usize = 512;
/// What no entry of the log changes: when nodes were last heard, and whether controllers answer.
const REFRESH: Duration = Duration::from_secs(60);
/// Entries of jobs expire after a day; those of jobs that run for longer are written again.
const REWRITE: Duration = Duration::from_secs(6 * 3600);

/// Why mirroring stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// It may pass: mirroring begins again.
    #[error("JetStream: {0}")]
    Unavailable(String),
    /// Another controller leads, or the account belongs to another cluster.
    #[error(
        "the bucket `{bucket}` has an entry of leader epoch {found}, higher than this leader's {ours}: another controller leads, or \
         another Grid cluster uses this NATS account"
    )]
    HigherEpoch { bucket: &'static str, found: LeaderEpoch, ours: LeaderEpoch },
}

/// Runs until it fails; the caller drops it when the term ends.
pub async fn mirror<M: Mirrored>(client: &Client, replicas: usize, source: Arc<M>) -> Result<(), MirrorError> {
    let Some(epoch) = source.epoch() else { return Ok(()) };
    let jetstream = async_nats::jetstream::new(client.nats().clone());
    let mut mirrors = Mirrors { source, buckets: BTreeMap::new(), waiting: BTreeMap::new() };
    for collection in Collection::ALL {
        let bucket = Bucket::open(&jetstream, collection, epoch, replicas).await?;
        mirrors.waiting.insert(collection, bucket.unfinished());
        mirrors.buckets.insert(collection, bucket);
    }
    let mut refresh = interval(REFRESH);
    let mut rewrite = interval(REWRITE);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let begun = Instant::now();
        mirrors.round().await?;
        if mirrors.is_done() {
            tokio::select! {
                changed = mirrors.source.changed() => mirrors.note(changed).await?,
                _ = refresh.tick() => mirrors.note_whole(&[Collection::Nodes, Collection::Controllers, Collection::Cluster]).await?,
                _ = rewrite.tick() => mirrors.note_whole(&[Collection::Jobs]).await?,
            }
        }
        sleep_until(begun + ROUND).await;
    }
}

struct Mirrors<M> {
    source: Arc<M>,
    buckets: BTreeMap<Collection, Bucket>,
    /// Keys that are to be written or removed.
    waiting: BTreeMap<Collection, BTreeSet<String>>,
}

impl<M: Mirrored> Mirrors<M> {
    fn is_done(&self) -> bool {
        self.waiting.values().all(BTreeSet::is_empty)
    }

    async fn note(&mut self, changed: Changed) -> Result<(), MirrorError> {
        // Its counts change with everything else.
        self.waiting.entry(Collection::Cluster).or_default().insert(STATUS.to_owned());
        self.waiting.entry(Collection::Jobs).or_default().extend(changed.jobs);
        self.waiting.entry(Collection::Nodes).or_default().extend(changed.nodes);
        self.note_whole(&changed.whole.into_iter().collect::<Vec<_>>()).await
    }

    /// Everything that is there, and everything that the bucket has: what is not there any more is removed.
    async fn note_whole(&mut self, collections: &[Collection]) -> Result<(), MirrorError> {
        for collection in collections {
            let keys = self.source.keys(*collection).await.map_err(MirrorError::Unavailable)?;
            let waiting = self.waiting.entry(*collection).or_default();
            waiting.extend(keys);
            waiting.extend(self.buckets.get(collection).map(Bucket::unfinished).unwrap_or_default());
        }
        Ok(())
    }

    async fn round(&mut self) -> Result<(), MirrorError> {
        for (collection, waiting) in &mut self.waiting {
            let Some(bucket) = self.buckets.get_mut(collection) else { continue };
            let now: Vec<String> = waiting.iter().take(MOST).cloned().collect();
            for key in &now {
                let shown = self.source.show(*collection, key).await.map_err(MirrorError::Unavailable)?;
                match shown {
                    Some(shown) => bucket.write(key, shown).await?,
                    None => bucket.remove(key).await?,
                }
                waiting.remove(key);
            }
            bucket.settle().await?;
        }
        Ok(())
    }
}

/// The only key of [`Collection::Cluster`].
pub const STATUS: &str = "status";

#[cfg(test)]
mod tests;
