//! Answers what workers ask of the leader: register, drain, leave, and a chunk of an output.
//!
//! A call is answered by a task of its own, a bounded number at a time and per node; what a node asks beyond its share is not answered.
//! N4: a registration that is refused because the node's session lives is tried once more if nobody listens to that session.
//! N6: a reply goes to an inbox of the node that asks, and nowhere else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::{Foreign, v1};
use grid_types::{Code, NodeId};
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;

use super::client::RequestError;
use super::subjects::{self, Call};
use super::term::Term;
use super::wire::{Reply, decoded, encoded};
use crate::credential::Credential;
use crate::hub::{Hub, Peer};
use crate::leave::Leave;
use crate::refusal::FabricRefusal;

/// Calls of one kind that are answered at once.
const PLACES: usize = 1_024;
/// Calls of one node that wait or are answered: it answers so many readers of its outputs.
const MAX_OF_NODE: u32 = 160;
const MAX_REGISTRATION_BYTES: usize = 2 << 20;
const MAX_CHUNK_BYTES: usize = 256 << 10;
/// With the rest of the message around the bytes of a chunk.
const MAX_LOG_BYTES: usize = MAX_CHUNK_BYTES + (8 << 10);
const MAX_SMALL_BYTES: usize = 16 << 10;
/// Nobody listens is known at once; a live worker does not answer this.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// How many calls each node has here.
#[derive(Default)]
pub(super) struct Shares(Mutex<BTreeMap<NodeId, u32>>);

/// One call of a node, until it is answered.
struct Share {
    shares: Arc<Shares>,
    node: NodeId,
}

impl Shares {
    fn take(self: &Arc<Self>, node: &NodeId) -> Option<Share> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = shares.entry(node.clone()).or_default();
        if *count >= MAX_OF_NODE {
            return None;
        }
        *count += 1;
        Some(Share { shares: Arc::clone(self), node: node.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = shares.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                shares.remove(&self.node);
            }
        }
    }
}

/// Answers one kind of call; ends with the connection.
pub(super) async fn answer<H: Hub>(term: &Arc<Term<H>>, call: Call, mut calls: Subscriber, shares: &Arc<Shares>) {
    let places = Arc::new(Semaphore::new(PLACES));
    while let Some(message) = calls.next().await {
        let Some((node, _)) = subjects::node_of(&message.subject) else {
            refuse(Port::Nats, Kind::OtherNode, format_args!("a call on {}", Foreign(&message.subject)));
            continue;
        };
        let inbox = message.reply.as_deref().filter(|inbox| subjects::is_inbox_of(inbox, &node)).map(str::to_owned);
        let Some(inbox) = inbox else {
            refuse(Port::Nats, Kind::Malformed, format_args!("a call of node {node} without an inbox of its own"));
            continue;
        };
        let Some(share) = shares.take(&node) else {
            refuse(Port::Nats, Kind::Flood, format_args!("more calls than are answered at once, from node {node}"));
            continue;
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let term = Arc::clone(term);
        let tasks = term.tasks().clone();
        tasks.start_request("nats-call", async move {
            let (_place, _share) = (place, share);
            let reply = reply_to(&term, call, node, &message).await;
            let (headers, body) = reply.encode();
            if let Err(why) = term.client.publish(inbox, Some(headers), body).await {
                tracing::debug!("a reply was not published: {why}");
            }
        });
    }
}

async fn reply_to<H: Hub>(term: &Term<H>, call: Call, node: NodeId, message: &Message) -> Reply {
    let replied = match call {
        Call::Register => register(term, node, &message.payload).await,
        Call::Drain | Call::Leave => of_session(term, call, node, &message.payload).await,
        Call::Log => log(term, node, &message.payload).await,
    };
    replied.unwrap_or_else(Reply::Refused)
}

async fn register<H: Hub>(term: &Term<H>, node: NodeId, payload: &[u8]) -> Result<Reply, FabricRefusal> {
    let request: v1::RegisterNodeRequest = decoded(payload, MAX_REGISTRATION_BYTES).ok_or_else(|| malformed(&node))?;
    check_node(&node, &request.node_id)?;
    let peer = Peer::Subject(node.clone());
    let again = request.clone();
    let registered = match term.hub.register(request, peer.clone()).await {
        Err(refusal) if refusal.code == Code::DuplicateNode && end_if_dead(term, &node).await => {
            term.hub.register(again, peer).await
        }
        registered => registered,
    };
    registered.map(|reply| Reply::Ok(encoded(&reply)))
}

/// N4: ends the open session of a node if nobody listens to it.
async fn end_if_dead<H: Hub>(term: &Term<H>, node: &NodeId) -> bool {
    let Some(opened) = term.sessions().of_node(node) else { return false };
    let asked = term.client.request(subjects::down(node, opened.session), Bytes::new(), PROBE_LIMIT).await;
    let is_dead = matches!(asked, Err(RequestError::NoResponders(_)));
    if is_dead {
        tracing::info!(%node, session = %opened.session, "nobody listens to the earlier session of this node: it has ended");
        opened.end();
    }
    is_dead
}

async fn of_session<H: Hub>(term: &Term<H>, call: Call, node: NodeId, payload: &[u8]) -> Result<Reply, FabricRefusal> {
    let request: v1::NodeSession = decoded(payload, MAX_SMALL_BYTES).ok_or_else(|| malformed(&node))?;
    check_node(&node, &request.node_id)?;
    let leave = Leave::of(&request);
    let credential = Credential::new(request.session, request.secret);
    match call {
        Call::Leave => term.hub.leave(request.node_id, credential, leave).await?,
        _ => term.hub.drain(request.node_id, credential).await?,
    }
    Ok(Reply::Ok(Bytes::new()))
}

async fn log<H: Hub>(term: &Term<H>, node: NodeId, payload: &[u8]) -> Result<Reply, FabricRefusal> {
    let mut chunk: v1::LogChunk = decoded(payload, MAX_LOG_BYTES).ok_or_else(|| malformed(&node))?;
    let credential = Credential::new(chunk.session, chunk.secret.take());
    let sender = term.hub.log_sender(&credential, &Peer::Subject(node))?;
    Ok(if term.hub.log_chunk(sender, chunk).await { Reply::Ok(Bytes::new()) } else { Reply::Stop })
}

/// What a body says about its sender does not count, and must not differ.
fn check_node(node: &NodeId, named: &str) -> Result<(), FabricRefusal> {
    if named == node.as_str() {
        return Ok(());
    }
    let named = Foreign(named);
    refuse(Port::Nats, Kind::OtherNode, format_args!("a call for node {named} on a subject of node {node}"));
    Err(FabricRefusal::new(Code::Forbidden, format!("FORBIDDEN: a subject of node {node} is not for node {named}")))
}

fn malformed(node: &NodeId) -> FabricRefusal {
    refuse(Port::Nats, Kind::Malformed, format_args!("a call of node {node}"));
    FabricRefusal::new(Code::Invalid, "the message cannot be read, or is too large")
}
