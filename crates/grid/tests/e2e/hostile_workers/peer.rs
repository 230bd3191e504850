//! A worker that speaks raw gRPC and sends any message that a test needs.

use std::time::Duration;

use grid_proto::v1;
use grid_proto::v1::fabric_client::FabricClient;
use grid_testkit::{Api, LIMIT};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// One connection to the workers' port, used from a blocking test.
pub struct Peer {
    runtime: Runtime,
    client: FabricClient<Channel>,
}

/// An open Heartbeat call.
pub struct Stream {
    pub up: mpsc::Sender<v1::FromWorker>,
    down: Streaming<v1::ToWorker>,
}

impl Peer {
    pub fn connect(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(FabricClient::connect(format!("http://127.0.0.1:{port}")));
        let client = client.expect("the workers' port answers").max_decoding_message_size(64 << 20);
        Self { runtime, client }
    }

    /// Calls any method and waits for the answer.
    pub fn call<T>(&self, call: impl AsyncFnOnce(FabricClient<Channel>) -> T) -> T {
        let answered = async { tokio::time::timeout(LIMIT, call(self.client.clone())).await };
        self.runtime.block_on(answered).expect("the controller does not answer")
    }

    pub fn register(&self, request: v1::RegisterNodeRequest) -> Result<v1::RegisterNodeReply, Status> {
        self.call(async |mut client| client.register_node(request).await.map(tonic::Response::into_inner))
    }

    /// Opens a session's stream with its first message.
    pub fn open(&self, first: v1::FromWorker) -> Result<Stream, Status> {
        let (up, queue) = mpsc::channel(16);
        up.try_send(first).expect("room for one");
        let opened = self.call(async |mut client| client.heartbeat(ReceiverStream::new(queue)).await);
        opened.map(|down| Stream { up, down: down.into_inner() })
    }

    pub fn send(&self, stream: &Stream, message: v1::FromWorker) {
        // The caller notices a closed stream.
        let _ = self.runtime.block_on(stream.up.send(message));
    }

    /// The next message; none if the stream has ended.
    pub fn next(&self, stream: &mut Stream) -> Option<v1::ToWorker> {
        let next = self.runtime.block_on(async { tokio::time::timeout(LIMIT, stream.down.message()).await });
        next.expect("the controller is silent").unwrap_or_default()
    }

    /// The next message, if one comes within `limit`.
    pub fn next_within(&self, stream: &mut Stream, limit: Duration) -> Option<v1::ToWorker> {
        let next = self.runtime.block_on(async { tokio::time::timeout(limit, stream.down.message()).await });
        next.ok()?.unwrap_or_default()
    }

    /// Reads on until the stream is closed, and returns why.
    pub fn closing(&self, stream: &mut Stream) -> String {
        while let Some(message) = self.next(stream) {
            if let Some(closing) = message.closing {
                return closing.reason;
            }
        }
        "ended without a reason".to_owned()
    }
}

/// A registration as a worker sends it.
pub fn registration(node: &str) -> v1::RegisterNodeRequest {
    let backends = [("ping", "echo"), ("test", "record"), ("test", "sleep")]
        .map(|(name, action)| v1::BackendFacts { name: name.to_owned(), actions: vec![action.to_owned()] });
    let capacity = Some(v1::Capacity { slots: 8, ..Default::default() });
    let facts =
        v1::NodeFacts { hostname: node.to_owned(), backends: backends.to_vec(), capacity, ..Default::default() };
    let mut own = [0; 16];
    own[..node.len().min(16)].copy_from_slice(&node.as_bytes()[..node.len().min(16)]);
    v1::RegisterNodeRequest {
        node_id: node.to_owned(),
        facts: Some(facts),
        journal_id: own.to_vec(),
        boot: 1,
        nonce: own.to_vec(),
        ..Default::default()
    }
}

/// The first message of a session's stream.
pub fn first(reply: &v1::RegisterNodeReply) -> v1::FromWorker {
    let (heartbeat, outstanding) = (Some(v1::Heartbeat::default()), Some(v1::OutstandingList::default()));
    let (session, leader_epoch, secret) = (reply.session, reply.leader_epoch, reply.secret.clone());
    v1::FromWorker { session, leader_epoch, heartbeat, outstanding, secret, ..Default::default() }
}

/// The epoch that a controller's `/role` shows to every client.
pub fn epoch(api: &Api) -> u64 {
    let role = api.get("/role").json();
    role["leader_epoch"].as_u64().unwrap_or_else(|| panic!("no epoch: {role}"))
}

/// How often the controller has refused something of this kind at the workers' port.
pub fn refused(api: &Api, kind: &str) -> u64 {
    api.get("/status").json()["refused"]["grpc"][kind].as_u64().unwrap_or(0)
}
