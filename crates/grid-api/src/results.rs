//! Results of a job: its rows in pages, one output as it is, all outputs of a step grouped.
//!
//! Not here: the rows inside a job document (`Control::job` decides whether they fit).
//! Results and output groups have the canonical shape under the alias paths too: the seeds have no such lists, and the
//! contract pages them.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use grid_controller::{Control, ResultQuery};
use grid_types::api::{ListDoc, OutputGroupDoc, ResultRowDoc};
use grid_types::{NodeId, Outcome};

use crate::path::{OfJob, OfOutput, OfStep};
use crate::query::{DEFAULT_LIMIT, Params};
use crate::refused::Refused;

/// Bytes of the whole output; the body holds the last of them.
pub const HEADER_OUTPUT_TOTAL: &str = "x-grid-output-total";

/// `GET …/results?step=&status=&after=&limit=`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/results",
    tag = "results",
    operation_id = "listResults",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "the `next` of the page before", pattern = "^(0|[1-9][0-9]{0,8}):[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
        ("step" = Option<u32>, Query, description = "only this step"),
        ("status" = Option<Outcome>, Query, description = "only results that stand so"),
    ),
    responses(
        (status = 200, description = "by step and node", body = ListDoc<ResultRowDoc>),
    ),
)]
pub async fn rows<C: Control>(
    State(control): State<C>,
    path: OfJob,
    params: Params,
) -> Result<Json<ListDoc<ResultRowDoc>>, Refused> {
    let query = result_query(params)?;
    Ok(Json(control.results(&path.namespace, path.job, query).await?))
}

/// `GET …/output/{step}/{node}`: the bytes themselves.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/output/{step}/{node}",
    tag = "results",
    operation_id = "getOutput",
    responses(
        (
            status = 200,
            description = "the last bytes of the output, as the task wrote them",
            content_type = "application/octet-stream",
            body = Vec<u8>,
            headers(("X-Grid-Output-Total" = u64, description = "bytes of the whole output")),
        ),
    ),
)]
pub async fn output<C: Control>(State(control): State<C>, path: OfOutput, params: Params) -> Result<Response, Refused> {
    params.finish()?;
    let output = control.output(&path.namespace, path.job, path.step, path.node).await?;
    let mut response = output.tail.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // A task chooses these bytes; no browser may take them for a page of this origin.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static(HEADER_OUTPUT_TOTAL), HeaderValue::from(output.total_bytes));
    Ok(response)
}

/// `GET …/outputs/{step}`: equal outputs once, with the nodes that had them.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/outputs/{step}",
    tag = "results",
    operation_id = "groupOutputs",
    responses(
        (status = 200, description = "equal outputs once, the largest group first", body = ListDoc<OutputGroupDoc>),
    ),
)]
pub async fn outputs<C: Control>(
    State(control): State<C>,
    path: OfStep,
    params: Params,
) -> Result<Json<ListDoc<OutputGroupDoc>>, Refused> {
    params.finish()?;
    let items = control.outputs(&path.namespace, path.job, path.step).await?;
    Ok(Json(ListDoc { items, next: None }))
}

fn result_query(mut params: Params) -> Result<ResultQuery, Refused> {
    let query = ResultQuery {
        limit: params.limit(DEFAULT_LIMIT),
        after: params.read("after", "must be the next of the page before", cursor),
        step: params.read("step", "must be the number of a step, from 0", |text| text.parse().ok()),
        status: params.word("status", &Outcome::ALL.map(|o| (o.word(), o))),
    };
    params.finish()?;
    Ok(query)
}

fn cursor(text: &str) -> Option<(u32, String)> {
    let (step, node) = text.split_once(':')?;
    Some((step.parse().ok()?, node.parse::<NodeId>().ok()?.into()))
}
