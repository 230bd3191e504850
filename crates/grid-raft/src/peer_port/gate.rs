//! Guards the peer port's service: checks who calls before anything of the body is read, and limits each call in
//! size and time.
//!
//! A caller that is not accepted costs a header: it is answered at once and its body is never read. Only a call that was accepted
//! makes its connection last (`grid_proto::listen`).
//! Not here: the check itself (`member::callers`), the answers (`service`).

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use grid_proto::listen::Caller as Connection;
use grid_proto::peer::Sender;
use grid_proto::peer::peer_server::PeerServer;
use grid_proto::refusals::{Kind, Port, refuse};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::metadata::MetadataMap;

use crate::config::MAX_APPEND_BYTES;
use crate::member::RunningMember;
use crate::peer_port::service::PeerService;
use crate::peers::sender::{Method, refusal, shown_in};

/// A chunk, or the header with its membership.
const MAX_PART_BYTES: usize = 512 << 10;
const MAX_SMALL_BYTES: usize = 16 << 10;
/// For a call with its whole body; a snapshot has limits of its own.
const CALL_LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Gate {
    member: Arc<RunningMember>,
    append: PeerServer<PeerService>,
    snapshot: PeerServer<PeerService>,
    small: PeerServer<PeerService>,
}

impl Gate {
    pub fn new(member: Arc<RunningMember>) -> Self {
        let service = Arc::new(PeerService { member: Arc::clone(&member) });
        let with = |most| PeerServer::from_arc(Arc::clone(&service)).max_decoding_message_size(most);
        Self { member, append: with(MAX_APPEND_BYTES), snapshot: with(MAX_PART_BYTES), small: with(MAX_SMALL_BYTES) }
    }
}

impl Service<http::Request<Body>> for Gate {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let method = Method::of(request.uri().path());
        let mut service = match method {
            Method::Append => self.append.clone(),
            Method::Snapshot => self.snapshot.clone(),
            Method::Probe | Method::Other => self.small.clone(),
        };
        let member = Arc::clone(&self.member);
        Box::pin(async move {
            let shown = shown_in(&MetadataMap::from_headers(request.headers().clone())).unwrap_or_default();
            let caller = match member.accept_sender(&shown, method).await {
                Ok(caller) => caller,
                Err((kind, what)) => return Ok(refused(&member, &shown, kind, &what).into_http()),
            };
            member.peers.note_epoch(shown.leader_epoch, shown.raft_id);
            // One that was removed may still probe, and has no say any more.
            if method != Method::Probe {
                member.compare_with_caller(shown.raft_id, shown.had);
            }
            if let Some(connection) = request.extensions().get::<Connection>() {
                connection.prove();
            }
            request.extensions_mut().insert(caller);
            if method == Method::Snapshot {
                return service.call(request).await;
            }
            match tokio::time::timeout(CALL_LIMIT, service.call(request)).await {
                Ok(answered) => answered,
                Err(_) => {
                    refuse(Port::Raft, Kind::Silent, format_args!("a call of a member did not end"));
                    Ok(Status::deadline_exceeded("the call did not end in time").into_http())
                }
            }
        })
    }
}

fn refused(member: &RunningMember, shown: &Sender, kind: Kind, what: &str) -> Status {
    refuse(Port::Raft, kind, format_args!("{what}"));
    refusal(&member.peers.me().cluster_id, member.peers.epoch(), shown.raft_id)
}
