//! The baseline of `fanout`: a bare tonic server on the same wire. It sends one message to every session and counts the
//! answers; it keeps nothing, checks nothing, answers nothing.
//!
//! Plain tonic, with a channel and a reader task per session: a straightforward implementation. The sessions come from the same
//! swarm, so that both sides of a comparison pay the same for them.
//!
//! ```text
//!   stdin "rounds 3" ──► three times: a message to all, an answer from all ──► stdout "echo done"
//! ```

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use grid_proto::v1;
use grid_proto::v1::fabric_server::{Fabric, FabricServer};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// Heartbeats would be load that a bare echo does not have.
const HEARTBEAT_MS: u64 = 3_600_000;
const QUEUE: usize = 4;

#[derive(Default)]
struct Echo {
    sessions: Mutex<Vec<mpsc::Sender<Result<v1::ToWorker, Status>>>>,
    next_session: AtomicU64,
    /// One for each stream.
    readers: Mutex<tokio::task::JoinSet<()>>,
    answers: Arc<Answers>,
}

#[derive(Default)]
struct Answers {
    missing: AtomicU64,
    all_here: Notify,
}

impl Answers {
    fn arrived(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        if count > 0 && self.missing.fetch_sub(count, Ordering::AcqRel) == count {
            self.all_here.notify_one();
        }
    }
}

/// Serves until its stdin ends.
pub async fn run() -> anyhow::Result<ExitCode> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let address = listener.local_addr()?;
    let echo = Arc::new(Echo::default());
    let service = FabricServer::from_arc(Arc::clone(&echo));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tokio::spawn(async move {
        if let Err(error) = tonic::transport::Server::builder().serve_with_incoming(service, incoming).await {
            crate::say::err(format_args!("the echo server has ended: {error}"));
        }
    });
    crate::say::out(format_args!("echo ready grpc={address}"));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut number = 0;
    while let Some(line) = lines.next_line().await.context("cannot read from the benchmark")? {
        let rounds: u64 = line.strip_prefix("rounds ").and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
        for _ in 0..rounds {
            number += 1;
            echo.round(number).await?;
        }
        crate::say::out(format_args!("echo done"));
    }
    server.abort();
    Ok(ExitCode::SUCCESS)
}

impl Echo {
    async fn round(&self, number: u64) -> anyhow::Result<()> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.answers.missing.store(u64::try_from(sessions.len())?, Ordering::Release);
        for session in &sessions {
            session.send(Ok(message(number))).await.map_err(|_| anyhow!("a session has ended"))?;
        }
        if !sessions.is_empty() {
            self.answers.all_here.notified().await;
        }
        Ok(())
    }
}

/// As large as an offer of Grid; the previous round is forgotten, since otherwise the sessions would keep all of them.
fn message(number: u64) -> v1::ToWorker {
    let lease = v1::Lease { job_id: number, job_epoch: 1, step: 0, attempt: 1 };
    let offer = v1::Offer {
        lease: Some(lease),
        session: 1,
        backend: "ping".to_owned(),
        action: "echo".to_owned(),
        effect: v1::EffectClass::Pure.into(),
        timeout_ms: 300_000,
        ..v1::Offer::default()
    };
    let forgets = vec![v1::Forget { job_id: number - 1, job_epoch: 1 }];
    v1::ToWorker { leader_epoch: 1, offers: vec![offer], forgets, ..v1::ToWorker::default() }
}

#[tonic::async_trait]
impl Fabric for Echo {
    type HeartbeatStream = Pin<Box<dyn Stream<Item = Result<v1::ToWorker, Status>> + Send>>;

    async fn register_node(
        &self,
        _: Request<v1::RegisterNodeRequest>,
    ) -> Result<Response<v1::RegisterNodeReply>, Status> {
        let session = self.next_session.fetch_add(1, Ordering::Relaxed) + 1;
        let reply =
            v1::RegisterNodeReply { session, leader_epoch: 1, heartbeat_ms: HEARTBEAT_MS, ..Default::default() };
        Ok(Response::new(reply))
    }

    async fn heartbeat(
        &self,
        request: Request<Streaming<v1::FromWorker>>,
    ) -> Result<Response<Self::HeartbeatStream>, Status> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        let (mut inbound, answers) = (request.into_inner(), Arc::clone(&self.answers));
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.spawn(async move {
            while let Ok(Some(message)) = inbound.message().await {
                answers.arrived(message.results.len());
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn drain_node(&self, _: Request<v1::NodeSession>) -> Result<Response<v1::Empty>, Status> {
        Ok(Response::new(v1::Empty {}))
    }

    async fn leave_node(&self, _: Request<v1::NodeSession>) -> Result<Response<v1::Empty>, Status> {
        Ok(Response::new(v1::Empty {}))
    }

    async fn stream_logs(&self, _: Request<Streaming<v1::LogChunk>>) -> Result<Response<v1::Empty>, Status> {
        Ok(Response::new(v1::Empty {}))
    }
}
