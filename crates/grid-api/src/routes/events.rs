//! Serves `GET /v1/events` and `GET /api/v1/events`: a stream (SSE), or a page for those who accept only JSON.
//!
//! ```text
//!   id: 812
//!   event: JobStarted
//!   data: {"id":812,"kind":"JobStarted","job":"job-…","text":"3 nodes","leader_epoch":4,"role":"LEADER",…}
//! ```
//!
//! A stream begins with what happens next, or behind `Last-Event-ID` (which has precedence over `?after=`, since browsers repeat the
//! address of the first request). A page without `after` is newest first, as every list; with it, oldest first.

use axum::Json;
use axum::body::Bytes;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use grid_controller::{EventFilter, EventQuery, Events};
use grid_types::api::{EVENT_KINDS, EventDoc, ListDoc};
use grid_types::{Faults, NodeId};

use crate::http::caller::Asked;
use crate::http::query::{DEFAULT_LIMIT, Params};
use crate::http::refused::Refused;
use crate::http::streams::{self, Closing};

const LAST_EVENT_ID: &str = "last-event-id";
/// How long a browser waits before it connects again.
const OPENING: &str = ": grid events\nretry: 1000\n\n";
const HEARTBEAT: &str = ": beat\n\n";

#[utoipa::path(
    get,
    path = "/api/v1/events",
    tag = "events",
    operation_id = "events",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<u64>, Query, description = "begin behind this event; 400 if this cluster never recorded it"),
        ("before" = Option<u64>, Query, description = "a page of what was before this event; it may be short although `next` names another one"),
        ("kind" = Option<String>, Query, description = "only these kinds, with commas between them"),
        ("job" = Option<String>, Query, description = "only of this job", pattern = "^job-[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("node" = Option<String>, Query, description = "only of this node", pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
        ("namespace" = Option<String>, Query, description = "only of this namespace", pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
        ("Last-Event-ID" = Option<u64>, Header, description = "where a stream continues; has precedence over `after`"),
    ),
    responses(
        (
            status = 200,
            description = "a stream of events; a page for a client that accepts only JSON",
            content(
                (String = "text/event-stream"),
                (ListDoc<EventDoc> = "application/json"),
            ),
        ),
    ),
)]
pub async fn events<C: Events>(
    Asked { control, caller }: Asked<C>,
    headers: HeaderMap,
    closing: Closing,
    mut params: Params,
) -> Result<Response, Refused> {
    let number = |text: &str| text.parse::<u64>().ok();
    let limit = params.limit(DEFAULT_LIMIT);
    let mut after = params.read("after", "must be the number of an event", number);
    let before = params.read("before", "must be the number of an event", number);
    let filter = filter(&mut params);
    params.finish()?;
    if wants_a_page(&headers) {
        let mut page = control.events(&caller, filter, EventQuery { limit, after, before }).await?;
        let role = control.standing().role;
        page.items.iter_mut().for_each(|event| event.role = Some(role));
        return Ok(Json::<ListDoc<EventDoc>>(page).into_response());
    }
    if let Some(last) = last_event_id(&headers)? {
        after = Some(last);
    }
    let events = control.listen(&caller, filter, after).await?;
    let write = move |event: EventDoc| Ok(frame(&EventDoc { role: Some(control.standing().role), ..event }));
    let body = streams::body(events, closing, Bytes::from_static(OPENING.as_bytes()), HEARTBEAT, write);
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn filter(params: &mut Params) -> EventFilter {
    let words = |text: &str| {
        let kinds: Vec<_> = text.split(',').map(str::to_owned).collect();
        kinds.iter().all(|kind| EVENT_KINDS.contains(&kind.as_str())).then_some(kinds)
    };
    // A reader of what never happens would wait for ever.
    let wanted = format!("must be kinds with commas between them: {}", EVENT_KINDS.join(", "));
    EventFilter {
        kinds: params.read("kind", &wanted, words).unwrap_or_default(),
        job: params.parsed("job"),
        node: params.parsed::<NodeId>("node").map(String::from),
        namespace: params.parsed::<grid_types::Name>("namespace").map(String::from),
    }
}

fn wants_a_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accepted: Vec<_> = accepted.flat_map(|value| value.split(',')).map(str::trim).collect();
    let names = |kind: &str| accepted.iter().any(|given| given.split(';').next().is_some_and(|g| g.trim() == kind));
    names("application/json") && !names("text/event-stream")
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Refused> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        let mut faults = Faults::default();
        faults.add("Last-Event-ID", "must be the number of an event");
        Refused::bad_request(faults)
    })
}

fn frame(event: &EventDoc) -> Bytes {
    // Plain text and numbers can always be written, and JSON has no line breaks.
    let data = serde_json::to_string(event).unwrap_or_default();
    // A kind is a word of this program; a line break in it would end the field.
    let kind: String = event.kind.chars().filter(char::is_ascii_alphanumeric).collect();
    Bytes::from(format!("id: {}\nevent: {kind}\ndata: {data}\n\n", event.id))
}
