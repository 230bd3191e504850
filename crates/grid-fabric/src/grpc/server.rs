//! The controller's end: listens, and hands every call to the hub.
//!
//! On shutdown every open session receives the reason and ends; without that tonic would wait for streams that never end.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grid_proto::listen::{Caller, Counted, Incoming, Places};
use grid_proto::refusals::{Kind, Port};
use grid_proto::v1;
use grid_proto::v1::fabric_server::{Fabric, FabricServer};
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::lean::{HEARTBEAT_PATH, LeanCodec};
use super::session::SessionStream;
use super::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, WINDOW_BYTES};
use crate::MAX_MESSAGE_BYTES;
use crate::closing::CloseReason;
use crate::credential::Credential;
use crate::hub::{Hub, Peer};
use crate::leave::Leave;
use crate::outbox::Outbox;

/// A stream that does not begin costs memory for nothing.
const FIRST_MESSAGE_LIMIT: Duration = Duration::from_secs(10);
/// How long connections get to end on their own after a shutdown.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);
/// Streams of one worker: its session, its calls, and the outputs it sends.
const STREAMS_PER_CONNECTION: u32 = 64;
const MAX_HEADER_BYTES: u32 = 8 << 10;
/// A worker answers a reader with 64 KiB at a time.
const MAX_CHUNK_BYTES: usize = 256 << 10;
const MAX_SMALL_BYTES: usize = 16 << 10;
/// The facts of a node, and the leases that its worker has.
const MAX_REGISTRATION_BYTES: usize = 2 << 20;
const REGISTER_PATH: &str = "/grid.worker.v1.Fabric/RegisterNode";
const LOGS_PATH: &str = "/grid.worker.v1.Fabric/StreamLogs";
/// A worker has a session on its connection; one without any call is not a worker.
const IDLE_LIMIT: Duration = Duration::from_secs(30);
/// The list of sessions is swept when it grew by this much.
const SWEEP_STEP: usize = 64;

#[derive(Debug, thiserror::Error)]
#[error("the workers' listener failed: {0}")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves workers until `shutdown`, at most `most` connections at once.
pub async fn serve<H: Hub>(
    listener: tokio::net::TcpListener,
    most: usize,
    hub: Arc<H>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let calls = Arc::new(Calls { hub, sessions: Mutex::default() });
    let with = |most| FabricServer::from_arc(Arc::clone(&calls)).max_decoding_message_size(most);
    let service = LeanService { logs: with(MAX_CHUNK_BYTES), small: with(MAX_SMALL_BYTES), calls: Arc::clone(&calls) };
    let (began, mut shutting_down) = tokio::sync::watch::channel(false);
    let signal = async {
        shutdown.await;
        calls.close_all();
        began.send_replace(true);
    };
    let places = Places::new(Port::Grpc, Kind::TooManyConnections, most);
    let incoming = Incoming::new(listener, places, IDLE_LIMIT);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .serve_with_incoming_shutdown(Counted::new(Port::Grpc, service), incoming, signal);
    let patience = async {
        // The sender lives in `signal`, hence as long as `server`: an error cannot come first.
        let _ = shutting_down.wait_for(|began| *began).await;
        tokio::time::sleep(SHUTDOWN_LIMIT).await;
    };
    tokio::select! {
        ended = server => ended.map_err(ServeError),
        () = patience => Ok(()),
    }
}

/// Answers the calls of every connection.
struct Calls<H: Hub> {
    hub: Arc<H>,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    open: Vec<Outbox>,
    sweep_at: usize,
    shutdown: bool,
}

impl<H: Hub> Calls<H> {
    fn enlist(&self, outbox: &Outbox) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.shutdown {
            outbox.close(CloseReason::Shutdown.message(String::new()));
            return;
        }
        if sessions.open.len() >= sessions.sweep_at {
            sessions.open.retain(|outbox| !outbox.is_closed());
            sessions.sweep_at = sessions.open.len() * 2 + SWEEP_STEP;
        }
        sessions.open.push(outbox.clone());
    }

    fn close_all(&self) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.shutdown = true;
        for outbox in sessions.open.drain(..) {
            outbox.close(CloseReason::Shutdown.message(String::new()));
        }
    }

    async fn open(&self, request: Request<Streaming<v1::FromWorker>>) -> Result<Response<SessionStream<H>>, Status> {
        let peer = Peer::Connection(request.remote_addr());
        let caller = caller(&request);
        let mut inbound = request.into_inner();
        let nothing = || Status::invalid_argument("a session begins with a message");
        let first = first_message(&mut inbound).await?.ok_or_else(nothing)?;
        let stream = SessionStream::new(&self.hub, first, peer, inbound);
        if let Some(caller) = caller.filter(|_| stream.is_opened()) {
            caller.prove();
        }
        self.enlist(stream.outbox());
        Ok(Response::new(stream))
    }
}

/// Limited, as a stream that never begins would keep its connection for good.
async fn first_message<T>(stream: &mut Streaming<T>) -> Result<Option<T>, Status> {
    let first = tokio::time::timeout(FIRST_MESSAGE_LIMIT, stream.message()).await;
    first.map_err(|_| Status::deadline_exceeded("a stream begins with a message"))?
}

/// The connection of a call may stay while the hub works on it, and afterwards if the hub accepted it.
async fn proven<T, E>(caller: Option<Caller>, call: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    // One that was accepted before may carry a session: a refused call does not cut it off.
    let caller = caller.filter(|caller| !caller.is_proven());
    caller.iter().for_each(Caller::prove);
    let answer = call.await;
    if answer.is_err() {
        caller.iter().for_each(Caller::disprove);
    }
    answer
}

fn caller<T>(request: &Request<T>) -> Option<Caller> {
    request.extensions().get::<Caller>().cloned()
}

#[tonic::async_trait]
impl<H: Hub> Fabric for Calls<H> {
    type HeartbeatStream = SessionStream<H>;

    async fn register_node(
        &self,
        request: Request<v1::RegisterNodeRequest>,
    ) -> Result<Response<v1::RegisterNodeReply>, Status> {
        let (caller, peer) = (caller(&request), Peer::Connection(request.remote_addr()));
        Ok(Response::new(proven(caller, self.hub.register(request.into_inner(), peer)).await?))
    }

    async fn heartbeat(
        &self,
        request: Request<Streaming<v1::FromWorker>>,
    ) -> Result<Response<SessionStream<H>>, Status> {
        self.open(request).await
    }

    async fn drain_node(&self, request: Request<v1::NodeSession>) -> Result<Response<v1::Empty>, Status> {
        let caller = caller(&request);
        let v1::NodeSession { node_id, session, secret, .. } = request.into_inner();
        proven(caller, self.hub.drain(node_id, Credential::new(session, secret))).await?;
        Ok(Response::new(v1::Empty {}))
    }

    async fn leave_node(&self, request: Request<v1::NodeSession>) -> Result<Response<v1::Empty>, Status> {
        let caller = caller(&request);
        let request = request.into_inner();
        let leave = Leave::of(&request);
        let v1::NodeSession { node_id, session, secret, .. } = request;
        proven(caller, self.hub.leave(node_id, Credential::new(session, secret), leave)).await?;
        Ok(Response::new(v1::Empty {}))
    }

    async fn stream_logs(&self, request: Request<Streaming<v1::LogChunk>>) -> Result<Response<v1::Empty>, Status> {
        let (caller, peer) = (caller(&request), Peer::Connection(request.remote_addr()));
        let mut chunks = request.into_inner();
        let mut sender = None;
        let mut next = first_message(&mut chunks).await?;
        while let Some(mut chunk) = next {
            let node = match sender {
                Some(node) => node,
                None => self.hub.log_sender(&Credential::new(chunk.session, chunk.secret.take()), &peer)?,
            };
            sender = Some(node);
            caller.iter().for_each(Caller::prove);
            if !self.hub.log_chunk(node, chunk).await {
                break;
            }
            next = chunks.message().await?;
        }
        Ok(Response::new(v1::Empty {}))
    }
}

/// The generated service, with a limit for each call's messages; calls with lists get the lean codec, which counts their elements.
struct LeanService<H: Hub> {
    logs: FabricServer<Calls<H>>,
    small: FabricServer<Calls<H>>,
    calls: Arc<Calls<H>>,
}

impl<H: Hub> Clone for LeanService<H> {
    fn clone(&self) -> Self {
        let Self { logs, small, calls } = self;
        Self { logs: logs.clone(), small: small.clone(), calls: Arc::clone(calls) }
    }
}

impl<H: Hub> Service<http::Request<tonic::body::Body>> for LeanService<H> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        match request.uri().path() {
            HEARTBEAT_PATH => {
                let heartbeat = Heartbeat(Arc::clone(&self.calls));
                Box::pin(async move {
                    let mut grpc = Grpc::new(LeanCodec::new()).max_decoding_message_size(MAX_MESSAGE_BYTES);
                    Ok(grpc.streaming(heartbeat, request).await)
                })
            }
            REGISTER_PATH => {
                let register = Register(Arc::clone(&self.calls));
                Box::pin(async move {
                    let mut grpc = Grpc::new(LeanCodec::new()).max_decoding_message_size(MAX_REGISTRATION_BYTES);
                    Ok(grpc.unary(register, request).await)
                })
            }
            LOGS_PATH => self.logs.call(request),
            _ => self.small.call(request),
        }
    }
}

struct Register<H: Hub>(Arc<Calls<H>>);

impl<H: Hub> UnaryService<v1::RegisterNodeRequest> for Register<H> {
    type Response = v1::RegisterNodeReply;
    type Future = BoxFuture<Response<v1::RegisterNodeReply>, Status>;

    fn call(&mut self, request: Request<v1::RegisterNodeRequest>) -> Self::Future {
        let calls = Arc::clone(&self.0);
        Box::pin(async move { calls.register_node(request).await })
    }
}

struct Heartbeat<H: Hub>(Arc<Calls<H>>);

impl<H: Hub> StreamingService<v1::FromWorker> for Heartbeat<H> {
    type Response = v1::ToWorker;
    type ResponseStream = SessionStream<H>;
    type Future = BoxFuture<Response<SessionStream<H>>, Status>;

    fn call(&mut self, request: Request<Streaming<v1::FromWorker>>) -> Self::Future {
        let calls = Arc::clone(&self.0);
        Box::pin(async move { calls.open(request).await })
    }
}
