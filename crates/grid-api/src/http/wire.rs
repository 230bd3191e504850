//! A client's socket as the server sees it: a client that does not read is dropped, one that still writes is let finish.
//!
//! A refusal may leave a body unread. Closing such a socket resets the connection, and the reset can overtake the
//! answer; so the end of the answer is sent first and what still comes is discarded for a bounded time.
//! Not here: slow requests (hyper's header timeout, `body`).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How long a socket may keep the server waiting.
#[derive(Debug, Clone, Copy)]
pub struct SocketPatience {
    /// For a client to take the next bytes of an answer.
    pub stall: Duration,
    /// For a client that was answered to send more or to close.
    pub linger_idle: Duration,
    /// For all of that together.
    pub linger: Duration,
}

pub struct Wire {
    stream: TcpStream,
    patience: SocketPatience,
    /// Runs while a write waits.
    stall: Option<Pin<Box<Sleep>>>,
    /// Runs once this side has ended: the idle timer, and when it is over in any case.
    linger: Option<(Pin<Box<Sleep>>, Instant)>,
    has_ended: bool,
}

impl Wire {
    pub fn new(stream: TcpStream, patience: SocketPatience) -> Self {
        Self { stream, patience, stall: None, linger: None, has_ended: false }
    }

    fn watched<T>(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stall = None;
            return wrote;
        }
        let patience = self.patience.stall;
        let timer = self.stall.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }

    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let SocketPatience { linger_idle, linger, .. } = self.patience;
        let (timer, end) = self.linger.get_or_insert_with(|| (Box::pin(sleep(linger_idle)), Instant::now() + linger));
        let mut discarded = [0; 8192];
        loop {
            let mut buffer = ReadBuf::new(&mut discarded);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let now = Instant::now();
                    if now >= *end {
                        return Poll::Ready(());
                    }
                    timer.set(sleep_until((now + linger_idle).min(*end)));
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return timer.as_mut().poll(cx),
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.has_ended |= buffer.filled().len() == before && buffer.remaining() > 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watched(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watched(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        if !self.has_ended {
            ready!(self.poll_linger(cx));
            self.has_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}
