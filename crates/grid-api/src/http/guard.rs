//! Checks every request before its handler, and completes every answer after it.
//!
//! E4: the role is checked before the body is read. E7: a DRAINING controller still takes cancels.
//! E9: an epoch that a request names is checked here, to refuse early, and again where the mutation takes effect.
//! Not here: `leader_epoch` inside a body (`body`), which needs the body.
//! The epoch is checked on reads too, if a client asks for it: the contract says "a request", and a client that pins
//! an epoch has to learn that it is over. `/role`, `/status` and health are free of it, since they are how one asks.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use grid_controller::Introspect;
use grid_types::Faults;
use grid_types::api::{HEADER_EPOCH, HEADER_NODE, HEADER_ROLE, Role, RoleDoc};
use tokio::sync::Semaphore;

use crate::http::refused::Refused;

/// Outermost: the three headers, and the body of a refusal.
pub async fn stamp<C: Introspect>(State(control): State<C>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<Refused>() {
        Some(refused) => {
            refused.count();
            let role = refused.role().cloned().unwrap_or_else(|| control.role());
            refused.write_into(&mut response, &role);
            put_headers(response.headers_mut(), &role.node_id, role.role, role.leader_epoch);
        }
        None => {
            let standing = control.standing();
            put_headers(response.headers_mut(), standing.node_id.as_str(), standing.role, standing.leader_epoch);
        }
    }
    response
}

/// Mutations: only the leader.
pub async fn leader<C: Introspect>(State(control): State<C>, request: Request, next: Next) -> Response {
    match control.standing().role {
        Role::Leader => next.run(request).await,
        Role::Standby | Role::Draining => not_here(&control, control.role()).into_response(),
    }
}

/// Mutations that a controller accepts while it leads or hands over (E7).
pub async fn leader_or_draining<C: Introspect>(State(control): State<C>, request: Request, next: Next) -> Response {
    match control.standing().role {
        Role::Leader | Role::Draining => next.run(request).await,
        Role::Standby => not_here(&control, control.role()).into_response(),
    }
}

/// E4: a controller that would lead, but for the majority that does not answer it, says so.
pub fn not_here<C: Introspect>(control: &C, role: RoleDoc) -> Refused {
    if role.role == Role::Standby && control.is_cut_off() {
        Refused::no_quorum(role)
    } else {
        Refused::not_leader(role)
    }
}

/// Reads whose documents may be large: so many at a time are made and written, so that a flood of them leaves the
/// threads that serve everything else time for it. Innermost: a request that waits for a leader or a majority takes no place.
pub async fn bounded(request: Request, next: Next) -> Response {
    static PLACES: Semaphore = Semaphore::const_new(8);
    let _place = PLACES.acquire().await;
    next.run(request).await
}

/// `X-Grid-Leader-Epoch` of a request must be the current one.
pub async fn fence<C: Introspect>(State(control): State<C>, mut request: Request, next: Next) -> Response {
    let checked =
        header_epoch(request.headers()).and_then(|given| check_epoch(&control, given).map(|()| GivenEpoch(given)));
    match checked {
        Ok(given) => {
            request.extensions_mut().insert(given);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

/// The leader epoch that the header of a request names; `fence` has checked it.
#[derive(Debug, Clone, Copy)]
pub struct GivenEpoch(pub Option<u64>);

/// Refuses any epoch but the current one.
pub fn check_epoch<C: Introspect>(control: &C, given: Option<u64>) -> Result<(), Refused> {
    let Some(given) = given else { return Ok(()) };
    let role = control.role();
    if given == shown_epoch(role.leader_epoch) {
        return Ok(());
    }
    control.epoch_claimed(given);
    Err(Refused::stale_leader(role, given))
}

/// Epochs begin at 1, so that 0 can say "none known".
fn shown_epoch(epoch: Option<u64>) -> u64 {
    epoch.unwrap_or(0)
}

fn header_epoch(headers: &HeaderMap) -> Result<Option<u64>, Refused> {
    let mut values = headers.get_all(HEADER_EPOCH).iter();
    let parsed = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().ok().and_then(|text| text.trim().parse().ok()),
        (Some(_), Some(_)) => None,
    };
    parsed.map(Some).ok_or_else(|| {
        let mut faults = Faults::default();
        faults.add("X-Grid-Leader-Epoch", "must be one whole number, as /role shows it");
        Refused::bad_request(faults)
    })
}

fn put_headers(headers: &mut HeaderMap, node_id: &str, role: Role, epoch: Option<u64>) {
    if let Ok(node) = HeaderValue::from_str(node_id) {
        headers.insert(HEADER_NODE, node);
    }
    headers.insert(HEADER_ROLE, HeaderValue::from_static(role.word()));
    headers.insert(HEADER_EPOCH, HeaderValue::from(shown_epoch(epoch)));
}
