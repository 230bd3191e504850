//! The controllers: how they stand, who joins, who leaves, who leads.
//!
//! Not here: what is allowed (`Control` answers CONFLICT with the reason), the role of one controller (`introspect`).

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use grid_controller::{Control, MemberChange};
use grid_types::Name;
use grid_types::api::{ClusterDoc, ControllerDoc, JoinBody, JoinedDoc, RoleDoc};
use serde_json::Value;

use crate::body::{Fields, JsonBody};
use crate::query::Params;
use crate::refused::Refused;

/// `GET /api/v1/cluster`.
pub async fn status<C: Control>(State(control): State<C>, params: Params) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Ok(Json(control.cluster().await?))
}

/// `GET /controllers`: the members alone.
pub async fn controllers<C: Control>(
    State(control): State<C>,
    params: Params,
) -> Result<Json<Vec<ControllerDoc>>, Refused> {
    params.finish()?;
    Ok(Json(control.cluster().await?.members))
}

/// `POST /api/v1/cluster/members`: a controller asks to join.
pub async fn join<C: Control>(
    State(control): State<C>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<JoinedDoc>), Refused> {
    params.finish()?;
    let known = ["node_id", "raft_id", "folder_id", "raft_addr", "api_url", "grpc_addr", "feature_level", "replace"];
    let body = join_body(Fields::of(&control, body, &known)?)?;
    Ok((StatusCode::CREATED, Json(control.join(body).await?)))
}

/// `DELETE /api/v1/cluster/members/{id}`.
pub async fn remove<C: Control>(
    State(control): State<C>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Ok(Json(control.change_member(&id, MemberChange::Remove).await?))
}

/// `POST /api/v1/cluster/members/{id}/promote`; the body is optional.
pub async fn promote<C: Control>(
    State(control): State<C>,
    Path(id): Path<String>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, body, &[])?.finish()?;
    Ok(Json(control.change_member(&id, MemberChange::Promote).await?))
}

/// `POST /api/v1/cluster/members/{id}/demote`; the body is optional.
pub async fn demote<C: Control>(
    State(control): State<C>,
    Path(id): Path<String>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, body, &[])?.finish()?;
    Ok(Json(control.change_member(&id, MemberChange::Demote).await?))
}

/// `POST /api/v1/cluster/step-down`; the body is optional. Answers who leads then.
pub async fn step_down<C: Control>(
    State(control): State<C>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<RoleDoc>, Refused> {
    params.finish()?;
    let mut fields = Fields::of(&control, body, &["to"])?;
    let to = fields.optional("to", "the name of a controller", |value| value.as_str().map(str::to_owned));
    fields.finish()?;
    Ok(Json(control.step_down(to).await?))
}

fn join_body(mut fields: Fields) -> Result<JoinBody, Refused> {
    let mut text = |name: &str, wanted: &str| {
        fields.required(name, wanted, |value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
    };
    let (raft_addr, api_url) = (text("raft_addr", "host:port"), text("api_url", "an http URL"));
    let (grpc_addr, folder_id) = (text("grpc_addr", "host:port"), text("folder_id", "the id of its data folder"));
    let node_id = fields.required("node_id", "a name", |value| value.as_str()?.parse::<Name>().ok());
    let raft_id = fields.required("raft_id", "a whole number above 0", |value| value.as_u64().filter(|id| *id > 0));
    let feature_level = fields.optional("feature_level", "a whole number", |value| u32::try_from(value.as_u64()?).ok());
    let replace = fields.optional("replace", "true or false", Value::as_bool);
    match (node_id, raft_id, folder_id, raft_addr, api_url, grpc_addr) {
        (Some(node_id), Some(raft_id), Some(folder_id), Some(raft_addr), Some(api_url), Some(grpc_addr)) => {
            fields.finish()?;
            Ok(JoinBody {
                node_id: node_id.to_string(),
                raft_id,
                folder_id,
                raft_addr,
                api_url,
                grpc_addr,
                feature_level: feature_level.unwrap_or(0),
                replace: replace.unwrap_or(false),
            })
        }
        _ => Err(fields.refused()),
    }
}
