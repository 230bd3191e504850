//! Answers that do not end by themselves: bodies that a task writes piece by piece.
//!
//! A client that reads slowly makes the task wait (at most [`AHEAD`] pieces are ready for it), one that goes away ends it,
//! and so does the end of the server: a stream must not hold up an orderly stop. When there is nothing to say for
//! [`HEARTBEAT`], the task says so, so that both ends notice a broken connection.
//! The body owns its task: it ends with the body, and a panic of it breaks the body off instead of ending it as if it were whole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use grid_proto::listen::{Place, Places};
use grid_types::Code;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::Stream;

use crate::http::refused::Refused;

pub const HEARTBEAT: Duration = Duration::from_secs(10);
const AHEAD: usize = 4;

/// What streams share. An extension of the request; `serve` sets it.
#[derive(Debug, Clone)]
pub struct Streams {
    /// Changes when the server stops.
    pub closing: watch::Receiver<()>,
    /// Streams last: without a bound of their own they would take every connection.
    pub places: Arc<Places>,
}

/// The right to one stream, and when it has to end.
#[derive(Debug)]
pub struct Closing {
    closing: Option<watch::Receiver<()>>,
    _place: Option<Place>,
}

impl<S: Sync> FromRequestParts<S> for Closing {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let Some(streams) = parts.extensions.get::<Streams>() else {
            return Ok(Self { closing: None, _place: None });
        };
        let full = || {
            let most = streams.places.most();
            Refused::new(
                Code::QueueFull,
                format!("this controller already has {most} streams; ask another, or try again"),
            )
        };
        let place = streams.places.take().ok_or_else(full)?;
        Ok(Self { closing: Some(streams.closing.clone()), _place: Some(place) })
    }
}

impl Closing {
    pub async fn changed(&mut self) {
        match &mut self.closing {
            // An ended channel is a server that is gone.
            Some(closing) => drop(closing.changed().await),
            None => std::future::pending().await,
        }
    }
}

type Pieces = mpsc::Sender<Result<Bytes, io::Error>>;

/// A body of `first`, then what `write` makes of each item; an error breaks it off, so that nobody takes it for whole.
/// One without a `heartbeat` is bytes and nothing else.
pub fn body<T: Send + 'static>(
    mut items: mpsc::Receiver<T>,
    mut closing: Closing,
    first: Bytes,
    heartbeat: &'static str,
    mut write: impl FnMut(T) -> Result<Bytes, String> + Send + 'static,
) -> Body {
    let (pieces, queue): (Pieces, _) = mpsc::channel(AHEAD);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut piece = first;
        loop {
            if !piece.is_empty() && pieces.send(Ok(piece)).await.is_err() {
                return;
            }
            piece = tokio::select! {
                item = items.recv() => match item {
                    Some(item) => match write(item) {
                        Ok(piece) => piece,
                        Err(why) => {
                            let _ = pieces.send(Err(io::Error::other(why))).await;
                            return;
                        }
                    },
                    None => return,
                },
                () = tokio::time::sleep(HEARTBEAT) => Bytes::from_static(heartbeat.as_bytes()),
                () = closing.changed() => {
                    // Bytes alone cannot say that they are not all.
                    if heartbeat.is_empty() {
                        let _ = pieces.send(Err(io::Error::other("the server stops"))).await;
                    }
                    return;
                }
                () = pieces.closed() => return,
            };
        }
    });
    Body::from_stream(Written { queue, task })
}

/// What a task writes, and the task.
struct Written {
    queue: mpsc::Receiver<Result<Bytes, io::Error>>,
    task: JoinSet<()>,
}

impl Stream for Written {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.queue.poll_recv(cx) {
            Poll::Ready(None) => self.task.poll_join_next(cx).map(|ended| match ended {
                Some(Err(error)) => Some(Err(io::Error::other(error))),
                Some(Ok(())) | None => None,
            }),
            piece => piece,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use tokio::sync::mpsc;

    use super::{Closing, body};

    fn never() -> Closing {
        Closing { closing: None, _place: None }
    }

    #[tokio::test]
    async fn a_body_whose_task_panics_breaks_off() {
        let (items, taken) = mpsc::channel(2);
        for item in [b"whole".as_slice(), b"bad"] {
            items.send(item).await.unwrap();
        }
        drop(items);
        let write = |item: &'static [u8]| {
            assert_ne!(item, b"bad", "planted");
            Ok(Bytes::from_static(item))
        };
        let broken = body(taken, never(), Bytes::new(), "", write);
        assert!(axum::body::to_bytes(broken, usize::MAX).await.is_err());
        let (items, taken) = mpsc::channel(2);
        items.send(b"whole".as_slice()).await.unwrap();
        drop(items);
        let whole = body(taken, never(), Bytes::new(), "", |item| Ok(Bytes::from_static(item)));
        assert_eq!(axum::body::to_bytes(whole, usize::MAX).await.unwrap(), "whole");
    }

    #[tokio::test]
    async fn the_task_of_a_body_ends_with_it() {
        let (items, taken) = mpsc::channel::<&'static [u8]>(2);
        let dropped = body(taken, never(), Bytes::new(), "", |item| Ok(Bytes::from_static(item)));
        drop(dropped);
        items.closed().await;
    }
}
