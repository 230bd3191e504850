//! The fan-out as the first design of Grid's subjects had it: streams on disk, and a durable pull consumer for every worker.
//!
//! Streams are as JetStream makes them: on disk, one replica, synced every two minutes. So even this baseline promises less than Grid.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, stream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use super::core::{COMMAND, RESULT};
use super::server::connect;
use crate::args::SwarmArgs;

const COMMANDS: &str = "bench-commands";
const RESULTS: &str = "bench-results";
const COMMAND_SUBJECT: &str = "bench.durable.command";
const MAX_AGE: Duration = Duration::from_secs(3600);
/// Consumers that are created at once.
const AT_ONCE: usize = 64;

pub struct Leader {
    jetstream: jetstream::Context,
    results: pull::Stream,
}

impl Leader {
    pub async fn new(url: &str) -> anyhow::Result<Self> {
        let jetstream = jetstream::new(connect(url).await?);
        for (name, subject) in [(COMMANDS, COMMAND_SUBJECT), (RESULTS, "bench.durable.result.*")] {
            let config = stream::Config {
                name: name.to_owned(),
                subjects: vec![subject.to_owned()],
                max_age: MAX_AGE,
                ..stream::Config::default()
            };
            jetstream.create_stream(config).await.with_context(|| format!("cannot create the stream {name}"))?;
        }
        let consumer = consumer(&jetstream, RESULTS, "leader".to_owned()).await?;
        Ok(Self { results: consumer.messages().await?, jetstream })
    }

    pub async fn round(&mut self, workers: u32) -> anyhow::Result<()> {
        self.jetstream.publish(COMMAND_SUBJECT, COMMAND.as_slice().into()).await?.await?;
        for _ in 0..workers {
            let result = self.results.next().await.ok_or_else(|| anyhow!("the consumer has ended"))??;
            result.ack().await.map_err(|error| anyhow!("cannot acknowledge a result: {error}"))?;
        }
        Ok(())
    }
}

/// Several workers per connection, a consumer each.
pub async fn workers(url: &str, args: &SwarmArgs, ready: impl Fn() + Clone + Send + 'static) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let numbers: Vec<u32> = (args.first..args.first + args.sessions).collect();
    for some in numbers.chunks(usize::try_from(args.per_connection)?.max(1)) {
        let jetstream = jetstream::new(connect(url).await?);
        for number in some {
            tasks.spawn(work(jetstream.clone(), *number, Arc::clone(&turns), ready.clone()));
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn work(
    jetstream: jetstream::Context,
    number: u32,
    turns: Arc<Semaphore>,
    ready: impl Fn() + Send,
) -> anyhow::Result<()> {
    let turn = turns.acquire_owned().await?;
    let consumer = consumer(&jetstream, COMMANDS, format!("worker-{number}")).await?;
    let mut commands = consumer.messages().await?;
    drop(turn);
    ready();
    let subject = format!("bench.durable.result.{number}");
    while let Some(command) = commands.next().await {
        let command = command?;
        jetstream.publish(subject.clone(), RESULT.as_slice().into()).await?.await?;
        command.ack().await.map_err(|error| anyhow!("cannot acknowledge a command: {error}"))?;
    }
    Err(anyhow!("the consumer has ended"))
}

async fn consumer(jetstream: &jetstream::Context, stream: &str, name: String) -> anyhow::Result<PullConsumer> {
    let config = pull::Config {
        durable_name: Some(name),
        ack_policy: AckPolicy::Explicit,
        deliver_policy: DeliverPolicy::New,
        // A fan-out is more than the default of 1,000 lets through to the leader at once.
        max_ack_pending: -1,
        ..pull::Config::default()
    };
    jetstream.create_consumer_on_stream(config, stream).await.context("cannot create a consumer")
}
