//! Keeps web pages from acting as clients: an operator's browser can reach this server, and so can every page it shows.
//!
//! | a request | is refused |
//! |---|---|
//! | for a host that the operator did not give (`hosts`) | 421, whatever it asks |
//! | that may change something, with an `Origin` of another page | 403 |
//! | that may change something, with a `Sec-Fetch-Site` other than `same-origin` or `none` | 403 |
//! | that may change something, from a browser, with neither a JSON content type nor an `X-Grid-` header | 403 |
//!
//! The last line stops what browsers send without asking first ("simple" requests: forms, `fetch` with `no-cors`), should a
//! browser leave out both headers above it. `same-site` is refused too: every port of one host is the same site.
//! Reads need no check of the origin: no answer carries CORS headers, so a browser keeps it from other pages.
//! Clients that are no browsers send none of these headers, and nothing changes for them.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use grid_types::Code;

use crate::http::hosts::Hosts;
use crate::http::refused::Refused;

/// Where a request came in. An extension of the request; `serve` sets it.
#[derive(Debug, Clone, Default)]
pub struct Reached {
    pub hosts: Arc<Hosts>,
    /// The address that the client dialled.
    pub local: Option<IpAddr>,
    /// The client's own.
    pub from: Option<IpAddr>,
}

/// Before everything else: a page that may not ask learns nothing about the role or the path either.
pub async fn admit(request: Request, next: Next) -> Response {
    let reached = request.extensions().get::<Reached>().cloned();
    let on_a_socket = reached.is_some();
    let reached = reached.unwrap_or_default();
    let checked = if on_a_socket { one_host(&request) } else { Ok(()) };
    match checked.and_then(|()| check(&reached, &request)) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// RFC 9112, 3.2: a request without exactly one `Host` is 400, except that HTTP/1.0 may leave it out.
fn one_host(request: &Request) -> Result<(), Refused> {
    let problem = match (request.headers().get_all(HOST).iter().count(), request.version()) {
        (1, _) | (0, Version::HTTP_09 | Version::HTTP_10) => return Ok(()),
        (0, _) => "is missing: HTTP/1.1 requires it",
        _ => "must be given once",
    };
    Err(Refused::of_field(Code::BadRequest, "Host", problem))
}

fn check(reached: &Reached, request: &Request) -> Result<(), Refused> {
    let headers = request.headers();
    let mut asked = None;
    // An absolute address in the request line counts as the host, too. Without any (HTTP/1.0) the client is no browser.
    let in_line = request.uri().authority().map(|authority| authority.as_str().to_owned());
    for host in in_line.into_iter().chain(headers.get_all(HOST).iter().map(text)) {
        if !reached.hosts.answer_for(&host, reached.local) {
            return Err(wrong_host(&host));
        }
        asked = Some(host);
    }
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    for origin in headers.get_all(ORIGIN).iter().map(text) {
        if !reached.hosts.is_own_origin(&origin, asked.as_deref()) {
            return Err(foreign("Origin", &origin));
        }
    }
    for site in headers.get_all("sec-fetch-site").iter().map(text) {
        if !matches!(site.as_str(), "same-origin" | "none") {
            return Err(foreign("Sec-Fetch-Site", &site));
        }
    }
    if is_from_a_browser(headers) && !is_deliberate(headers) {
        let problem = "a browser must send Content-Type: application/json, or any header that begins with X-Grid-";
        return Err(Refused::of_field(Code::Forbidden, "Content-Type", problem));
    }
    Ok(())
}

fn is_from_a_browser(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| *name == ORIGIN || name.as_str().starts_with("sec-fetch-"))
}

/// Neither can be sent to another origin without asking this server first.
fn is_deliberate(headers: &HeaderMap) -> bool {
    let is_json =
        |kind: String| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    headers.get(CONTENT_TYPE).map(text).is_some_and(is_json)
        || headers.keys().any(|name| name.as_str().starts_with("x-grid-"))
}

fn wrong_host(host: &str) -> Refused {
    let problem = format!(
        "{:?} is not a host that this controller answers for; if clients use that name, start it with --allow-host",
        shown(host)
    );
    Refused::of_field(Code::WrongHost, "Host", problem)
}

fn foreign(header: &str, value: &str) -> Refused {
    let problem = format!("{:?}: a web page of another origin may not change anything here", shown(value));
    Refused::of_field(Code::Forbidden, header, problem)
}

fn shown(value: &str) -> String {
    value.chars().take(100).collect()
}

fn text(value: &axum::http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
