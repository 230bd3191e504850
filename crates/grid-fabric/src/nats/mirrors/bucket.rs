//! One bucket: which keys it has, writes by compare-and-set, removal.
//!
//! A key-value bucket is a stream whose messages are values. They are published here and not by the key-value client, because their
//! headers carry epoch and index: so a new leader reads which keys a bucket has without reading a value.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy, pull};
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::kv::{self, Store};
use async_nats::jetstream::stream::{DiscardPolicy, LastRawMessageErrorKind, StorageType};
use bytes::Bytes;
use grid_types::LeaderEpoch;
use serde_json::{Value, json};
use tokio_stream::StreamExt;

use super::MirrorError;
use super::fit::{MAX_VALUE_BYTES, fit};
use crate::mirrored::{Collection, Shown};

const EPOCH: &str = "Grid-Epoch";
const INDEX: &str = "Grid-Index";
/// The job has ended.
const FINAL: &str = "Grid-Final";
const OPERATION: &str = "KV-Operation";
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Writes whose answers are outstanding.
const TOGETHER: usize = 64;
/// How often another writer may be quicker.
const ATTEMPTS: usize = 4;
const DAY: Duration = Duration::from_secs(24 * 3600);
const MIB: i64 = 1024 * 1024;

pub struct Bucket {
    name: &'static str,
    epoch: LeaderEpoch,
    jetstream: Context,
    store: Store,
    /// The revision of each key that may change again.
    revisions: BTreeMap<String, u64>,
    outstanding: Vec<Outstanding>,
}

struct Outstanding {
    key: String,
    value: Written,
    ack: PublishAckFuture,
}

/// What is written under a key.
#[derive(Clone)]
struct Written {
    text: Bytes,
    index: u64,
    is_final: bool,
}

/// An entry, without its value.
struct Entry {
    key: String,
    revision: u64,
    epoch: LeaderEpoch,
    is_final: bool,
    is_removed: bool,
}

impl Bucket {
    /// Creates it if it is missing, and reads its keys.
    pub async fn open(
        jetstream: &Context,
        collection: Collection,
        epoch: LeaderEpoch,
        replicas: usize,
    ) -> Result<Self, MirrorError> {
        let config = config(collection, replicas);
        let name = name(collection);
        let store = match jetstream.get_key_value(name).await {
            Ok(store) => store,
            Err(_) => jetstream.create_key_value(config).await.map_err(unavailable)?,
        };
        correct(jetstream, &store, replicas).await?;
        let mut bucket = Self {
            name,
            epoch,
            jetstream: jetstream.clone(),
            store,
            revisions: BTreeMap::new(),
            outstanding: Vec::new(),
        };
        for entry in bucket.entries().await? {
            bucket.check(entry.epoch)?;
            // What has ended in an earlier term of this generation stays as it is; a restored cluster may not know it.
            let stays = entry.is_removed || (entry.is_final && entry.epoch.generation == epoch.generation);
            if !stays {
                bucket.revisions.insert(entry.key, entry.revision);
            }
        }
        Ok(bucket)
    }

    /// Keys that the bucket has and that may change again.
    pub fn unfinished(&self) -> BTreeSet<String> {
        self.revisions.keys().cloned().collect()
    }

    /// The answer may be outstanding when this returns; see [`Self::settle`].
    pub async fn write(&mut self, key: &str, shown: Shown) -> Result<(), MirrorError> {
        let Shown { mut document, index, is_final } = shown;
        if let Value::Object(fields) = &mut document {
            fields.insert("mirror".to_owned(), json!({"leader_epoch": self.epoch.wire(), "index": index}));
        }
        let value = Written { text: Bytes::from(fit(document)), index, is_final };
        let revision = self.revisions.get(key).copied().unwrap_or(0);
        let ack = self.publish(key, &value, revision).await?;
        self.outstanding.push(Outstanding { key: key.to_owned(), value, ack });
        if self.outstanding.len() >= TOGETHER { self.settle().await } else { Ok(()) }
    }

    /// Awaits the answers to all writes.
    pub async fn settle(&mut self) -> Result<(), MirrorError> {
        for Outstanding { key, value, ack } in std::mem::take(&mut self.outstanding) {
            let mut ack = ack;
            let mut attempts = 1;
            let revision = loop {
                match ack.await {
                    Ok(acked) => break acked.sequence,
                    Err(error) if error.kind() == PublishErrorKind::WrongLastSequence && attempts < ATTEMPTS => {}
                    Err(error) => return Err(unavailable(error)),
                }
                attempts += 1;
                let revision = self.newest(&key).await?;
                ack = self.publish(&key, &value, revision).await?;
            };
            if value.is_final {
                self.revisions.remove(&key);
            } else {
                self.revisions.insert(key, revision);
            }
        }
        Ok(())
    }

    /// Leaves a mark that the key was removed, as key-value clients do.
    pub async fn remove(&mut self, key: &str) -> Result<(), MirrorError> {
        let Some(revision) = self.revisions.remove(key) else { return Ok(()) };
        if let Err(error) = self.store.purge_expect_revision(key, Some(revision)).await {
            tracing::debug!(bucket = self.name, key, "a stray is removed later: {error}");
            let revision = self.newest(key).await?;
            self.revisions.insert(key.to_owned(), revision);
        }
        Ok(())
    }

    async fn publish(&self, key: &str, value: &Written, revision: u64) -> Result<PublishAckFuture, MirrorError> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, revision.to_string());
        headers.insert(EPOCH, self.epoch.wire().to_string());
        headers.insert(INDEX, value.index.to_string());
        if value.is_final {
            headers.insert(FINAL, "1");
        }
        let published = self.jetstream.publish_with_headers(self.subject(key), headers, value.text.clone()).await;
        published.map_err(unavailable)
    }

    /// The revision of a key that somebody else has written; 0: it has none.
    async fn newest(&self, key: &str) -> Result<u64, MirrorError> {
        match self.store.stream.get_last_raw_message_by_subject(&self.subject(key)).await {
            Ok(message) => {
                self.check(epoch_of(&message.headers))?;
                Ok(message.sequence)
            }
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(0),
            Err(error) => Err(unavailable(error)),
        }
    }

    fn check(&self, found: LeaderEpoch) -> Result<(), MirrorError> {
        if found > self.epoch {
            return Err(MirrorError::HigherEpoch { bucket: self.name, found, ours: self.epoch });
        }
        Ok(())
    }

    fn subject(&self, key: &str) -> String {
        format!("{}{key}", self.store.prefix)
    }

    /// The newest entry of each key, without its value.
    async fn entries(&self) -> Result<Vec<Entry>, MirrorError> {
        let ordered = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::LastPerSubject,
            headers_only: true,
            filter_subject: self.subject(">"),
            ..pull::OrderedConfig::default()
        };
        let consumer = self.store.stream.create_consumer(ordered).await.map_err(unavailable)?;
        let name = consumer.cached_info().name.clone();
        let listed = listed(consumer, &self.store.prefix).await;
        // N8: it would stay for minutes.
        if let Err(error) = self.store.stream.delete_consumer(&name).await {
            tracing::debug!("the consumer that listed the bucket `{}` stays until it expires: {error}", self.name);
        }
        listed
    }
}

/// The newest entry of every key.
async fn listed(consumer: Consumer<pull::OrderedConfig>, prefix: &str) -> Result<Vec<Entry>, MirrorError> {
    let mut entries = Vec::new();
    if consumer.cached_info().num_pending == 0 {
        return Ok(entries);
    }
    let mut messages = consumer.messages().await.map_err(unavailable)?;
    loop {
        let next = tokio::time::timeout(ANSWER_LIMIT, messages.next()).await.map_err(unavailable)?;
        let Some(message) = next else { return Ok(entries) };
        let message = message.map_err(unavailable)?;
        let info = message.info().map_err(unavailable)?;
        let (revision, is_last) = (info.stream_sequence, info.pending == 0);
        let headers = message.headers.clone().unwrap_or_default();
        if let Some(key) = message.subject.strip_prefix(prefix) {
            entries.push(Entry {
                key: key.to_owned(),
                revision,
                epoch: epoch_of(&headers),
                is_final: headers.get(FINAL).is_some(),
                is_removed: headers.get(OPERATION).is_some(),
            });
        }
        if is_last {
            return Ok(entries);
        }
    }
}

fn name(collection: Collection) -> &'static str {
    match collection {
        Collection::Jobs => "jobs",
        Collection::Nodes => "nodes",
        Collection::Controllers => "controllers",
        Collection::Cluster => "cluster",
    }
}

fn config(collection: Collection, replicas: usize) -> kv::Config {
    let (max_age, max_bytes, description) = match collection {
        Collection::Jobs => (DAY, 256 * MIB, "jobs of the last day, as GET /job/{id} shows them; read only"),
        Collection::Nodes => (Duration::ZERO, 128 * MIB, "nodes, as GET /nodes shows them; read only"),
        Collection::Controllers => (Duration::ZERO, MIB, "controllers, as GET /controllers shows them; read only"),
        Collection::Cluster => (Duration::ZERO, MIB, "the key `status`, as GET /status shows it; read only"),
    };
    kv::Config {
        bucket: name(collection).to_owned(),
        description: description.to_owned(),
        // Headers count, too.
        max_value_size: i32::try_from(MAX_VALUE_BYTES + 1024).unwrap_or(i32::MAX),
        history: 1,
        max_age,
        max_bytes,
        storage: StorageType::File,
        num_replicas: replicas,
        ..kv::Config::default()
    }
}

/// A full bucket loses its oldest entries, which are those of jobs that ended long ago, instead of refusing new ones. Replicas only become more:
/// an operator may have raised them.
async fn correct(jetstream: &Context, store: &Store, replicas: usize) -> Result<(), MirrorError> {
    let found = &store.stream.cached_info().config;
    let mut wanted = found.clone();
    wanted.discard = DiscardPolicy::Old;
    wanted.num_replicas = found.num_replicas.max(replicas);
    if wanted == *found {
        return Ok(());
    }
    jetstream.update_stream(wanted).await.map(drop).map_err(unavailable)
}

/// Zero for an entry that Grid did not write.
fn epoch_of(headers: &HeaderMap) -> LeaderEpoch {
    let wire = headers.get(EPOCH).and_then(|epoch| epoch.as_str().parse().ok());
    LeaderEpoch::from_wire(wire.unwrap_or(0))
}

fn unavailable(error: impl std::fmt::Display) -> MirrorError {
    MirrorError::Unavailable(error.to_string())
}
