//! A scripted HTTP server on a free loopback port: it records every request and passes it to a closure.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path_and_query: String,
    pub key: Option<String>,
    pub body: Value,
}

pub struct Fake {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    /// `script` gets the number of the request, from 0, and the request.
    pub async fn start(script: impl Fn(usize, &Seen) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (Arc::clone(&seen), Arc::new(script));
        let router = Router::new().fallback(move |request: Request| {
            let (log, script) = (Arc::clone(&log), Arc::clone(&script));
            async move {
                let request = read(request).await;
                let number = {
                    let mut log = log.lock().unwrap();
                    log.push(request.clone());
                    log.len() - 1
                };
                let (status, body) = script(number, &request);
                let text = if let Value::String(plain) = body { plain } else { body.to_string() };
                let mut response = Response::new(Body::from(text));
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                response
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { addr, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// An address that refuses connections: bound, so that no other test gets it, but not listening.
pub struct Nobody {
    pub url: String,
    _socket: tokio::net::TcpSocket,
}

pub fn nobody() -> Nobody {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    Nobody { url: format!("http://{}", socket.local_addr().unwrap()), _socket: socket }
}

async fn read(request: Request) -> Seen {
    let (head, body) = request.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    Seen {
        method: head.method.to_string(),
        path_and_query: head.uri.path_and_query().unwrap().to_string(),
        key: head.headers.get("idempotency-key").map(|v| v.to_str().unwrap().to_owned()),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}
