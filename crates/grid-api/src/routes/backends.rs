//! Lists and describes backends: what a task may ask for, as this server declares it.
//!
//! Not here: which nodes run them (a node's document says so).

use axum::Json;
use grid_types::api::{BackendDoc, ListDoc};
use grid_types::decl;

use crate::http::path::OfBackend;
use crate::http::query::Params;
use crate::http::refused::Refused;

/// `GET /api/v1/backends`: all of them, on one page.
#[utoipa::path(
    get,
    path = "/api/v1/backends",
    tag = "backends",
    operation_id = "listBackends",
    responses(
        (status = 200, description = "all of them", body = ListDoc<BackendDoc>),
    ),
)]
pub async fn list(params: Params) -> Result<Json<ListDoc<BackendDoc>>, Refused> {
    params.finish()?;
    Ok(Json(ListDoc { items: decl::builtin().iter().map(BackendDoc::from).collect(), next: None }))
}

/// `GET /api/v1/backends/{name}`.
#[utoipa::path(
    get,
    path = "/api/v1/backends/{id}",
    tag = "backends",
    operation_id = "getBackend",
    responses(
        (status = 200, description = "the backend", body = BackendDoc),
    ),
)]
pub async fn get(OfBackend(backend): OfBackend, params: Params) -> Result<Json<BackendDoc>, Refused> {
    params.finish()?;
    Ok(Json(BackendDoc::from(backend)))
}
