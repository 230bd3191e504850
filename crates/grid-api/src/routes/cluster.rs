//! Handles requests about the controllers: their state, members that join and leave, the leader.
//!
//! Not here: what is allowed (`Control` answers CONFLICT with the reason), the role of one controller (`introspect`).

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use grid_controller::{Cluster, MemberChange};
use grid_types::Name;
use grid_types::api::{ClusterDoc, ControllerDoc, JoinBody, JoinedDoc, MAX_MEMBER_TEXT_BYTES, RoleDoc, StepDownBody};
use serde_json::Value;

use crate::http::body::{Fields, JsonBody};
use crate::http::caller::Asked;
use crate::http::query::Params;
use crate::http::refused::Refused;
use crate::schema::EpochBody;

/// `GET /api/v1/cluster`.
#[utoipa::path(
    get,
    path = "/api/v1/cluster",
    tag = "cluster",
    operation_id = "cluster",
    responses(
        (status = 200, description = "the controllers and their state", body = ClusterDoc),
    ),
)]
pub async fn status<C: Cluster>(
    Asked { control, caller }: Asked<C>,
    params: Params,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Ok(Json(control.cluster(&caller).await?))
}

/// `GET /controllers`: the members alone.
#[utoipa::path(
    get,
    path = "/api/v1/controllers",
    tag = "cluster",
    operation_id = "controllers",
    responses(
        (status = 200, description = "the members alone", body = Vec<ControllerDoc>),
    ),
)]
pub async fn controllers<C: Cluster>(
    Asked { control, caller }: Asked<C>,
    params: Params,
) -> Result<Json<Vec<ControllerDoc>>, Refused> {
    params.finish()?;
    Ok(Json(control.cluster(&caller).await?.members))
}

/// `POST /api/v1/cluster/members`: a controller asks to join.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/members",
    tag = "cluster",
    operation_id = "joinMember",
    request_body = JoinBody,
    responses(
        (status = 201, description = "accepted as a learner", body = JoinedDoc),
    ),
)]
pub async fn join<C: Cluster>(
    Asked { control, mut caller }: Asked<C>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<JoinedDoc>), Refused> {
    params.finish()?;
    let known = ["node_id", "raft_id", "folder_id", "raft_addr", "api_url", "grpc_addr", "feature_level", "replace"];
    let body = join_body(Fields::of(&control, &mut caller, body, &known)?)?;
    Ok((StatusCode::CREATED, Json(control.join(&caller, body).await?)))
}

/// `DELETE /api/v1/cluster/members/{id}`.
#[utoipa::path(
    delete,
    path = "/api/v1/cluster/members/{id}",
    tag = "cluster",
    operation_id = "removeMember",
    responses(
        (status = 200, description = "the cluster without it", body = ClusterDoc),
    ),
)]
pub async fn remove<C: Cluster>(
    Asked { control, caller }: Asked<C>,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Ok(Json(control.change_member(&caller, &id, MemberChange::Remove).await?))
}

/// `POST /api/v1/cluster/members/{id}/promote`; the body is optional.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/members/{id}/promote",
    tag = "cluster",
    operation_id = "promoteMember",
    request_body = Option<EpochBody>,
    responses(
        (status = 200, description = "its vote counts", body = ClusterDoc),
    ),
)]
pub async fn promote<C: Cluster>(
    Asked { control, mut caller }: Asked<C>,
    Path(id): Path<String>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, &mut caller, body, &[])?.finish()?;
    Ok(Json(control.change_member(&caller, &id, MemberChange::Promote).await?))
}

/// `POST /api/v1/cluster/members/{id}/demote`; the body is optional.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/members/{id}/demote",
    tag = "cluster",
    operation_id = "demoteMember",
    request_body = Option<EpochBody>,
    responses(
        (status = 200, description = "its vote does not count", body = ClusterDoc),
    ),
)]
pub async fn demote<C: Cluster>(
    Asked { control, mut caller }: Asked<C>,
    Path(id): Path<String>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, &mut caller, body, &[])?.finish()?;
    Ok(Json(control.change_member(&caller, &id, MemberChange::Demote).await?))
}

/// `POST /api/v1/cluster/lift`; the body is optional. A superseded cluster accepts writes again.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/lift",
    tag = "cluster",
    operation_id = "liftSuperseded",
    request_body = Option<EpochBody>,
    responses(
        (status = 200, description = "writes are accepted again", body = ClusterDoc),
    ),
)]
pub async fn lift<C: Cluster>(
    Asked { control, mut caller }: Asked<C>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<ClusterDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, &mut caller, body, &[])?.finish()?;
    Ok(Json(control.lift_superseded(&caller).await?))
}

/// `POST /api/v1/cluster/step-down`; the body is optional. Answers who leads then.
#[utoipa::path(
    post,
    path = "/api/v1/cluster/step-down",
    tag = "cluster",
    operation_id = "stepDown",
    request_body = Option<StepDownBody>,
    responses(
        (status = 200, description = "who leads then", body = RoleDoc),
    ),
)]
pub async fn step_down<C: Cluster>(
    Asked { control, mut caller }: Asked<C>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<RoleDoc>, Refused> {
    params.finish()?;
    let mut fields = Fields::of(&control, &mut caller, body, &["to"])?;
    let to = fields.optional("to", "the name of a controller", |value| value.as_str().map(str::to_owned));
    fields.finish()?;
    Ok(Json(control.step_down(&caller, to).await?))
}

fn join_body(mut fields: Fields) -> Result<JoinBody, Refused> {
    let mut text_of = |name: &str, wanted: &str, least: usize| {
        let is_short = |text: &&str| (least..=MAX_MEMBER_TEXT_BYTES).contains(&text.len());
        let is_plain = |text: &&str| !text.contains(char::is_control);
        fields.required(name, wanted, |value| value.as_str().filter(is_short).filter(is_plain).map(str::to_owned))
    };
    // Empty: its workers come over NATS only.
    let grpc_addr = text_of("grpc_addr", "host:port", 0);
    let mut text = |name: &str, wanted: &str| text_of(name, wanted, 1);
    let (raft_addr, api_url) = (text("raft_addr", "host:port"), text("api_url", "an http URL"));
    let folder_id = text("folder_id", "the id of its data folder");
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
