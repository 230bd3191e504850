//! Tracks one connection of a listener: its place, its times, and whether it has made a valid call.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::Place;
use crate::refusals::{Kind, Port, refuse};

/// From the connection to its first valid call.
const FIRST_CALL_LIMIT: Duration = Duration::from_secs(15);

/// What a connection shares with its calls, and with the listener.
#[derive(Debug)]
pub(super) struct Shared {
    /// Open calls.
    pub(super) calls: AtomicUsize,
    /// It has made a valid call.
    is_proven: AtomicBool,
    /// None: another connection has it.
    place: Mutex<Option<Place>>,
    /// Of the task that reads, while it is not proven.
    reader: Mutex<Option<Waker>>,
}

impl Shared {
    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Acquire)
    }

    /// The place of a connection that is not proven; its reader closes it.
    pub(super) fn give_up(&self) -> Option<Place> {
        if self.is_proven() {
            return None;
        }
        let place = lock(&self.place).take();
        if let Some(reader) = lock(&self.reader).take() {
            reader.wake();
        }
        place
    }
}

/// A socket that has a place, until it is idle for too long.
pub struct Connection {
    stream: TcpStream,
    port: Port,
    /// Runs until a call was accepted.
    unproven: Option<Pin<Box<Sleep>>>,
    /// Runs while nothing is asked for.
    timer: Option<Pin<Box<Sleep>>>,
    idle: Duration,
    pub(super) shared: Arc<Shared>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, place: Place, idle: Duration) -> Self {
        let port = place.0.port;
        let shared = Shared {
            calls: AtomicUsize::new(0),
            is_proven: AtomicBool::new(false),
            place: Mutex::new(Some(place)),
            reader: Mutex::default(),
        };
        let unproven = Some(Box::pin(sleep(FIRST_CALL_LIMIT)));
        Self { stream, port, unproven, timer: None, idle, shared: Arc::new(shared) }
    }

    /// Whether nothing was asked for long enough.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> bool {
        match self.shared.is_proven() {
            true => self.unproven = None,
            false if self.unproven.is_none() => self.unproven = Some(Box::pin(sleep(FIRST_CALL_LIMIT))),
            false => {}
        }
        if let Some(limit) = &mut self.unproven {
            *lock(&self.shared.reader) = Some(cx.waker().clone());
            if lock(&self.shared.place).is_none() {
                return true;
            }
            let is_over = limit.as_mut().poll(cx).is_ready();
            if is_over {
                let limit = FIRST_CALL_LIMIT.as_secs();
                refuse(self.port, Kind::Silent, format_args!("a connection without a valid call for {limit} s"));
            }
            return is_over;
        }
        if self.shared.calls.load(Ordering::Acquire) > 0 {
            self.timer = None;
            return false;
        }
        let idle = self.idle;
        self.timer.get_or_insert_with(|| Box::pin(sleep(idle))).as_mut().poll(cx).is_ready()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A call may outlive it, with what they share.
        lock(&self.shared.place).take();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who calls, and over which connection.
#[derive(Debug, Clone)]
pub struct Caller {
    pub(super) tcp: TcpConnectInfo,
    pub(super) shared: Arc<Shared>,
}

impl Caller {
    /// It has made a valid call: from now on its connection may stay for as long as it is used.
    pub fn prove(&self) {
        self.shared.is_proven.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.shared.is_proven()
    }

    /// The call was refused after all: its connection has as long as a new one for a valid call.
    pub fn disprove(&self) {
        self.shared.is_proven.store(false, Ordering::Release);
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        Caller { tcp: self.stream.connect_info(), shared: Arc::clone(&self.shared) }
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
