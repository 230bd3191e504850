//! A worker's socket until it has said what it speaks: whoever connects and says nothing is let go.
//!
//! HTTP/2 pings find a peer that falls silent, but they begin only after its preface. Without this a port scanner, or a
//! balancer that probes, would keep a socket for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`
const PREFACE_BYTES: usize = 24;
const GREETING_LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Greeting {
    stream: TcpStream,
    /// Until the whole preface is here: how much of it lacks, and until when it may.
    waiting: Option<(usize, Pin<Box<Sleep>>)>,
}

impl Greeting {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, waiting: Some((PREFACE_BYTES, Box::pin(sleep(GREETING_LIMIT)))) }
    }
}

impl Connected for Greeting {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Greeting {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some((lacks, limit)) = &mut self.waiting else { return read };
        match read {
            Poll::Ready(Ok(())) => {
                *lacks = lacks.saturating_sub(buffer.filled().len() - before);
                if *lacks == 0 {
                    self.waiting = None;
                }
                read
            }
            Poll::Pending if limit.as_mut().poll(cx).is_ready() => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer says nothing")))
            }
            other => other,
        }
    }
}

impl AsyncWrite for Greeting {
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
