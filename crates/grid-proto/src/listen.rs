//! Listeners with a bound: no number of clients may take the open files that the rest of the process needs.
//!
//! ```text
//!   accept --place left?--yes--> valid call within 15 s --> calls … --no call for a while--> closed
//!                       |                            \\--none--> closed, counted
//!                        \--no--> the oldest without a valid call is closed instead, counted (`refusals`); if there is none: closed at once
//! ```
//!
//! A failure to accept (most likely too many open files) is logged and tried again; it never ends the listener.
//! HTTP/2 pings find a peer that falls silent, but they begin only after its preface, and a peer that answers them without ever
//! asking for anything would keep its connection for good: so a connection counts as used only while a call is open on it, and
//! before its first valid call ([`Caller::prove`], which the service calls) not even then.
//! Not here: how many places a listener has (`grid::open_files`).

mod connection;
mod counted;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};
use tonic::codegen::tokio_stream::Stream;

use connection::Shared;
pub use connection::{Caller, Connection};
pub use counted::Counted;

use crate::refusals::{Kind, Port, refuse};

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
    /// Oldest first; some of them have made a valid call since, or are gone.
    unproven: VecDeque<Weak<Shared>>,
}

impl Incoming {
    #[must_use]
    pub fn new(listener: TcpListener, places: Arc<Places>, idle: Duration) -> Self {
        Self { listener, places, idle, pause: None, unproven: VecDeque::new() }
    }

    /// A free place, or that of the oldest connection that has not made a valid call.
    fn place(&mut self) -> Option<Place> {
        if let Some(place) = self.places.take() {
            return Some(place);
        }
        while let Some(oldest) = self.unproven.pop_front() {
            if let Some(place) = oldest.upgrade().and_then(|oldest| oldest.give_up()) {
                return Some(place);
            }
        }
        None
    }

    fn watch(&mut self, shared: &Arc<Shared>) {
        if self.unproven.len() >= 2 * self.places.most + 16 {
            self.unproven.retain(|shared| shared.upgrade().is_some_and(|shared| !shared.is_proven()));
        }
        self.unproven.push_back(Arc::downgrade(shared));
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
                    let Some(place) = self.place() else { continue };
                    // The only error is a connection that has ended, which its first read tells.
                    let _ = stream.set_nodelay(true);
                    let connection = Connection::new(stream, place, self.idle);
                    self.watch(&connection.shared);
                    return Poll::Ready(Some(Ok(connection)));
                }
                Err(error) => {
                    self.places.cannot_accept(&error);
                    self.pause = Some(Box::pin(sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tonic::codegen::tokio_stream::StreamExt;
    use tonic::transport::server::Connected;

    use super::{Incoming, Places};
    use crate::refusals::{Kind, Port};

    #[tokio::test]
    async fn issue14_3_a_crowd_that_says_nothing_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let places = Places::new(Port::Grpc, Kind::TooManyConnections, 2);
        let mut incoming = Incoming::new(listener, Arc::clone(&places), Duration::from_secs(60));
        let mut clients = Vec::new();
        let mut next = async || {
            clients.push(TcpStream::connect(address).await.unwrap());
            tokio::time::timeout(Duration::from_secs(60), incoming.next()).await.expect("a place").unwrap().unwrap()
        };
        let proven = next().await;
        proven.connect_info().prove();
        let mut oldest = next().await;
        // Takes the place of the oldest that has said nothing, which is closed.
        let read = tokio::spawn(async move { oldest.read(&mut [0; 8]).await });
        let newer = next().await;
        let closed = tokio::time::timeout(Duration::from_secs(60), read).await.expect("closed").unwrap();
        assert_eq!(closed.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        newer.connect_info().prove();
        let one_too_many = TcpStream::connect(address).await.unwrap();
        assert!(places.take().is_none(), "both places are in use");
        drop((proven, newer));
        assert!(places.take().is_some());
        drop(one_too_many);
    }

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
            let connection = incoming.next().await.unwrap().unwrap();
            connection.connect_info().prove();
            served.push(connection);
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
