//! Results of a job: its rows in pages, all outputs of a step grouped.
//!
//! Not here: the rows inside a job document (`Control::job` decides whether they fit), outputs themselves (`logs`).
//! Results and output groups have the canonical shape under the alias paths too: the seeds have no such lists, and the
//! contract pages them.

use axum::Json;
use grid_controller::{Outputs, ResultQuery};
use grid_types::api::{ListDoc, OutputGroupDoc, ResultRowDoc};
use grid_types::{NodeId, Outcome};

use crate::http::caller::Asked;
use crate::http::path::{OfJob, OfStep};
use crate::http::query::{DEFAULT_LIMIT, Params};
use crate::http::refused::Refused;

/// `GET …/results?step=&status=&node=&run=&after=&limit=`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/results",
    tag = "results",
    operation_id = "listResults",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "the `next` of the page before", pattern = "^(0|[1-9][0-9]{0,8}):[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
        ("step" = Option<u32>, Query, description = "only this step"),
        ("status" = Option<Outcome>, Query, description = "only results with this outcome"),
        ("node" = Option<String>, Query, description = "only this node", pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
        ("run" = Option<u32>, Query, description = "of this run; the newest if it is left out", minimum = 1, maximum = 100),
    ),
    responses(
        (status = 200, description = "by step and node", body = ListDoc<ResultRowDoc>),
    ),
)]
pub async fn rows<C: Outputs>(
    Asked { control, caller }: Asked<C>,
    OfJob(job): OfJob,
    params: Params,
) -> Result<Json<ListDoc<ResultRowDoc>>, Refused> {
    let query = result_query(params)?;
    Ok(Json(control.results(&caller, &job, query).await?))
}

/// `GET …/outputs/{step}`: equal outputs once, with the nodes that had them.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/outputs/{step}",
    tag = "results",
    operation_id = "groupOutputs",
    params(
        ("run" = Option<u32>, Query, description = "of this run; the newest if it is left out", minimum = 1, maximum = 100),
    ),
    responses(
        (status = 200, description = "equal outputs once, the largest group first; at most the 1,000 largest groups", body = ListDoc<OutputGroupDoc>),
    ),
)]
pub async fn outputs<C: Outputs>(
    Asked { control, caller }: Asked<C>,
    path: OfStep,
    mut params: Params,
) -> Result<Json<ListDoc<OutputGroupDoc>>, Refused> {
    let run = params.run();
    params.finish()?;
    let items = control.outputs(&caller, &path.job, path.step, run).await?;
    Ok(Json(ListDoc { items, next: None }))
}

fn result_query(mut params: Params) -> Result<ResultQuery, Refused> {
    let query = ResultQuery {
        limit: params.limit(DEFAULT_LIMIT),
        after: params.read("after", "must be the next of the page before", cursor),
        step: params.read("step", "must be the number of a step, from 0", |text| text.parse().ok()),
        status: params.word("status", &Outcome::ALL.map(|o| (o.word(), o))),
        node: params.parsed("node"),
        run: params.run(),
    };
    params.finish()?;
    Ok(query)
}

fn cursor(text: &str) -> Option<(u32, String)> {
    let (step, node) = text.split_once(':')?;
    Some((step.parse().ok()?, node.parse::<NodeId>().ok()?.into()))
}
