//! The bare fan-out over core NATS: one publish, an answer of every worker, a reply to each answer. Nothing is stored or checked.

use anyhow::anyhow;
use async_nats::{Client, Subscriber};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use super::server::connect;
use crate::args::SwarmArgs;

const COMMAND_SUBJECT: &str = "bench.command";
/// As large as a command, a result and an answer of Grid.
pub const COMMAND: [u8; 330] = [b'c'; 330];
pub const RESULT: [u8; 300] = [b'r'; 300];
const REPLY: [u8; 24] = [b'a'; 24];

pub struct Leader {
    client: Client,
    results: Subscriber,
}

impl Leader {
    pub async fn new(url: &str) -> anyhow::Result<Self> {
        let client = connect(url).await?;
        let results = client.subscribe("bench.result.*").await?;
        client.flush().await?;
        Ok(Self { client, results })
    }

    pub async fn round(&mut self, workers: u32) -> anyhow::Result<()> {
        self.client.publish(COMMAND_SUBJECT, COMMAND.as_slice().into()).await?;
        for _ in 0..workers {
            let result = self.results.next().await.ok_or_else(|| anyhow!("the connection has ended"))?;
            if let Some(reply) = result.reply {
                // The client writes what has gathered in one go.
                self.client.publish(reply, REPLY.as_slice().into()).await?;
            }
        }
        self.client.flush().await?;
        Ok(())
    }
}

/// Several workers per connection, each with the subscriptions of a worker.
pub async fn workers(url: &str, args: &SwarmArgs, ready: impl Fn() + Clone + Send + 'static) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    let numbers: Vec<u32> = (args.first..args.first + args.sessions).collect();
    for some in numbers.chunks(usize::try_from(args.per_connection)?.max(1)) {
        let client = connect(url).await?;
        for number in some {
            let commands = client.subscribe(COMMAND_SUBJECT).await?;
            let replies = client.subscribe(format!("bench.reply.{number}")).await?;
            tasks.spawn(work(client.clone(), *number, commands, replies));
        }
        registered(&client).await?;
        some.iter().for_each(|_| ready());
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn work(client: Client, number: u32, mut commands: Subscriber, mut replies: Subscriber) -> anyhow::Result<()> {
    let (result, reply) = (format!("bench.result.{number}"), format!("bench.reply.{number}"));
    loop {
        tokio::select! {
            command = commands.next() => {
                command.ok_or_else(|| anyhow!("the connection has ended"))?;
                client.publish_with_reply(result.clone(), reply.clone(), RESULT.as_slice().into()).await?;
            }
            reply = replies.next() => drop(reply.ok_or_else(|| anyhow!("the connection has ended"))?),
        }
    }
}

/// A flush does not prove that the server has the subscriptions; a message to oneself behind them does.
async fn registered(client: &Client) -> anyhow::Result<()> {
    let own = client.new_inbox();
    let mut back = client.subscribe(own.clone()).await?;
    client.publish(own, Vec::new().into()).await?;
    back.next().await.map(drop).ok_or_else(|| anyhow!("the connection has ended"))
}
