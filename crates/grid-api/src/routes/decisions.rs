//! What an operator decides about a job: that a phase may begin, how a step with an unknown outcome ended (W8), that an ended job
//! is to go on.
//!
//! Not here: whether anything waits (`Control` answers CONFLICT).
//! The bodies are read by hand, not by the `serde` of `grid_types::api`: a derived reader stops at the first fault and
//! cannot say in which field it is.

use axum::Json;
use grid_controller::{Confirmation, Jobs, Rerun, StepResolution};
use grid_types::api::{ConfirmBody, JobStateDoc, Resolution, ResolveBody, ResumeBody};
use grid_types::{NodeId, StepIndex};
use serde_json::Value;

use crate::http::body::{Fields, JsonBody};
use crate::http::caller::Asked;
use crate::http::path::OfJob;
use crate::http::query::Params;
use crate::http::refused::Refused;

/// `POST …/jobs/{id}/confirm`; the body is optional.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/confirm",
    tag = "jobs",
    operation_id = "confirmJob",
    request_body = Option<ConfirmBody>,
    responses(
        (status = 200, description = "the job's status now", body = JobStateDoc),
    ),
)]
pub async fn confirm<C: Jobs>(
    Asked { control, mut caller }: Asked<C>,
    OfJob(job): OfJob,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<JobStateDoc>, Refused> {
    params.finish()?;
    let mut fields = Fields::of(&control, &mut caller, body, &["phase", "held", "rerun_once"])?;
    let phase = fields.optional("phase", "the number of a phase, from 0", index);
    let held_only = fields.optional("held", "true or false", Value::as_bool).unwrap_or(false);
    let rerun_once = fields.optional("rerun_once", "true or false", Value::as_bool).unwrap_or(false);
    fields.finish()?;
    Ok(Json(control.confirm(&caller, &job, Confirmation { phase, held_only, rerun_once }).await?))
}

/// `POST …/jobs/{id}/resume`; the body is optional.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/resume",
    tag = "jobs",
    operation_id = "resumeJob",
    request_body = Option<ResumeBody>,
    responses(
        (status = 200, description = "the job's status now", body = JobStateDoc),
    ),
)]
pub async fn resume<C: Jobs>(
    Asked { control, mut caller }: Asked<C>,
    OfJob(job): OfJob,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<JobStateDoc>, Refused> {
    params.finish()?;
    let fields = Fields::of(&control, &mut caller, body, &["rerun_once"])?;
    let wanted = Rerun { failed_only: false, rerun_once: rerun_once(fields)? };
    Ok(Json(control.resume(&caller, &job, wanted).await?))
}

/// `POST …/jobs/{id}/retry`: the same, only on the nodes where something failed.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/retry",
    tag = "jobs",
    operation_id = "retryJob",
    request_body = Option<ResumeBody>,
    responses(
        (status = 200, description = "the job's status now", body = JobStateDoc),
    ),
)]
pub async fn retry<C: Jobs>(
    Asked { control, mut caller }: Asked<C>,
    OfJob(job): OfJob,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<JobStateDoc>, Refused> {
    params.finish()?;
    let fields = Fields::of(&control, &mut caller, body, &["rerun_once"])?;
    let wanted = Rerun { failed_only: true, rerun_once: rerun_once(fields)? };
    Ok(Json(control.resume(&caller, &job, wanted).await?))
}

fn rerun_once(mut fields: Fields) -> Result<bool, Refused> {
    let rerun_once = fields.optional("rerun_once", "true or false", Value::as_bool).unwrap_or(false);
    fields.finish().map(|()| rerun_once)
}

/// `POST …/jobs/{id}/resolve`.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/resolve",
    tag = "jobs",
    operation_id = "resolveStep",
    request_body = ResolveBody,
    responses(
        (status = 200, description = "the job's status now", body = JobStateDoc),
    ),
)]
pub async fn resolve<C: Jobs>(
    Asked { control, mut caller }: Asked<C>,
    OfJob(job): OfJob,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<JobStateDoc>, Refused> {
    params.finish()?;
    let resolution = resolution(Fields::of(&control, &mut caller, body, &["step", "node", "as"])?)?;
    Ok(Json(control.resolve(&caller, &job, resolution).await?))
}

fn resolution(mut fields: Fields) -> Result<StepResolution, Refused> {
    let step = fields.required("step", "the number of a step, from 0", index).map(StepIndex);
    let node = fields.required("node", "the name of a node", |value| value.as_str()?.parse::<NodeId>().ok());
    let verdict = fields.required("as", "success, failed or retry", verdict);
    match (step, node, verdict) {
        (Some(step), Some(node), Some(verdict)) => fields.finish().map(|()| StepResolution { step, node, verdict }),
        _ => Err(fields.refused()),
    }
}

fn index(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn verdict(value: &Value) -> Option<Resolution> {
    match value.as_str()? {
        "success" => Some(Resolution::Success),
        "failed" => Some(Resolution::Failed),
        "retry" => Some(Resolution::Retry),
        _ => None,
    }
}
