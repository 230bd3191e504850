//! Connects to NATS, reports whether the connection is up, and publishes only while it is.
//!
//! ```text
//!   connect --> connecting --> connected <--> disconnected: what would be published is dropped (N5)
//! ```
//!
//! The connection is made in the background and for ever: a controller serves its API, and a worker runs what it has, while no
//! nats-server answers. A message that waits behind a broken connection would arrive late and out of its session, so nothing waits:
//! [`Client::publish`] fails at once.
//! A forbidden publish or subscription looks successful to the client; the server reports it as an event, which is logged here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::subject::ToSubject;
use async_nats::{ConnectOptions, Event, HeaderMap, Message, Request, ServerError, Subscriber};
use bytes::Bytes;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_types::NodeId;
use tokio::sync::watch;

/// Messages that wait for one subscription; beyond it they are lost. The default of 1,024 lost 420 of 5,000 results.
const SUBSCRIPTION_CAPACITY: usize = 262_144;
/// A server that answers no ping is given up after three of these.
const PING_INTERVAL: Duration = Duration::from_secs(3);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a subscription may wait for the connection's queue.
const SUBSCRIBE_LIMIT: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// How to reach NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `nats://host:port` or `tls://host:port`, any of a cluster.
    pub urls: Vec<String>,
    /// Shown in the server's list of connections, and the part of the inbox prefix that is this client's own.
    pub name: String,
    /// A file with an NKey seed, or a `.creds` file.
    pub credentials: Option<PathBuf>,
    /// Certificates that are trusted in addition to the system's.
    pub ca: Option<PathBuf>,
}

impl Settings {
    /// Whether the files can be read; no server is asked.
    pub async fn check(&self) -> Result<(), ConnectError> {
        let options = with_credentials(ConnectOptions::new(), self.credentials.as_deref()).await?;
        with_ca(options, self.ca.as_deref()).await.map(drop)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot read the NATS credentials {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{} has neither an NKey seed nor the content of a .creds file", path.display())]
    NoCredentials { path: PathBuf },
    #[error("cannot read the CA certificates {}: {error}", path.display())]
    NoCa { path: PathBuf, error: std::io::Error },
    #[error("cannot connect to NATS at {urls}: {error}")]
    Refused { urls: String, error: async_nats::ConnectError },
}

/// Why a message was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("the connection to NATS is down")]
    Disconnected,
    #[error("a message of {bytes} bytes is larger than max_payload of the nats-server ({most} bytes)")]
    TooLarge { bytes: usize, most: usize },
    #[error("NATS: {0}")]
    Failed(String),
}

/// Why a request has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    NotSent(#[from] PublishError),
    #[error("nobody listens on {0}")]
    NoResponders(String),
    #[error("no reply on {0} in time")]
    TimedOut(String),
}

/// One connection to NATS; clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    nats: async_nats::Client,
    connected: watch::Receiver<bool>,
    /// How often the connection came up: a short interruption looks like none to who watches `connected` alone.
    ups: watch::Receiver<u64>,
}

impl Client {
    /// Returns at once, whether a server answers or not; [`Client::connected`] tells when one does.
    pub async fn connect(settings: &Settings) -> Result<Self, ConnectError> {
        let ((is_up, connected), (count, ups)) = (watch::channel(false), watch::channel(0));
        let state = Arc::new(Connection { is_up, count });
        let options = with_credentials(ConnectOptions::new(), settings.credentials.as_deref()).await?;
        let options = with_ca(options, settings.ca.as_deref()).await?;
        let nats = options
            .name(&settings.name)
            .custom_inbox_prefix(inbox_prefix(&settings.name))
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .ping_interval(PING_INTERVAL)
            .connection_timeout(CONNECT_LIMIT)
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(retry_after)
            .event_callback(move |event| {
                follow(&state, &event);
                std::future::ready(())
            })
            .connect(&settings.urls)
            .await
            .map_err(|error| ConnectError::Refused { urls: settings.urls.join(","), error })?;
        Ok(Self { nats, connected, ups })
    }

    /// The connection itself, for JetStream and tests.
    #[must_use]
    pub fn nats(&self) -> &async_nats::Client {
        &self.nats
    }

    /// Whether the connection is up, now and at every change.
    #[must_use]
    pub fn connected(&self) -> watch::Receiver<bool> {
        self.connected.clone()
    }

    /// How often the connection has come up; changes with every reconnect.
    #[must_use]
    pub fn ups(&self) -> watch::Receiver<u64> {
        self.ups.clone()
    }

    /// Ahead of the events, which arrive a moment later.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.nats.connection_state() == State::Connected
    }

    /// Payload and headers of the largest message that the server takes. 1 MiB until one has answered.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        match self.nats.max_payload() {
            0 | usize::MAX => 1 << 20,
            most => most,
        }
    }

    /// Messages are split to stay below this (N8).
    #[must_use]
    pub fn split_bytes(&self) -> usize {
        self.max_payload() / 2
    }

    /// Subscribed when this returns, as far as this end is concerned: what is published later on this connection reaches the server
    /// after the subscription.
    pub async fn subscribe(&self, subject: impl ToSubject) -> Result<Subscriber, PublishError> {
        let subscribed = tokio::time::timeout(SUBSCRIBE_LIMIT, self.nats.subscribe(subject)).await;
        subscribed.map_err(|_| PublishError::Disconnected)?.map_err(|error| PublishError::Failed(error.to_string()))
    }

    /// Publishes, or drops the message if the connection is down.
    pub async fn publish(
        &self,
        subject: impl ToSubject,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<(), PublishError> {
        self.fits(payload.len())?;
        let publish = async {
            match headers {
                Some(headers) => self.nats.publish_with_headers(subject, headers, payload).await,
                None => self.nats.publish(subject, payload).await,
            }
        };
        self.while_connected(publish).await?.map_err(|error| PublishError::Failed(error.to_string()))
    }

    /// Publishes, or drops the message as [`Client::publish`] does; a reply goes to `inbox`.
    pub(super) async fn publish_asking(&self, subject: impl ToSubject, inbox: impl ToSubject, payload: Bytes) {
        let publish = self.nats.publish_with_reply(subject, inbox, payload);
        if let Err(why) = self.while_connected(publish).await {
            tracing::debug!("a message was not published: {why}");
        }
    }

    /// Asks, and waits for one reply; fails at once while the connection is down.
    pub async fn request(&self, subject: String, payload: Bytes, limit: Duration) -> Result<Message, RequestError> {
        self.send_request(subject, Request::new().payload(payload).timeout(Some(limit))).await
    }

    /// The same with an inbox for the reply.
    pub async fn request_at(
        &self,
        inbox: String,
        subject: String,
        payload: Bytes,
        limit: Duration,
    ) -> Result<Message, RequestError> {
        self.send_request(subject, Request::new().inbox(inbox).payload(payload).timeout(Some(limit))).await
    }

    /// A new inbox of a node that shares the connection of another one.
    #[must_use]
    pub fn inbox_of(&self, node: &NodeId) -> String {
        let own = self.nats.new_inbox();
        format!("{}.{}", inbox_prefix(node.as_str()), own.rsplit('.').next().unwrap_or_default())
    }

    async fn send_request(&self, subject: String, request: Request) -> Result<Message, RequestError> {
        self.fits(request.payload.as_ref().map_or(0, Bytes::len))?;
        let asked = self.while_connected(self.nats.send_request(subject.clone(), request)).await?;
        asked.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => RequestError::NoResponders(subject),
            RequestErrorKind::TimedOut => RequestError::TimedOut(subject),
            _ => RequestError::NotSent(PublishError::Failed(error.to_string())),
        })
    }

    fn fits(&self, bytes: usize) -> Result<(), PublishError> {
        let most = self.max_payload();
        if bytes > most { Err(PublishError::TooLarge { bytes, most }) } else { Ok(()) }
    }

    /// N5: a queue that nobody empties would keep a message until the next connection.
    async fn while_connected<T>(&self, publish: impl Future<Output = T>) -> Result<T, PublishError> {
        if !self.is_connected() {
            return Err(PublishError::Disconnected);
        }
        let mut connected = self.connected();
        tokio::select! {
            biased;
            published = publish => Ok(published),
            _ = connected.wait_for(|connected| !connected) => Err(PublishError::Disconnected),
        }
    }
}

/// The prefix of a client's inboxes, so that its permissions can name them.
#[must_use]
pub fn inbox_prefix(name: &str) -> String {
    format!("_INBOX.{name}")
}

async fn with_credentials(options: ConnectOptions, path: Option<&Path>) -> Result<ConnectOptions, ConnectError> {
    let Some(path) = path else { return Ok(options) };
    let read = tokio::fs::read_to_string(path).await;
    let text = read.map_err(|error| ConnectError::Unreadable { path: path.to_owned(), error })?;
    let none = || ConnectError::NoCredentials { path: path.to_owned() };
    if text.contains("-----BEGIN") {
        return options.credentials(&text).map_err(|_| none());
    }
    let seed = text.lines().map(str::trim).find(|line| line.starts_with("SU")).ok_or_else(none)?;
    nkeys::KeyPair::from_seed(seed).map_err(|_| none())?;
    Ok(options.nkey(seed.to_owned()))
}

async fn with_ca(options: ConnectOptions, path: Option<&Path>) -> Result<ConnectOptions, ConnectError> {
    let Some(path) = path else { return Ok(options) };
    // Read when it connects, too; a missing file is reported now.
    let read = tokio::fs::metadata(path).await;
    read.map_err(|error| ConnectError::NoCa { path: path.to_owned(), error })?;
    Ok(options.add_root_certificates(path.to_owned()).require_tls(true))
}

fn retry_after(attempts: usize) -> Duration {
    let doubled = 1u64 << attempts.saturating_sub(1).min(6);
    Duration::from_millis(25 * doubled).min(LONGEST_RETRY)
}

/// Where the events of a connection are noted.
struct Connection {
    is_up: watch::Sender<bool>,
    count: watch::Sender<u64>,
}

fn follow(connection: &Connection, event: &Event) {
    let log = |kind| refuse(Port::Nats, kind, format_args!("{event}"));
    match event {
        Event::Connected => {
            tracing::info!("connected to NATS");
            connection.count.send_modify(|count| *count += 1);
            connection.is_up.send_replace(true);
        }
        Event::Disconnected | Event::Closed => {
            // Nobody has an interest in one whose client was dropped.
            if connection.is_up.send_replace(false) && connection.is_up.receiver_count() > 0 {
                tracing::warn!("the connection to NATS is down");
            }
        }
        Event::SlowConsumer(_) | Event::ServerError(ServerError::SlowConsumer(_)) => log(Kind::SlowConsumer),
        Event::ServerError(ServerError::Other(why)) if why.to_ascii_lowercase().contains("permissions violation") => {
            log(Kind::NotPermitted);
        }
        Event::ServerError(_) | Event::ClientError(_) => log(Kind::BrokerError),
        Event::LameDuckMode | Event::Draining => tracing::info!("NATS: {event}"),
    }
}
