//! Receives the broadcasts for a worker's session (N2): those for every node and for its groups.
//!
//! A worker whose ordinal no registration has confirmed subscribes to nothing. What is not meant for this session ends here.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use async_nats::{Message, Subscriber};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::{Foreign, v1};
use grid_types::limits::MAX_GROUPS;
use grid_types::{Name, NodeOrd, SessionId};
use tokio_stream::Stream;

use super::client::{Client, PublishError};
use super::command::{self, Listener};
use super::subjects::{self, Scope};

/// A registration that the leader has confirmed.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    listener: Listener,
    groups: Vec<Name>,
}

impl Registered {
    /// The reply to a registration of a worker in these groups.
    pub(super) fn new(reply: &v1::RegisterNodeReply, groups: &[String]) -> Self {
        let (session, leader_epoch) = (SessionId(reply.session), reply.leader_epoch);
        let cluster_id = reply.cluster_id.clone();
        let listener = Listener { cluster_id, node: NodeOrd(reply.ordinal), session, leader_epoch };
        let groups = groups.iter().take(MAX_GROUPS).filter_map(|group| group.parse().ok()).collect();
        Self { listener, groups }
    }

    pub(super) fn is_of(&self, session: SessionId) -> bool {
        self.listener.session == session && self.listener.node != NodeOrd::default()
    }
}

/// The subscriptions of one session.
pub(super) struct Hearing {
    listener: Option<Listener>,
    commands: Vec<Subscriber>,
}

impl Hearing {
    /// `None`: there is no confirmed ordinal, and nothing is heard.
    pub(super) async fn start(client: &Client, registered: Option<Registered>) -> Result<Self, PublishError> {
        let Some(Registered { listener, groups }) = registered else {
            return Ok(Self { listener: None, commands: Vec::new() });
        };
        let mut commands = Vec::with_capacity(1 + groups.len());
        for scope in std::iter::once(Scope::All).chain(groups.into_iter().map(Scope::Group)) {
            commands.push(client.subscribe(scope.wildcard()).await?);
        }
        Ok(Self { listener: Some(listener), commands })
    }

    /// The next offer of a broadcast that is meant for this session. `None`: the connection has ended.
    pub(super) async fn next(&mut self) -> Option<v1::ToWorker> {
        loop {
            let message = self.message().await?;
            let Some(listener) = &self.listener else { continue };
            // The session itself handles the announcement of a leader.
            if message.subject.as_str() == subjects::LEADER {
                continue;
            }
            match command::decode(&message.subject, &message.payload) {
                Ok(command) => {
                    if let Some(offer) = command.message_for(listener) {
                        return Some(offer);
                    }
                }
                Err(why) => {
                    refuse(
                        Port::Nats,
                        Kind::Malformed,
                        format_args!("a command on {}: {why}", Foreign(&message.subject)),
                    );
                }
            }
        }
    }

    async fn message(&mut self) -> Option<Message> {
        poll_fn(|cx| {
            for commands in &mut self.commands {
                if let Poll::Ready(message) = Pin::new(commands).poll_next(cx) {
                    return Poll::Ready(message);
                }
            }
            Poll::Pending
        })
        .await
    }
}
