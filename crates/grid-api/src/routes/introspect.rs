//! Reports role, status and health of a controller. Without guards, because clients ask for these before they know anything.
//!
//! Health takes any query: probes add their own, and a probe that is refused takes a healthy controller out of service.

use axum::Json;
use axum::extract::State;
use axum::http::{Method, Uri};
use grid_controller::{Introspect, StateHash};
use grid_types::Code;
use grid_types::api::{RoleDoc, StatusDoc};
use serde::Serialize;

use crate::http::caller::Asked;
use crate::http::query::Params;
use crate::http::refused::Refused;

/// Answer of a health check that passed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct HealthDoc {
    status: &'static str,
}

/// `GET /role`.
#[utoipa::path(
    get,
    path = "/role",
    tag = "controller",
    operation_id = "role",
    responses(
        (status = 200, description = "who this controller is and who leads", body = RoleDoc),
    ),
)]
pub async fn role<C: Introspect>(State(control): State<C>, params: Params) -> Result<Json<RoleDoc>, Refused> {
    params.finish()?;
    Ok(Json(control.role()))
}

/// `GET /status`.
#[utoipa::path(
    get,
    path = "/status",
    tag = "controller",
    operation_id = "status",
    params(
        ("hash" = Option<bool>, Query, description = "also the hash of the whole state"),
    ),
    responses(
        (status = 200, description = "the cluster in numbers", body = StatusDoc),
    ),
)]
pub async fn status<C: Introspect>(
    Asked { control, caller }: Asked<C>,
    mut params: Params,
) -> Result<Json<StatusDoc>, Refused> {
    let hash = params.word("hash", &[("true", StateHash::Compute), ("false", StateHash::Omit)]);
    params.finish()?;
    Ok(Json(control.status(&caller, hash.unwrap_or(StateHash::Omit)).await?))
}

/// `GET /healthz`: it serves.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "controller",
    operation_id = "health",
    responses(
        (status = 200, description = "it serves", body = HealthDoc),
    ),
)]
pub async fn health() -> Json<HealthDoc> {
    Json(HealthDoc { status: "ok" })
}

/// `GET /readyz`: a member that knows the leader.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "controller",
    operation_id = "ready",
    responses(
        (status = 200, description = "a member that knows the leader", body = HealthDoc),
    ),
)]
pub async fn ready<C: Introspect>(State(control): State<C>) -> Result<Json<HealthDoc>, Refused> {
    if control.is_ready() {
        return Ok(Json(HealthDoc { status: "ready" }));
    }
    let message = "this controller is not ready: it is no member or knows no leader yet; ask again or ask another";
    Err(Refused::new(Code::NoQuorum, message))
}

/// Any unknown path.
pub async fn unknown_path(uri: Uri) -> Refused {
    let shown: String = uri.path().chars().take(200).collect();
    Refused::new(Code::NotFound, format!("no such path: {shown:?}"))
}

/// Any method that a path does not have; the router adds `Allow`.
pub async fn wrong_method(method: Method, uri: Uri) -> Refused {
    let shown: String = uri.path().chars().take(200).collect();
    Refused::new(Code::MethodNotAllowed, format!("{method} is not a method of {shown:?}; see the Allow header"))
}
