//! The worker's end: one HTTP/2 connection to the leader.

use std::time::Duration;

use grid_proto::v1::fabric_client::FabricClient;
use grid_proto::{causes, v1};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{IntoStreamingRequest, Request, Status};

use super::lean::{HEARTBEAT_PATH, LeanCodec};
use super::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, WINDOW_BYTES};
use crate::MAX_MESSAGE_BYTES;
use crate::credential::Credential;
use crate::leave::Leave;
use crate::link::{Arrival, Dialer, Downlink, Link, LinkError, Uplink};
use crate::refusal::FabricRefusal;

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// A registration waits for a commit; without a majority the leader says so itself.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Dials controllers over TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrpcDialer;

#[derive(Debug, Clone)]
pub struct GrpcLink {
    channel: Channel,
}

impl Dialer for GrpcDialer {
    type Link = GrpcLink;

    async fn dial(&self, address: &str) -> Result<GrpcLink, LinkError> {
        let unreachable = |error: tonic::transport::Error| LinkError::Unreachable(causes(&error));
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(unreachable)?
            .connect_timeout(CONNECT_LIMIT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let channel = endpoint.connect().await.map_err(unreachable)?;
        Ok(GrpcLink { channel })
    }
}

impl GrpcLink {
    fn client(&self) -> FabricClient<Channel> {
        FabricClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }
}

impl Link for GrpcLink {
    async fn register(&self, request: v1::RegisterNodeRequest) -> Result<v1::RegisterNodeReply, LinkError> {
        let reply = self.client().register_node(limited(request)).await;
        reply.map(tonic::Response::into_inner).map_err(|status| link_error(&status))
    }

    async fn open(&self, first: v1::FromWorker) -> Result<(Uplink, Downlink), LinkError> {
        let (uplink, queue) = Uplink::new();
        let messages = tokio_stream::once(first).chain(ReceiverStream::new(queue));
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        grpc.ready().await.map_err(|error| LinkError::Unreachable(causes(&error)))?;
        let path = PathAndQuery::from_static(HEARTBEAT_PATH);
        let opening = grpc.streaming(messages.into_streaming_request(), path, LeanCodec::new());
        let opened = tokio::time::timeout(CALL_LIMIT, opening).await;
        let opened = opened.map_err(|_| LinkError::Unreachable("the session's stream does not open".to_owned()))?;
        let inbound = opened.map_err(|status| link_error(&status))?.into_inner();
        Ok((uplink, Downlink::new(inbound.map(arrived))))
    }

    async fn drain(&self, node_id: String, credential: Credential) -> Result<(), LinkError> {
        let request = limited(of_session(node_id, credential));
        self.client().drain_node(request).await.map(drop).map_err(|status| link_error(&status))
    }

    async fn leave(&self, node_id: String, credential: Credential, leave: Leave) -> Result<(), LinkError> {
        let nothing_outstanding = leave == Leave::NothingOutstanding;
        let request = limited(v1::NodeSession { nothing_outstanding, ..of_session(node_id, credential) });
        self.client().leave_node(request).await.map(drop).map_err(|status| link_error(&status))
    }

    async fn send_logs(&self, chunks: mpsc::Receiver<v1::LogChunk>) -> Result<(), LinkError> {
        let sent = self.client().stream_logs(ReceiverStream::new(chunks)).await;
        sent.map(drop).map_err(|status| link_error(&status))
    }
}

fn arrived(message: Result<v1::ToWorker, Status>) -> Result<Arrival, LinkError> {
    message.map(|message| Arrival::Message(Box::new(message))).map_err(|status| link_error(&status))
}

fn of_session(node_id: String, credential: Credential) -> v1::NodeSession {
    let Credential { session, secret } = credential;
    v1::NodeSession { node_id, session: session.0, secret: Some(secret), nothing_outstanding: false }
}

fn limited<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_LIMIT);
    request
}

fn link_error(status: &Status) -> LinkError {
    FabricRefusal::from_status(status).map_or_else(
        || LinkError::Unreachable(format!("{:?}: {}", status.code(), status.message())),
        LinkError::Refused,
    )
}
