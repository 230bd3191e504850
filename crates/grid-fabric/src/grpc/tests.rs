//! Both ends over a real socket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use grid_proto::v1;
use grid_types::{Code, NodeOrd, SessionId};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{GrpcDialer, GrpcLink, ServeError, serve};
use crate::{
    Arrival, CloseReason, Credential, Dialer, Downlink, FabricRefusal, Hub, Leave, Link, LinkError, Outbox, Overflow,
    Peer,
};

const SECRET: [u8; 16] = [7; 16];
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Opened(u64),
    Received(u64, u32),
    Closed(u64),
    Chunk(u64),
}

struct FakeHub {
    seen: mpsc::UnboundedSender<Seen>,
    outboxes: Mutex<Vec<Outbox>>,
    /// A permit is taken for each received message.
    permits: Semaphore,
}

impl Hub for FakeHub {
    async fn register(
        &self,
        request: v1::RegisterNodeRequest,
        peer: Peer,
    ) -> Result<v1::RegisterNodeReply, FabricRefusal> {
        assert!(is_loopback(&peer));
        if request.node_id == "clone" {
            return Err(FabricRefusal::new(Code::DuplicateNode, "clone is here already"));
        }
        let leader_url = Some("http://other:8765".to_owned());
        Err(FabricRefusal { leader_url, ..FabricRefusal::new(Code::NotLeader, "not the leader") })
    }

    async fn drain(&self, _: String, _: Credential) -> Result<(), FabricRefusal> {
        Ok(())
    }

    async fn leave(&self, _: String, _: Credential, _: Leave) -> Result<(), FabricRefusal> {
        Err(FabricRefusal::new(Code::NotFound, "no such node"))
    }

    fn opened(&self, credential: &Credential, peer: Peer, outbox: Outbox) -> Result<(), v1::Closing> {
        assert!(is_loopback(&peer));
        let session = credential.session;
        if session.0 == 0 {
            return Err(CloseReason::NotLeader.message("http://b".to_owned()));
        }
        self.seen.send(Seen::Opened(session.0)).unwrap();
        self.outboxes.lock().unwrap().push(outbox);
        Ok(())
    }

    async fn received(&self, session: SessionId, message: v1::FromWorker) {
        self.permits.acquire().await.unwrap().forget();
        let count = message.heartbeat.map_or(0, |heartbeat| heartbeat.outstanding_count);
        self.seen.send(Seen::Received(session.0, count)).unwrap();
    }

    fn closed(&self, session: SessionId) {
        // The test may be over already.
        let _ = self.seen.send(Seen::Closed(session.0));
    }

    fn log_sender(&self, credential: &Credential, _: &Peer) -> Result<NodeOrd, FabricRefusal> {
        let is_known = credential.secret.value == SECRET;
        is_known.then_some(NodeOrd(1)).ok_or_else(|| FabricRefusal::new(Code::Forbidden, "not its secret"))
    }

    async fn log_chunk(&self, _: NodeOrd, chunk: v1::LogChunk) -> bool {
        assert_eq!(chunk.secret, None, "it goes no further");
        self.seen.send(Seen::Chunk(chunk.offset)).unwrap();
        chunk.offset < 2
    }
}

fn is_loopback(peer: &Peer) -> bool {
    matches!(peer, Peer::Connection(Some(address)) if address.ip().is_loopback())
}

struct Rig {
    hub: Arc<FakeHub>,
    seen: mpsc::UnboundedReceiver<Seen>,
    link: GrpcLink,
    stop: Option<oneshot::Sender<()>>,
    server: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl Rig {
    async fn start(permits: usize) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let hub = Arc::new(FakeHub { seen: sender, outboxes: Mutex::default(), permits: Semaphore::new(permits) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(serve(listener, 64, Arc::clone(&hub), async {
            let _ = stopped.await;
        }));
        let link = GrpcDialer.dial(&address).await.unwrap();
        Self { hub, seen, link, stop: Some(stop), server }
    }

    async fn next_seen(&mut self) -> Seen {
        tokio::time::timeout(LIMIT, self.seen.recv()).await.expect("the hub sees nothing").unwrap()
    }

    fn outbox(&self) -> Outbox {
        self.hub.outboxes.lock().unwrap().last().unwrap().clone()
    }
}

fn heartbeat(session: u64, outstanding_count: u32) -> v1::FromWorker {
    let heartbeat = Some(v1::Heartbeat { outstanding_digest: 0, outstanding_count });
    v1::FromWorker { session, heartbeat, ..Default::default() }
}

async fn hear(downlink: &mut Downlink) -> Option<v1::ToWorker> {
    let heard = tokio::time::timeout(LIMIT, downlink.next()).await.expect("the leader is silent");
    heard.map(|heard| match heard.unwrap() {
        Arrival::Message(message) => *message,
        Arrival::Resumed => panic!("nothing is lost within a stream"),
    })
}

async fn hear_closing(downlink: &mut Downlink) -> v1::Closing {
    let closing = hear(downlink).await.expect("the stream ends without a word").closing.expect("no closing");
    assert_eq!(hear(downlink).await, None, "the stream goes on after its closing");
    closing
}

#[tokio::test]
async fn refusals_reach_the_worker_with_code_and_leader() {
    let rig = Rig::start(100).await;
    let request = |node: &str| v1::RegisterNodeRequest { node_id: node.to_owned(), ..Default::default() };
    let Err(LinkError::Refused(refusal)) = rig.link.register(request("clone")).await else { panic!("accepted") };
    assert_eq!((refusal.code, refusal.message.as_str()), (Code::DuplicateNode, "clone is here already"));
    let Err(LinkError::Refused(refusal)) = rig.link.register(request("a")).await else { panic!("accepted") };
    assert_eq!((refusal.code, refusal.leader_url.as_deref()), (Code::NotLeader, Some("http://other:8765")));
    let credential = Credential::new(1, Some(v1::Secret { value: SECRET.to_vec() }));
    assert_eq!(rig.link.drain("a".to_owned(), credential.clone()).await, Ok(()));
    assert!(matches!(
        rig.link.leave("a".to_owned(), credential, Leave::NothingOutstanding).await,
        Err(LinkError::Refused(_))
    ));
    assert!(matches!(GrpcDialer.dial("127.0.0.1:1").await, Err(LinkError::Unreachable(_))));
}

#[tokio::test]
async fn a_session_is_opened_speaks_both_ways_and_is_closed_once() {
    let mut rig = Rig::start(100).await;
    let (uplink, mut downlink) = rig.link.open(heartbeat(7, 1)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(7));
    assert_eq!(rig.next_seen().await, Seen::Received(7, 1));
    uplink.reserve().await.unwrap().send(heartbeat(7, 2));
    assert_eq!(rig.next_seen().await, Seen::Received(7, 2));
    let outbox = rig.outbox();
    outbox.send(v1::ToWorker { leader_epoch: 3, ask_outstanding: true, ..Default::default() }).unwrap();
    assert_eq!(hear(&mut downlink).await.unwrap().leader_epoch, 3);
    drop((uplink, downlink));
    assert_eq!(rig.next_seen().await, Seen::Closed(7));
    assert!(outbox.is_closed());
    assert_eq!(outbox.send(v1::ToWorker::default()), Err(Overflow));
    // Nothing further: the next thing seen is of the next session.
    let _streams = rig.link.open(heartbeat(8, 0)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(8));
}

#[tokio::test]
async fn a_worker_that_vanishes_is_closed_too() {
    let mut rig = Rig::start(100).await;
    let streams = rig.link.open(heartbeat(7, 0)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(7));
    assert_eq!(rig.next_seen().await, Seen::Received(7, 0));
    // The connection goes away while its streams are open.
    let Rig { mut seen, link, .. } = rig;
    drop((link, streams));
    let last = tokio::time::timeout(LIMIT, seen.recv()).await.expect("never closed");
    assert_eq!(last, Some(Seen::Closed(7)));
}

#[tokio::test]
async fn a_refused_session_hears_why_and_is_never_closed() {
    let mut rig = Rig::start(100).await;
    let (_uplink, mut downlink) = rig.link.open(heartbeat(0, 0)).await.unwrap();
    assert_eq!(hear_closing(&mut downlink).await.leader_url, "http://b");
    let _streams = rig.link.open(heartbeat(1, 0)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(1));
}

#[tokio::test]
async fn a_message_of_another_session_ends_the_stream() {
    let mut rig = Rig::start(100).await;
    let (uplink, mut downlink) = rig.link.open(heartbeat(7, 0)).await.unwrap();
    uplink.reserve().await.unwrap().send(heartbeat(6, 9));
    assert_eq!(CloseReason::of(&hear_closing(&mut downlink).await), Some(CloseReason::StaleSession));
    assert_eq!(rig.next_seen().await, Seen::Opened(7));
    assert_eq!(rig.next_seen().await, Seen::Received(7, 0));
    assert_eq!(rig.next_seen().await, Seen::Closed(7));
}

#[tokio::test]
async fn the_next_message_waits_for_the_hub_while_the_leader_may_still_speak() {
    let mut rig = Rig::start(1).await;
    let (uplink, mut downlink) = rig.link.open(heartbeat(7, 0)).await.unwrap();
    assert_eq!(rig.next_seen().await, Seen::Opened(7));
    assert_eq!(rig.next_seen().await, Seen::Received(7, 0));
    uplink.reserve().await.unwrap().send(heartbeat(7, 1));
    uplink.reserve().await.unwrap().send(heartbeat(7, 2));
    rig.outbox().send(v1::ToWorker { ask_outstanding: true, ..Default::default() }).unwrap();
    assert!(hear(&mut downlink).await.unwrap().ask_outstanding);
    assert!(rig.seen.try_recv().is_err(), "the hub was handed a message while it was busy");
    rig.hub.permits.add_permits(2);
    assert_eq!(rig.next_seen().await, Seen::Received(7, 1));
    assert_eq!(rig.next_seen().await, Seen::Received(7, 2));
}

#[tokio::test]
async fn shutdown_ends_every_session_and_the_server() {
    let mut rig = Rig::start(100).await;
    let (_uplink, mut downlink) = rig.link.open(heartbeat(7, 0)).await.unwrap();
    rig.stop.take().unwrap().send(()).unwrap();
    assert_eq!(CloseReason::of(&hear_closing(&mut downlink).await), Some(CloseReason::Shutdown));
    tokio::time::timeout(LIMIT, rig.server).await.expect("the server does not end").unwrap().unwrap();
}

#[tokio::test]
async fn logs_flow_until_nobody_listens() {
    let mut rig = Rig::start(100).await;
    let (chunks, queue) = mpsc::channel(1);
    let link = rig.link.clone();
    let sending = tokio::spawn(async move { link.send_logs(queue).await });
    for offset in 0..3 {
        // Only the first chunk has to prove whose it is.
        let secret = (offset == 0).then(|| v1::Secret { value: SECRET.to_vec() });
        chunks.send(v1::LogChunk { offset, secret, ..Default::default() }).await.unwrap();
        assert_eq!(rig.next_seen().await, Seen::Chunk(offset));
    }
    tokio::time::timeout(LIMIT, sending).await.expect("still sending").unwrap().unwrap();
    tokio::time::timeout(LIMIT, chunks.closed()).await.expect("the source is not told");
}
