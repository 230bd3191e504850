//! Reads request bodies: at most 1 MiB, within a time, JSON, strictly.
//!
//! Order: content type, size, arrival, JSON. An oversized body is refused as soon as its size is known; the rest of it
//! is discarded when the connection closes (`wire`).
//! Bodies that are still arriving are bounded together, not only each: few large ones at once (`arrivals`), while small ones,
//! which is what jobs are, wait for nobody.
//! Not here: what the fields mean (`jobs`, `decisions`).

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use grid_controller::{Caller, Introspect, Refusal};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_types::limits::MAX_BODY_BYTES;
use grid_types::{Code, Faults, strict};
use serde_json::{Map, Value};

use crate::http::arrivals::{Arrival, Arrivals};
use crate::http::browser::Reached;
use crate::http::guard::check_epoch;
use crate::http::refused::Refused;

/// Larger bodies need one of the places for large ones.
const SMALL_BODY_BYTES: usize = 64 * 1024;
static LARGE_BODIES: Arrivals = Arrivals::new();

/// How long a body may take to arrive. An extension of the request; `serve` sets it.
#[derive(Debug, Clone, Copy)]
pub struct BodyPatience(pub Duration);

impl Default for BodyPatience {
    fn default() -> Self {
        Self(Duration::from_secs(30))
    }
}

/// The JSON body of a request; `None` if it has none.
#[derive(Debug)]
pub struct JsonBody(pub Option<Value>);

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refused> {
        let patience = request.extensions().get::<BodyPatience>().copied().unwrap_or_default().0;
        let from = request.extensions().get::<Reached>().and_then(|reached| reached.from);
        let (parts, body) = request.into_parts();
        if body.is_end_stream() {
            return Ok(Self(None));
        }
        check_content_type(&parts.headers)?;
        check_encoding(&parts.headers)?;
        let bytes = match tokio::time::timeout(patience, collect(body, from)).await {
            Ok(collected) => collected?,
            Err(_) => {
                let message = format!("the body did not arrive within {} s; send it again", patience.as_secs());
                return Err(Refused::of_field(Code::BadRequest, "", message));
            }
        };
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        strict::json(&bytes).map(|value| Self(Some(value))).map_err(Refused::bad_request)
    }
}

/// The fields of a small body, `leader_epoch` checked and taken out. Left out, a body has none; every fault in it is
/// named at once, by [`Fields::finish`].
pub struct Fields {
    map: Map<String, Value>,
    faults: Faults,
}

impl Fields {
    /// `known`: the fields that are allowed besides `leader_epoch`.
    pub fn of<C: Introspect>(
        control: &C,
        caller: &mut Caller,
        body: Option<Value>,
        known: &[&str],
    ) -> Result<Self, Refused> {
        let mut faults = Faults::default();
        let mut map = match body {
            None => Map::new(),
            Some(Value::Object(map)) => map,
            Some(_) => {
                faults.add("", "the body must be an object");
                return Err(Refusal::invalid(faults).into());
            }
        };
        take_epoch(control, caller, &mut map, &mut faults)?;
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let shown: String = name.chars().take(60).collect();
            let known: Vec<_> = known.iter().chain(&["leader_epoch"]).copied().collect();
            faults.add(shown, format!("unknown field; known here: {}", known.join(", ")));
        }
        Ok(Self { map, faults })
    }

    /// A field that may be left out; null is left out.
    pub fn optional<T>(&mut self, name: &str, wanted: &str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        let value = self.map.get(name).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.faults.add(name, format!("must be {wanted}"));
        }
        read
    }

    /// A field that must be there; `None` comes with a fault.
    pub fn required<T>(&mut self, name: &str, wanted: &str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        if self.map.get(name).is_none_or(Value::is_null) {
            self.faults.add(name, format!("is required: {wanted}"));
            return None;
        }
        self.optional(name, wanted, read)
    }

    /// A field whose reader names each of its faults; null counts as left out.
    pub fn nested<T>(&mut self, name: &str, read: impl FnOnce(&Value, &mut Faults) -> Option<T>) -> Option<T> {
        let value = self.map.get(name).filter(|value| !value.is_null())?;
        read(value, &mut self.faults)
    }

    pub fn fault(&mut self, name: &str, problem: &str) {
        self.faults.add(name, problem);
    }

    /// 422 if anything was wrong.
    pub fn finish(self) -> Result<(), Refused> {
        if self.faults.list().is_empty() { Ok(()) } else { Err(self.refused()) }
    }

    /// 422 with what was wrong.
    pub fn refused(self) -> Refused {
        Refusal::invalid(self.faults).into()
    }
}

/// Takes `leader_epoch` out of a body and refuses any but the current one; what the caller asks for takes effect only under
/// it (E9). A value that is no epoch at all is a fault for the caller to report with the others.
pub fn take_epoch<C: Introspect>(
    control: &C,
    caller: &mut Caller,
    body: &mut Map<String, Value>,
    faults: &mut Faults,
) -> Result<(), Refused> {
    match body.remove("leader_epoch") {
        None | Some(Value::Null) => Ok(()),
        Some(value) => match value.as_u64() {
            Some(given) => {
                check_epoch(control, Some(given))?;
                caller.epoch = Some(given);
                Ok(())
            }
            None => {
                faults.add("leader_epoch", "must be a whole number, as /role shows it");
                Ok(())
            }
        },
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refused> {
    let Some(given) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let kind = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let shown: String = kind.chars().take(80).collect();
    let problem = format!("{shown:?} is not taken; send application/json");
    Err(Refused::of_field(Code::UnsupportedMedia, "Content-Type", problem))
}

/// Without this check a compressed body would be refused as bad JSON, which is misleading.
fn check_encoding(headers: &HeaderMap) -> Result<(), Refused> {
    match headers.get(CONTENT_ENCODING) {
        None => Ok(()),
        Some(given) if given.as_bytes().eq_ignore_ascii_case(b"identity") => Ok(()),
        Some(_) => {
            let problem = "is not taken; send the body as it is";
            Err(Refused::of_field(Code::UnsupportedMedia, "Content-Encoding", problem))
        }
    }
}

async fn collect(mut body: Body, from: Option<IpAddr>) -> Result<Vec<u8>, Refused> {
    let known = body.size_hint().lower();
    if known > MAX_BODY_BYTES as u64 {
        return Err(too_large());
    }
    let broke_off =
        |e: &dyn std::fmt::Display| Refused::of_field(Code::BadRequest, "", format!("the body broke off: {e}"));
    let mut place = None;
    let mut bytes = Vec::new();
    loop {
        let next = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let frame = tokio::select! {
            frame = next => frame,
            () = refused(place.as_ref()) => return Err(too_slow()),
        };
        let Some(frame) = frame else { break };
        // Trailers carry nothing that is used here.
        let Ok(data) = frame.map_err(|e| broke_off(&e))?.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        match &place {
            Some(place) => Arrival::progressed(place, data.len()),
            // The socket's own window holds the rest meanwhile.
            None if bytes.len() + data.len() > SMALL_BODY_BYTES => place = Some(LARGE_BODIES.take(from).await),
            None => {}
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Resolves when the body has to make way for another one.
async fn refused(place: Option<&Arrival<'_>>) {
    match place {
        Some(place) => place.refused().await,
        None => std::future::pending().await,
    }
}

fn too_slow() -> Refused {
    refuse(Port::Api, Kind::Silent, format_args!("a body arrives too slowly while others wait for its place"));
    let message = "the body arrives too slowly while other clients wait for its place; send it again";
    Refused::of_field(Code::BadRequest, "", message)
}

fn too_large() -> Refused {
    let message = format!("the body has more than {MAX_BODY_BYTES} bytes; split the work into several jobs");
    Refused::of_field(Code::TooLarge, "", message)
}
