//! Holds the sessions of one term, and routes what arrives for them.
//!
//! What workers say comes in over two subscriptions, and is read so that their order stays: whatever is there of the results was sent
//! before the message that was just taken (or does not mind being read before it).
//! Routing only: a message is decoded, finds its session and enters its queue. Nothing here waits for the hub, so that a busy session
//! never delays another.
//! N4: the node is the subject's. A session counts only on the subjects of the node that it was opened for.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::{Foreign, v1};
use grid_tasks::Tasks;
use grid_types::{LeaderEpoch, NodeId, SessionId};
use tokio::sync::{Notify, mpsc};
use tokio_stream::{Stream, StreamExt};

use super::client::Client;
use super::session::{Full, Inbound, Inlet, Opened, Session, close_unknown};
use super::wire::{Reply, decoded};
use super::{result, subjects};
use crate::MAX_MESSAGE_BYTES;
use crate::closing::CloseReason;
use crate::credential::Credential;
use crate::hub::{Hub, Peer};
use crate::outbox::Outbox;

/// Answers to messages of unknown sessions and to openings that wait to be published; beyond it they are not answered.
const MAX_REPLIES: usize = 4_096;

/// What a term's routing wants published.
enum Say {
    Reply { inbox: String, reply: Reply },
    Close { node: NodeId, session: SessionId, closing: v1::Closing },
}

/// The controller's end while it leads.
pub(super) struct Term<H: Hub> {
    pub(super) hub: Arc<H>,
    pub(super) client: Client,
    pub(super) epoch: LeaderEpoch,
    tasks: Tasks,
    sessions: Arc<Open<H>>,
    say: mpsc::Sender<Say>,
}

/// The open sessions.
pub(super) struct Open<H: Hub> {
    by_node: Mutex<BTreeMap<NodeId, Entry<H>>>,
    ended: Notify,
}

struct Entry<H: Hub> {
    opened: Arc<Opened<H>>,
    inlet: Inlet,
}

impl<H: Hub> Open<H> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Entry<H>>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn close_all(&self, reason: CloseReason) {
        for entry in self.lock().values() {
            entry.opened.outbox.close(reason.message(String::new()));
        }
    }

    /// Resolves when no session is open.
    pub(super) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// The task of a session has ended.
    fn forget(&self, node: &NodeId, session: SessionId) {
        let mut open = self.lock();
        if open.get(node).is_some_and(|entry| entry.opened.session == session) {
            open.remove(node);
        }
        drop(open);
        self.ended.notify_waiters();
    }

    pub(super) fn of_node(&self, node: &NodeId) -> Option<Arc<Opened<H>>> {
        self.lock().get(node).map(|entry| Arc::clone(&entry.opened))
    }
}

/// Publishes what a term's routing has to say, so that the routing never waits.
pub(super) struct Saying(mpsc::Receiver<Say>);

impl<H: Hub> Term<H> {
    pub(super) fn new(hub: Arc<H>, client: Client, epoch: LeaderEpoch, tasks: Tasks) -> (Arc<Self>, Saying) {
        let (say, saying) = mpsc::channel(MAX_REPLIES);
        let sessions = Arc::new(Open { by_node: Mutex::default(), ended: Notify::new() });
        (Arc::new(Self { hub, client, epoch, tasks, sessions, say }), Saying(saying))
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    pub(super) fn sessions(&self) -> &Arc<Open<H>> {
        &self.sessions
    }

    /// Reads what workers say in their sessions; ends with the connection.
    pub(super) async fn route(&self, mut ups: Subscriber, mut results: Subscriber) {
        loop {
            let message = tokio::select! {
                biased;
                Some(message) = results.next() => {
                    self.result(&message);
                    continue;
                }
                Some(message) = ups.next() => message,
                else => return,
            };
            self.results_so_far(&mut results).await;
            self.up(&message);
        }
    }

    async fn results_so_far(&self, results: &mut Subscriber) {
        poll_fn(|cx| {
            while let Poll::Ready(Some(message)) = Pin::new(&mut *results).poll_next(cx) {
                self.result(&message);
            }
            Poll::Ready(())
        })
        .await;
    }

    fn up(&self, message: &Message) {
        let Some((node, _)) = subjects::node_of(&message.subject) else {
            refuse(Port::Nats, Kind::OtherNode, format_args!("a message on {}", Foreign(&message.subject)));
            return;
        };
        let Some(said) = decoded::<v1::FromWorker>(&message.payload, MAX_MESSAGE_BYTES) else {
            let bytes = message.payload.len();
            refuse(Port::Nats, Kind::Malformed, format_args!("a message of {bytes} bytes from node {node}"));
            return;
        };
        if said.secret.is_some() {
            return self.opening(&node, said, message.reply.as_deref());
        }
        // Only its own leader answers a worker.
        let is_own = |entry: &Entry<H>| entry.opened.session.0 == said.session && !entry.opened.outbox.is_closed();
        if let Some(inbox) = message.reply.as_deref().filter(|inbox| subjects::is_inbox_of(inbox, &node))
            && self.sessions.lock().get(&node).is_some_and(is_own)
        {
            self.say(Say::Reply { inbox: inbox.to_owned(), reply: Reply::Ok(Bytes::new()) });
        }
        self.said(&node, said);
    }

    fn said(&self, node: &NodeId, said: v1::FromWorker) {
        let session = SessionId(said.session);
        let of_session = |entry: &&Entry<H>| entry.opened.session == session;
        let inlet = self.sessions.lock().get(node).filter(of_session).map(|entry| entry.inlet.clone());
        match inlet {
            Some(inlet) => self.push(node, &inlet, Inbound::Message(Box::new(said))),
            None => self.unknown(node.clone(), session),
        }
    }

    fn result(&self, message: &Message) {
        let Some((job, step, node)) = subjects::result_of(&message.subject) else {
            refuse(Port::Nats, Kind::Malformed, format_args!("a result on {}", Foreign(&message.subject)));
            return;
        };
        if message.payload.len() > MAX_MESSAGE_BYTES {
            refuse(Port::Nats, Kind::TooLarge, format_args!("a result of node {node}"));
            return;
        }
        let inlet = self.sessions.lock().get(&node).map(|entry| entry.inlet.clone());
        if let Some(inlet) = inlet {
            // A copy: the message is a part of a buffer that many messages share.
            let body = Bytes::copy_from_slice(&message.payload);
            return self.push(&node, &inlet, Inbound::Result { job, step, body });
        }
        match result::decode(job, step, &message.payload) {
            Some((sender, _)) => self.unknown(node, SessionId(sender.session)),
            None => refuse(Port::Nats, Kind::Malformed, format_args!("a result of node {node}")),
        }
    }

    fn push(&self, node: &NodeId, inlet: &Inlet, inbound: Inbound) {
        if let Err(Full) = inlet.push(inbound)
            && let Some(opened) = self.sessions.of_node(node)
        {
            refuse(Port::Nats, Kind::Flood, format_args!("more than its session can take, from node {node}"));
            opened.outbox.close(CloseReason::Overflow.message(String::new()));
        }
    }

    /// The first message of a session, which carries its secret.
    fn opening(&self, node: &NodeId, mut said: v1::FromWorker, inbox: Option<&str>) {
        let credential = Credential::new(said.session, said.secret.take());
        let session = credential.session;
        let is_open =
            self.sessions.of_node(node).is_some_and(|open| open.session == session && !open.outbox.is_closed());
        if is_open {
            // Said twice: on the same subjects, so it goes on.
            self.said(node, said);
        } else {
            self.open(node.clone(), &credential, said);
        }
        if let Some(inbox) = inbox.filter(|inbox| subjects::is_inbox_of(inbox, node)) {
            self.say(Say::Reply { inbox: inbox.to_owned(), reply: Reply::Ok(Bytes::new()) });
        }
    }

    fn open(&self, node: NodeId, credential: &Credential, said: v1::FromWorker) {
        let session = credential.session;
        let outbox = Outbox::new();
        match self.hub.opened(credential, Peer::Subject(node.clone()), outbox.clone()) {
            Ok(()) => {
                let opened = Arc::new(Opened::new(Arc::clone(&self.hub), session, outbox));
                let (client, epoch) = (self.client.clone(), self.epoch);
                let (inlet, task) = Session::new(Arc::clone(&opened), client, node.clone(), epoch);
                self.push(&node, &inlet, Inbound::Message(Box::new(said)));
                // An earlier session of the node was closed by the hub, and its task ends by itself.
                self.sessions.lock().insert(node.clone(), Entry { opened, inlet });
                let open = Arc::clone(&self.sessions);
                let ended = node.clone();
                self.tasks.start_request("nats-session", async move {
                    let _forget = Forget { open, node: ended, session };
                    task.run().await;
                });
            }
            Err(closing) => self.say(Say::Close { node, session, closing }),
        }
    }

    fn unknown(&self, node: NodeId, session: SessionId) {
        refuse(Port::Nats, Kind::UnknownSession, format_args!("session {session} of node {node}"));
        self.say(Say::Close { node, session, closing: CloseReason::StaleSession.message(String::new()) });
    }

    fn say(&self, say: Say) {
        if self.say.try_send(say).is_err() {
            refuse(Port::Nats, Kind::Flood, format_args!("more messages of unknown sessions than are answered"));
        }
    }

    pub(super) async fn keep_saying(&self, mut saying: Saying) {
        while let Some(say) = saying.0.recv().await {
            match say {
                Say::Reply { inbox, reply } => {
                    let (headers, body) = reply.encode();
                    if let Err(why) = self.client.publish(inbox, Some(headers), body).await {
                        tracing::debug!("a reply was not published: {why}");
                    }
                }
                Say::Close { node, session, closing } => {
                    close_unknown(&self.client, &node, session, closing, self.epoch).await;
                }
            }
        }
    }
}

/// However the task of a session ends.
struct Forget<H: Hub> {
    open: Arc<Open<H>>,
    node: NodeId,
    session: SessionId,
}

impl<H: Hub> Drop for Forget<H> {
    fn drop(&mut self) {
        self.open.forget(&self.node, self.session);
    }
}
