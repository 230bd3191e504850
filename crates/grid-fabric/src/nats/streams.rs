//! Creates the streams of the fabric, and corrects their settings where JetStream allows it (N1, N6).
//!
//! | stream | captures | for |
//! |---|---|---|
//! | `commands`, `results` | `cmd.>`, `result.>` | JetStream tools; nothing of Grid reads them |
//! | `requests` | `request.>` | jobs that wait to be submitted; the leader consumes it |
//!
//! `commands` and `results` never acknowledge (N1): JetStream would answer a worker's result before Grid has committed it.
//! `requests` discards new messages when it is full, never old ones, and has the shortest window for duplicates that JetStream allows: a
//! repeated request must reach the leader, which answers it (N6).
//! Limits of size and age that an operator changed stay as they are; what a promise depends on is corrected. What JetStream cannot change
//! is refused, with the way out: Grid never deletes a stream by itself.

use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ErrorCode};

use super::subjects;

pub const COMMANDS: &str = "commands";
pub const RESULTS: &str = "results";
pub const REQUESTS: &str = "requests";

const MIB: i64 = 1024 * 1024;
const KEPT: Duration = Duration::from_secs(3600);
/// The shortest that JetStream accepts.
const SHORTEST_WINDOW: Duration = Duration::from_millis(100);
/// What workers and the leader say in their sessions. A stream that captured it would answer in the leader's place (N4).
const SESSIONS: &str = "node.>";

/// Why the streams are not as Grid needs them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamsError {
    /// It may pass by itself.
    #[error("JetStream: {0}")]
    Unavailable(String),
    /// An operator has to act.
    #[error("{0}")]
    Unusable(String),
}

/// Creates what is missing and corrects what is different.
pub async fn ensure(jetstream: &Context, replicas: usize) -> Result<(), StreamsError> {
    for wanted in wanted(replicas) {
        ensure_one(jetstream, wanted).await?;
    }
    refuse_capture_of_sessions(jetstream).await
}

fn wanted(replicas: usize) -> [Config; 3] {
    let limits = |name: &str, subject: &str, max_bytes: i64| Config {
        name: name.to_owned(),
        subjects: vec![subject.to_owned()],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        max_age: KEPT,
        max_bytes,
        no_ack: true,
        num_replicas: replicas,
        storage: StorageType::File,
        ..Config::default()
    };
    let requests = Config {
        name: REQUESTS.to_owned(),
        subjects: vec![subjects::REQUESTS.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        max_bytes: 64 * MIB,
        duplicate_window: SHORTEST_WINDOW,
        num_replicas: replicas,
        storage: StorageType::File,
        ..Config::default()
    };
    [
        limits(COMMANDS, subjects::STREAM_COMMANDS, 64 * MIB),
        limits(RESULTS, subjects::STREAM_RESULTS, 256 * MIB),
        requests,
    ]
}

async fn ensure_one(jetstream: &Context, wanted: Config) -> Result<(), StreamsError> {
    let name = wanted.name.clone();
    let found = match jetstream.get_stream(&name).await {
        Ok(stream) => stream.cached_info().config.clone(),
        Err(error) if is_missing(&error.kind()) => return create(jetstream, wanted).await,
        Err(error) => return Err(StreamsError::Unavailable(format!("stream `{name}`: {error}"))),
    };
    if let Some(problem) = fixed_difference(&found, &wanted) {
        let problem = format!(
            "the JetStream stream `{name}` {problem}, which cannot be changed; if nothing else uses it, delete it \
             (`nats stream rm {name}`) and Grid creates it again"
        );
        return Err(StreamsError::Unusable(problem));
    }
    let corrected = corrected(&found, &wanted);
    if corrected == found {
        return Ok(());
    }
    tracing::warn!(stream = name, "the settings of a JetStream stream are corrected");
    let updated = jetstream.update_stream(&corrected).await;
    let refused = |error| {
        StreamsError::Unusable(format!(
            "the JetStream stream `{name}` has other settings than Grid needs, and they cannot be corrected: {error}; \
             change it with `nats stream edit {name}`, or delete it"
        ))
    };
    updated.map(drop).map_err(refused)
}

async fn create(jetstream: &Context, wanted: Config) -> Result<(), StreamsError> {
    let name = wanted.name.clone();
    match jetstream.create_stream(wanted).await {
        Ok(_) => {
            tracing::info!(stream = name, "created a JetStream stream");
            Ok(())
        }
        Err(error) => Err(match error.kind() {
            CreateStreamErrorKind::JetStream(refused) if refused.error_code() == ErrorCode::STREAM_SUBJECT_OVERLAP => {
                StreamsError::Unusable(format!(
                    "another JetStream stream captures subjects of the stream `{name}`; give each Grid cluster a NATS \
                     account of its own, or delete the other stream"
                ))
            }
            _ => StreamsError::Unavailable(format!("cannot create the stream `{name}`: {error}")),
        }),
    }
}

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// What makes a stream unusable and cannot be changed.
fn fixed_difference(found: &Config, wanted: &Config) -> Option<&'static str> {
    let is_queue = |config: &Config| config.retention == RetentionPolicy::WorkQueue;
    if is_queue(found) != is_queue(wanted) {
        return Some(if is_queue(wanted) { "is no work queue" } else { "is a work queue" });
    }
    if is_queue(wanted) && found.storage != StorageType::File {
        return Some("keeps requests in memory only");
    }
    if found.sealed || found.mirror.is_some() {
        return Some("is sealed or a mirror of another one");
    }
    None
}

/// What Grid depends on as it must be, everything else as it is.
fn corrected(found: &Config, wanted: &Config) -> Config {
    let mut config = found.clone();
    config.subjects.clone_from(&wanted.subjects);
    config.retention = wanted.retention;
    config.discard = wanted.discard;
    config.no_ack = wanted.no_ack;
    // An operator may have raised it.
    config.num_replicas = found.num_replicas.max(wanted.num_replicas);
    config.subject_transform = None;
    config.discard_new_per_subject = false;
    if wanted.retention == RetentionPolicy::WorkQueue {
        config.duplicate_window = wanted.duplicate_window;
        config.max_age = Duration::ZERO;
        return config;
    }
    // Without any limit a stream fills the disk.
    if found.max_age.is_zero() {
        config.max_age = wanted.max_age;
    }
    if found.max_bytes <= 0 {
        config.max_bytes = wanted.max_bytes;
    }
    config
}

async fn refuse_capture_of_sessions(jetstream: &Context) -> Result<(), StreamsError> {
    match jetstream.stream_by_subject(SESSIONS).await {
        Ok(name) => Err(StreamsError::Unusable(format!(
            "the JetStream stream `{name}` captures `{SESSIONS}`, the sessions of workers, and would answer in the leader's \
             place; delete it or change its subjects"
        ))),
        // Nothing captures them.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
#[path = "streams/tests.rs"]
mod tests;
