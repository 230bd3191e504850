//! Nodes. The aliases say `online` or `offline` as the seeds do; `state` is exact everywhere.
//!
//! Not here: which state a node is in (the leader's liveness rules V1–V3).

use axum::Json;
use grid_controller::{NodeQuery, Nodes, Removal};
use grid_types::api::{ListDoc, NodeDoc, NodeStateDoc};
use grid_types::node::NodeStatus;

use crate::http::bare::Bare;
use crate::http::body::{Fields, JsonBody};
use crate::http::caller::Asked;
use crate::http::path::OfNode;
use crate::http::query::{DEFAULT_LIMIT, MAX_LIMIT, Params};
use crate::http::refused::Refused;
use crate::schema::EpochBody;

/// Canonical `GET /api/v1/nodes`.
#[utoipa::path(
    get,
    path = "/api/v1/nodes",
    tag = "nodes",
    operation_id = "listNodes",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "the `next` of the page before, a node id", pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
        ("target" = Option<String>, Query, description = "only nodes of this target, such as `group:web and not node:web-01`", max_length = 4096),
    ),
    responses(
        (status = 200, description = "nodes by id", body = ListDoc<NodeDoc>),
    ),
)]
pub async fn list<C: Nodes>(
    Asked { control, caller }: Asked<C>,
    params: Params,
) -> Result<Json<ListDoc<NodeDoc>>, Refused> {
    let query = page(params, DEFAULT_LIMIT)?;
    Ok(Json(control.nodes(&caller, query).await?))
}

/// `GET /nodes`, `GET /v1/agents`: a bare array; `X-Grid-Next` names the next page.
#[utoipa::path(
    get,
    path = "/nodes",
    tag = "nodes",
    operation_id = "listNodesBare",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "the `next` of the page before, a node id", pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
        ("target" = Option<String>, Query, description = "only nodes of this target, such as `group:web and not node:web-01`", max_length = 4096),
    ),
    responses(
        (status = 200, description = "the first of them; `status` is `online` or `offline`", body = Vec<NodeDoc>),
    ),
)]
pub async fn list_bare<C: Nodes>(
    Asked { control, caller }: Asked<C>,
    params: Params,
) -> Result<Bare<NodeDoc>, Refused> {
    let query = page(params, MAX_LIMIT)?;
    let ListDoc { items, next } = control.nodes(&caller, query).await?;
    Ok(Bare(ListDoc { items: items.into_iter().map(with_seed_status).collect(), next }))
}

/// Canonical `GET /api/v1/nodes/{id}`.
#[utoipa::path(
    get,
    path = "/api/v1/nodes/{id}",
    tag = "nodes",
    operation_id = "getNode",
    responses(
        (status = 200, description = "the node", body = NodeDoc),
    ),
)]
pub async fn get<C: Nodes>(
    Asked { control, caller }: Asked<C>,
    OfNode(node): OfNode,
    params: Params,
) -> Result<Json<NodeDoc>, Refused> {
    params.finish()?;
    Ok(Json(control.node(&caller, &node).await?))
}

/// `GET /node/{id}`.
#[utoipa::path(
    get,
    path = "/node/{id}",
    tag = "nodes",
    operation_id = "getNodeBare",
    responses(
        (status = 200, description = "the node; `status` is `online` or `offline`", body = NodeDoc),
    ),
)]
pub async fn get_alias<C: Nodes>(
    Asked { control, caller }: Asked<C>,
    OfNode(node): OfNode,
    params: Params,
) -> Result<Json<NodeDoc>, Refused> {
    params.finish()?;
    Ok(Json(with_seed_status(control.node(&caller, &node).await?)))
}

/// `POST …/drain`: no new work there, until it is taken back. The body is optional.
#[utoipa::path(
    post,
    path = "/api/v1/nodes/{id}/drain",
    tag = "nodes",
    operation_id = "drainNode",
    request_body = Option<EpochBody>,
    responses(
        (status = 200, description = "the node, which gets no new work", body = NodeDoc),
    ),
)]
pub async fn drain<C: Nodes>(
    Asked { control, mut caller }: Asked<C>,
    OfNode(node): OfNode,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<NodeDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, &mut caller, body, &[])?.finish()?;
    Ok(Json(control.drain(&caller, &node).await?))
}

/// `POST …/undrain`: takes it back.
#[utoipa::path(
    post,
    path = "/api/v1/nodes/{id}/undrain",
    tag = "nodes",
    operation_id = "undrainNode",
    request_body = Option<EpochBody>,
    responses(
        (status = 200, description = "the node, which gets work again", body = NodeDoc),
    ),
)]
pub async fn undrain<C: Nodes>(
    Asked { control, mut caller }: Asked<C>,
    OfNode(node): OfNode,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<NodeDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, &mut caller, body, &[])?.finish()?;
    Ok(Json(control.undrain(&caller, &node).await?))
}

/// `DELETE …/{id}?force=true`: it is no node any more.
#[utoipa::path(
    delete,
    path = "/api/v1/nodes/{id}",
    tag = "nodes",
    operation_id = "removeNode",
    params(
        ("force" = Option<bool>, Query, description = "also a node that is online"),
    ),
    request_body = Option<EpochBody>,
    responses(
        (status = 200, description = "it is no node any more", body = NodeStateDoc),
    ),
)]
pub async fn remove<C: Nodes>(
    Asked { control, mut caller }: Asked<C>,
    OfNode(node): OfNode,
    mut params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<NodeStateDoc>, Refused> {
    let removal = params.word("force", &[("true", Removal::Forced), ("false", Removal::IfGone)]);
    params.finish()?;
    Fields::of(&control, &mut caller, body, &[])?.finish()?;
    Ok(Json(control.remove(&caller, &node, removal.unwrap_or(Removal::IfGone)).await?))
}

fn page(mut params: Params, default_limit: u32) -> Result<NodeQuery, Refused> {
    let (limit, after) = (params.limit(default_limit), params.parsed("after"));
    let page = NodeQuery { limit, after, target: params.target() };
    params.finish()?;
    Ok(page)
}

fn with_seed_status(mut node: NodeDoc) -> NodeDoc {
    let online = [NodeStatus::Ready, NodeStatus::Warning].iter().any(|s| s.word() == node.state);
    node.status = if online { "online" } else { "offline" }.to_owned();
    node
}
