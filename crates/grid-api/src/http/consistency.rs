//! `?consistency=strong` on reads of the state, on any controller (E6); `stale`, the default, may be said too. Not on `/role`
//! and `/status`, which describe one controller, nor on `…/logs`, a stream.
//!
//! The parameter is taken out of the query before the handler reads it, so that no handler has to know it.
//! Not here: how a read is made current (`Introspect::read_barrier`).

use axum::extract::{Query, Request, State};
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use grid_controller::Introspect;
use grid_types::Faults;

use crate::http::refused::Refused;

const NAME: &str = "consistency";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Stale,
    Strong,
}

/// Waits until this controller can answer as strongly as was asked.
pub async fn wait<C: Introspect>(State(control): State<C>, mut request: Request, next: Next) -> Response {
    let wanted = match wanted(request.uri()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(wanted)) => wanted,
        Err(refused) => return refused.into_response(),
    };
    if wanted == Wanted::Strong
        && let Err(refusal) = control.read_barrier().await
    {
        return Refused::from(refusal).into_response();
    }
    if let Some(uri) = without(request.uri()) {
        *request.uri_mut() = uri;
    }
    next.run(request).await
}

fn wanted(uri: &Uri) -> Result<Option<Wanted>, Refused> {
    // A query that cannot be read is the handler's to refuse.
    let given = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(given)| given).unwrap_or_default();
    let mut values = given.iter().filter(|(name, _)| name == NAME).map(|(_, value)| value.as_str());
    let problem = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some("strong"), None) => return Ok(Some(Wanted::Strong)),
        (Some("stale"), None) => return Ok(Some(Wanted::Stale)),
        (Some(_), None) => "must be one of strong, stale",
        (Some(_), Some(_)) => "is given more than once",
    };
    let mut faults = Faults::default();
    faults.add(NAME, problem);
    Err(Refused::bad_request(faults))
}

fn without(uri: &Uri) -> Option<Uri> {
    let rest: Vec<&str> = uri.query()?.split('&').filter(|pair| pair.split('=').next() != Some(NAME)).collect();
    let path = if rest.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), rest.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}
