//! Listeners with a bound: no number of clients may take the open files that the rest of the process needs.
//!
//! ```text
//!   accept --place left?--yes--> valid call within 15 s --> calls … --no call for a while--> closed
//!                       |                            \\--none--> closed, counted
//!                        \--no--> closed at once, counted (`refusals`)
//! ```
//!
//! A failure to accept (most likely too many open files) is logged and tried again; it never ends the listener.
//! HTTP/2 pings find a peer that falls silent, but they begin only after its preface, and a peer that answers them without ever
//! asking for anything would keep its connection for good: so a connection counts as used only while a call is open on it, and
//! before its first valid call ([`Caller::prove`], said by whoever can tell) not even then.
//! Not here: how many places a listener has (`grid::open_files`).

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tonic::body::Body;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{BoxFuture, Bytes, Service, http};
use tonic::transport::server::{Connected, TcpConnectInfo};
use tonic::{Code, Status};

use crate::refusals::{Kind, Port, refuse};

/// From the connection to its first valid call.
const FIRST_CALL_LIMIT: Duration = Duration::from_secs(15);
/// After a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The same trouble of one listener is logged once in this time.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// How many connections a listener may have, and how many it has.
#[derive(Debug)]
pub struct Places {
    port: Port,
    kind: Kind,
    most: usize,
    taken: AtomicUsize,
    said: Mutex<Option<Instant>>,
}

/// One of them; given back when it is dropped.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// `kind`: as which one too many is counted.
    #[must_use]
    pub fn new(port: Port, kind: Kind, most: usize) -> Arc<Self> {
        Arc::new(Self { port, kind, most, taken: AtomicUsize::new(0), said: Mutex::default() })
    }

    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// None if all are taken, which is counted.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Option<Place> {
        let one_more = |taken: usize| (taken < self.most).then_some(taken + 1);
        if self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok() {
            return Some(Place(Arc::clone(self)));
        }
        let most = self.most;
        refuse(
            self.port,
            self.kind,
            format_args!("all {most} are taken; the number follows from the limit of open files"),
        );
        None
    }

    /// Logs that accepting failed, now and then.
    pub fn cannot_accept(&self, error: &io::Error) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
            *said = Some(Instant::now());
            let port = self.port.word();
            tracing::warn!(port, %error, "a connection cannot be accepted; is the limit of open files too low?");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The connections of a listener, never more than `places` at once. One without an open call for `idle` is closed.
pub struct Incoming {
    listener: TcpListener,
    places: Arc<Places>,
    idle: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Incoming {
    #[must_use]
    pub fn new(listener: TcpListener, places: Arc<Places>, idle: Duration) -> Self {
        Self { listener, places, idle, pause: None }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(cx)) {
                Ok((stream, _)) => {
                    let Some(place) = self.places.take() else { continue };
                    // The only error is a connection that has ended, which its first read tells.
                    let _ = stream.set_nodelay(true);
                    return Poll::Ready(Some(Ok(Connection::new(stream, place, self.idle))));
                }
                Err(error) => {
                    self.places.cannot_accept(&error);
                    self.pause = Some(Box::pin(sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// A socket that has a place, until it is idle for too long.
pub struct Connection {
    stream: TcpStream,
    /// Runs until a call was accepted.
    unproven: Option<Pin<Box<Sleep>>>,
    /// Runs while nothing is asked for.
    timer: Option<Pin<Box<Sleep>>>,
    idle: Duration,
    caller: Caller,
    place: Place,
}

impl Connection {
    fn new(stream: TcpStream, place: Place, idle: Duration) -> Self {
        let unproven = Some(Box::pin(sleep(FIRST_CALL_LIMIT)));
        let caller = Caller { tcp: stream.connect_info(), calls: Arc::default(), is_proven: Arc::default() };
        Self { stream, unproven, timer: None, idle, caller, place }
    }

    /// Whether nothing was asked for long enough.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> bool {
        if self.caller.is_proven.load(Ordering::Acquire) {
            self.unproven = None;
        }
        if let Some(limit) = &mut self.unproven {
            let is_over = limit.as_mut().poll(cx).is_ready();
            if is_over {
                let limit = FIRST_CALL_LIMIT.as_secs();
                refuse(
                    self.place.0.port,
                    Kind::Silent,
                    format_args!("a connection without a valid call for {limit} s"),
                );
            }
            return is_over;
        }
        if self.caller.calls.load(Ordering::Acquire) > 0 {
            self.timer = None;
            return false;
        }
        let idle = self.idle;
        self.timer.get_or_insert_with(|| Box::pin(sleep(idle))).as_mut().poll(cx).is_ready()
    }
}

/// Who calls, and over which connection.
#[derive(Debug, Clone)]
pub struct Caller {
    tcp: TcpConnectInfo,
    calls: Arc<AtomicUsize>,
    is_proven: Arc<AtomicBool>,
}

impl Caller {
    /// It has made a valid call: from now on its connection may stay for as long as it is used.
    pub fn prove(&self) {
        self.is_proven.store(true, Ordering::Release);
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.poll_idle(cx) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer asks for nothing")));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A service that tells its connections while a call is open, and counts calls that could not be read.
#[derive(Debug, Clone)]
pub struct Counted<S> {
    port: Port,
    service: S,
}

impl<S> Counted<S> {
    pub fn new(port: Port, service: S) -> Self {
        Self { port, service }
    }
}

impl<S> Service<http::Request<Body>> for Counted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let caller = request.extensions().get::<Caller>().cloned();
        let open = caller.map(|Caller { tcp, calls, .. }| {
            // Where tonic looks for the caller's address.
            request.extensions_mut().insert(tcp);
            Open::new(calls)
        });
        let port = self.port;
        let answered = self.service.call(request);
        Box::pin(async move {
            let response = answered.await?;
            count_unreadable(port, response.headers());
            Ok(response.map(|body| Body::new(OpenBody { body, _open: open })))
        })
    }
}

/// Refusals of a handler have it; see `grid-fabric`.
const HANDLERS_CODE: &str = "grid-code";

/// What tonic itself refuses, before any handler sees it.
fn count_unreadable(port: Port, headers: &http::HeaderMap) {
    let Some(code) = headers.get(Status::GRPC_STATUS).filter(|_| !headers.contains_key(HANDLERS_CODE)) else { return };
    match Code::from_bytes(code.as_bytes()) {
        Code::OutOfRange => refuse(port, Kind::TooLarge, format_args!("a message is larger than its call allows")),
        Code::Internal => refuse(port, Kind::Malformed, format_args!("a message cannot be read")),
        Code::Unimplemented => {
            refuse(port, Kind::Malformed, format_args!("an unknown call, or one in an unknown encoding"));
        }
        _ => {}
    }
}

/// A call, until its answer is gone.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(calls: Arc<AtomicUsize>) -> Self {
        calls.fetch_add(1, Ordering::AcqRel);
        Self(calls)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

struct OpenBody {
    body: Body,
    _open: Option<Open>,
}

impl http_body::Body for OpenBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tonic::codegen::tokio_stream::StreamExt;

    use super::{Incoming, Places};
    use crate::refusals::{Kind, Port};

    #[tokio::test]
    async fn issue13_connections_beyond_the_places_are_closed_and_places_come_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let places = Places::new(Port::Grpc, Kind::TooManyConnections, 2);
        let mut incoming = Incoming::new(listener, Arc::clone(&places), Duration::from_secs(60));
        let mut clients = Vec::new();
        let mut served = Vec::new();
        for _ in 0..2 {
            clients.push(TcpStream::connect(address).await.unwrap());
            served.push(incoming.next().await.unwrap().unwrap());
        }
        let mut third = TcpStream::connect(address).await.unwrap();
        let next = tokio::spawn(async move { incoming.next().await.unwrap().unwrap() });
        let closed = tokio::time::timeout(Duration::from_secs(60), third.read(&mut [0])).await.expect("it is closed");
        assert!(matches!(closed, Ok(0) | Err(_)));
        served.pop();
        let _fourth = TcpStream::connect(address).await.unwrap();
        tokio::time::timeout(Duration::from_secs(60), next).await.expect("a place is free").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn issue13_a_connection_that_asks_for_nothing_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut incoming =
            Incoming::new(listener, Places::new(Port::Grpc, Kind::TooManyConnections, 2), Duration::from_secs(30));
        let client = TcpStream::connect(address).await.unwrap();
        let mut served = incoming.next().await.unwrap().unwrap();
        let silent = served.read(&mut [0; 64]).await.unwrap_err();
        assert_eq!(silent.kind(), std::io::ErrorKind::TimedOut);
        drop(client);
    }
}
