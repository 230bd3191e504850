//! Knows which calls are open on a connection, and counts those that could not be read.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service, http};
use tonic::{Code, Status};

use super::connection::{Caller, Shared};
use crate::refusals::{Kind, Port, refuse};

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
        let open = caller.map(|Caller { tcp, shared }| {
            // Where tonic looks for the caller's address.
            request.extensions_mut().insert(tcp);
            Open::new(shared)
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
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: Arc<Shared>) -> Self {
        shared.calls.fetch_add(1, Ordering::AcqRel);
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
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
