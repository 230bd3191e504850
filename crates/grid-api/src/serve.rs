//! Accepts connections and serves the router on them until shutdown.
//!
//! No client holds a connection for nothing: headers, bodies, answers and goodbyes each have a time. Connections are
//! bounded; beyond the bound new ones are answered 503 and closed.
//! Not here: TLS.
//! `axum::serve` is not used: it sets no timer, and without one hyper waits for headers for ever.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use grid_controller::Control;
use grid_proto::listen::Places;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_types::Code;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::http::body::BodyPatience;
use crate::http::browser::Reached;
use crate::http::hosts::Hosts;
use crate::http::streams::Streams;
use crate::http::wire::{SocketPatience, Wire};
use crate::router::router;

/// Request line and headers of one request.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// After a failure to accept that is not the client's, most likely too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The answer to a client beyond the bound, as far as its socket takes it at once. By its code a client asks again, or asks
/// another controller.
static FULL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let message = "this controller has no place for another client; try again, or ask another controller";
    let body = format!("{{\"error\":\"{}\",\"message\":\"{message}\",\"details\":[]}}", Code::NoQuorum.word());
    let head =
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
});

/// How long clients may keep the server waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the headers of the next request; also how long an idle connection is kept.
    pub(crate) headers: Duration,
    pub(crate) body: BodyPatience,
    pub(crate) socket: SocketPatience,
    /// For requests under way when the server stops.
    pub(crate) grace: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(30),
            body: BodyPatience::default(),
            socket: SocketPatience {
                stall: Duration::from_secs(30),
                linger_idle: Duration::from_secs(1),
                linger: Duration::from_secs(15),
            },
            grace: Duration::from_secs(10),
        }
    }
}

/// Whom the API serves.
#[derive(Debug, Clone)]
pub struct Audience {
    pub hosts: Hosts,
    /// Connections at once; three quarters of them may be streams.
    pub connections: usize,
}

/// Serves the API on `listener` until `shutdown` is ready; requests under way then have 10 s to end.
pub async fn serve<C: Control>(
    listener: TcpListener,
    control: C,
    audience: Audience,
    shutdown: impl Future,
) -> io::Result<()> {
    serve_with(listener, router(control), audience, Patience::default(), shutdown).await;
    Ok(())
}

pub(crate) async fn serve_with(
    listener: TcpListener,
    router: Router,
    audience: Audience,
    patience: Patience,
    shutdown: impl Future,
) {
    let hosts = Arc::new(audience.hosts);
    let places = Places::new(Port::Api, Kind::TooManyConnections, audience.connections);
    let streams = Places::new(Port::Api, Kind::TooManyStreams, (audience.connections / 4 * 3).max(1));
    let (closing, _) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    let Some(place) = places.take() else {
                        let _ = stream.try_write(&FULL);
                        continue;
                    };
                    let reached = Reached {
                        hosts: Arc::clone(&hosts),
                        local: stream.local_addr().ok().map(|address| address.ip()),
                        from: Some(from.ip()),
                    };
                    let streams = Streams { closing: closing.subscribe(), places: Arc::clone(&streams) };
                    let served = connection(stream, router.clone(), reached, patience, streams);
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    places.cannot_accept(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    closing.send_replace(());
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(patience.grace, ended).await.is_err() {
        tracing::warn!(left = connections.len(), "API requests did not end in time and are cut off");
        connections.shutdown().await;
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn connection(stream: TcpStream, router: Router, reached: Reached, patience: Patience, streams: Streams) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    let mut closing = streams.closing.clone();
    let has_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&has_asked);
    let service = router.map_request(move |request: hyper::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(patience.body);
        request.extensions_mut().insert(streams.clone());
        request.extensions_mut().insert(reached.clone());
        request
    });
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience.headers)
            .max_buf_size(MAX_HEADER_BYTES)
            .serve_connection(TokioIo::new(Wire::new(stream, patience.socket)), TowerToHyperService::new(service))
    );
    let result = tokio::select! {
        result = served.as_mut() => result,
        _ = closing.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
        if error.is_parse() {
            refuse(Port::Api, Kind::Malformed, format_args!("a request that is not HTTP/1.1"));
        } else if error.is_timeout() && !has_asked.load(Ordering::Relaxed) {
            refuse(Port::Api, Kind::Silent, format_args!("a connection without a request"));
        }
    }
}
