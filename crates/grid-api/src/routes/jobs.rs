//! Handles requests to submit, cancel, read and list jobs.
//!
//! Not here: what an operator decides while one runs (`decisions`), who may submit (`guard`), what a job may contain (`grid_types::job`).

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use grid_controller::{Caller, JobFilter, JobQuery, Jobs, PlanHash, Refusal, RunQuery, Submission, SubmitKey};
use grid_types::api::{HEADER_KEY, JobDoc, JobStateDoc, ListDoc, PlanDoc, RunDoc, WhyDoc};
use grid_types::job::{JobSpec, parse_job};
use grid_types::limits::{MAX_JOB_LABELS, MAX_JOB_NAME_CHARS, MAX_KEY_BYTES};
use grid_types::{Code, Faults, JobStatus, Name};
use serde_json::Value;

use crate::http::bare::Bare;
use crate::http::body::{Fields, JsonBody, take_epoch};
use crate::http::caller::Asked;
use crate::http::path::{InNamespace, OfJob};
use crate::http::query::{DEFAULT_LIMIT, MAX_LIMIT, Params};
use crate::http::refused::Refused;
use crate::schema::{EpochBody, JobBody};

/// `POST …/jobs`: 201 with the job, 200 if the same key gave it before.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs",
    tag = "jobs",
    operation_id = "submitJob",
    params(
        ("plan" = Option<String>, Query, description = "refuse if the job would do other than this plan", pattern = "^[0-9a-f]{64}$"),
        ("Idempotency-Key" = Option<String>, Header, description = "the same key gives the same job for 24 h; with another request it is 409 CONFLICT, which names the job and the hashes of both requests", pattern = "^[!-~]{1,128}$"),
    ),
    request_body = JobBody,
    responses(
        (status = 201, description = "the job, accepted and durable", body = JobDoc),
        (status = 200, description = "the job that the same key gave before", body = JobDoc),
    ),
)]
pub async fn submit<C: Jobs>(
    Asked { control, mut caller }: Asked<C>,
    InNamespace(namespace): InNamespace,
    mut params: Params,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<JobDoc>), Refused> {
    let plan = params.parsed::<PlanHash>("plan");
    params.finish()?;
    let (spec, request) = spec_of(&control, &mut caller, body)?;
    let key = key.map(|key| SubmitKey::of(key, &request, plan));
    let submitted = control.submit(&caller, &namespace, Submission { spec, key, plan }).await?;
    let status = if submitted.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(submitted.job)))
}

/// `POST …/jobs/plan`: what the job would do; nothing is stored.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs/plan",
    tag = "jobs",
    operation_id = "planJob",
    request_body = JobBody,
    responses(
        (status = 200, description = "what the job would do", body = PlanDoc),
    ),
)]
pub async fn plan<C: Jobs>(
    Asked { control, mut caller }: Asked<C>,
    InNamespace(namespace): InNamespace,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<PlanDoc>, Refused> {
    params.finish()?;
    let (spec, _) = spec_of(&control, &mut caller, body)?;
    Ok(Json(control.plan(&caller, &namespace, spec).await?))
}

/// The job, and the request as it was parsed.
fn spec_of<C: Jobs>(control: &C, caller: &mut Caller, body: Option<Value>) -> Result<(JobSpec, Value), Refused> {
    let mut body =
        body.ok_or_else(|| Refused::of_field(Code::BadRequest, "", "the body is empty; send a job as JSON"))?;
    let mut faults = Faults::default();
    if let Value::Object(fields) = &mut body {
        take_epoch(control, caller, fields, &mut faults)?;
    }
    let spec = match parse_job(&body) {
        Ok(spec) => faults.finish(spec),
        Err(more) => {
            faults.join(more);
            Err(faults)
        }
    };
    Ok((spec.map_err(Refusal::invalid)?, body))
}

/// `POST …/jobs/{id}/cancel`; the body is optional.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/cancel",
    tag = "jobs",
    operation_id = "cancelJob",
    request_body = Option<EpochBody>,
    responses(
        (status = 200, description = "the job's status now", body = JobStateDoc),
    ),
)]
pub async fn cancel<C: Jobs>(
    Asked { control, mut caller }: Asked<C>,
    OfJob(job): OfJob,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<JobStateDoc>, Refused> {
    params.finish()?;
    Fields::of(&control, &mut caller, body, &[])?.finish()?;
    Ok(Json(control.cancel(&caller, &job).await?))
}

/// `GET …/jobs/{id}`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}",
    tag = "jobs",
    operation_id = "getJob",
    params(
        ("run" = Option<u32>, Query, description = "as this run had it; the newest if it is left out", minimum = 1, maximum = 100),
    ),
    responses(
        (status = 200, description = "the job", body = JobDoc),
    ),
)]
pub async fn get<C: Jobs>(
    Asked { control, caller }: Asked<C>,
    OfJob(job): OfJob,
    mut params: Params,
) -> Result<Json<JobDoc>, Refused> {
    let run = params.run();
    params.finish()?;
    Ok(Json(control.job(&caller, &job, run).await?))
}

/// `GET …/jobs/{id}/runs`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/runs",
    tag = "jobs",
    operation_id = "listRuns",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<u32>, Query, description = "the `next` of the page before, the number of a run", minimum = 1, maximum = 100),
    ),
    responses(
        (status = 200, description = "newest first", body = ListDoc<RunDoc>),
    ),
)]
pub async fn runs<C: Jobs>(
    Asked { control, caller }: Asked<C>,
    OfJob(job): OfJob,
    mut params: Params,
) -> Result<Json<ListDoc<RunDoc>>, Refused> {
    let limit = params.limit(DEFAULT_LIMIT);
    let read = |text: &str| text.parse().ok().filter(|run| *run > 0);
    let before = params.read("after", "must be the next of the page before, the number of a run", read);
    params.finish()?;
    Ok(Json(control.runs(&caller, &job, RunQuery { limit, before }).await?))
}

/// `GET …/jobs/{id}/why`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/why",
    tag = "jobs",
    operation_id = "whyJob",
    responses(
        (status = 200, description = "what the job is waiting for, or how it ended", body = WhyDoc),
    ),
)]
pub async fn why<C: Jobs>(
    Asked { control, caller }: Asked<C>,
    OfJob(job): OfJob,
    params: Params,
) -> Result<Json<WhyDoc>, Refused> {
    params.finish()?;
    Ok(Json(control.why(&caller, &job).await?))
}

/// Canonical `GET …/jobs`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs",
    tag = "jobs",
    operation_id = "listJobs",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "the `next` of the page before, a job id", pattern = "^job-[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("status" = Option<JobStatus>, Query, description = "only jobs with this status"),
        ("name" = Option<String>, Query, description = "only jobs of this name", min_length = 1, max_length = 128),
        ("label" = Option<String>, Query, description = "only jobs with these labels: KEY=VALUE, several separated by commas"),
        ("waiting" = Option<bool>, Query, description = "true: only jobs that wait for an operator"),
    ),
    responses(
        (status = 200, description = "newest first", body = ListDoc<JobDoc>),
    ),
)]
pub async fn list<C: Jobs>(
    Asked { control, caller }: Asked<C>,
    InNamespace(namespace): InNamespace,
    params: Params,
) -> Result<Json<ListDoc<JobDoc>>, Refused> {
    let query = job_query(params, DEFAULT_LIMIT)?;
    Ok(Json(control.jobs(&caller, &namespace, query).await?))
}

/// `GET /jobs`: a bare array.
#[utoipa::path(
    get,
    path = "/jobs",
    tag = "jobs",
    operation_id = "listJobsBare",
    params(
        ("limit" = Option<u32>, Query, description = "rows of a page", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "the `next` of the page before, a job id", pattern = "^job-[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("status" = Option<JobStatus>, Query, description = "only jobs with this status"),
        ("name" = Option<String>, Query, description = "only jobs of this name", min_length = 1, max_length = 128),
        ("label" = Option<String>, Query, description = "only jobs with these labels: KEY=VALUE, several separated by commas"),
        ("waiting" = Option<bool>, Query, description = "true: only jobs that wait for an operator"),
    ),
    responses(
        (status = 200, description = "the first of them, newest first", body = Vec<JobDoc>),
    ),
)]
pub async fn list_bare<C: Jobs>(
    Asked { control, caller }: Asked<C>,
    InNamespace(namespace): InNamespace,
    params: Params,
) -> Result<Bare<JobDoc>, Refused> {
    let query = job_query(params, MAX_LIMIT)?;
    Ok(Bare(control.jobs(&caller, &namespace, query).await?))
}

/// `Idempotency-Key`: 1 to 128 visible ASCII characters.
#[derive(Debug)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let mut values = parts.headers.get_all(HEADER_KEY).iter();
        let key = match (values.next(), values.next()) {
            (None, _) => return Ok(Self(None)),
            (Some(value), None) => Some(value.as_bytes()),
            (Some(_), Some(_)) => None,
        };
        let key = key.filter(|k| (1..=MAX_KEY_BYTES).contains(&k.len()) && k.iter().all(u8::is_ascii_graphic));
        match key.and_then(|k| String::from_utf8(k.to_vec()).ok()) {
            Some(key) => Ok(Self(Some(key))),
            None => {
                let mut faults = Faults::default();
                let problem = format!("must be one value of 1 to {MAX_KEY_BYTES} visible ASCII characters");
                faults.add("Idempotency-Key", problem);
                Err(Refused::bad_request(faults))
            }
        }
    }
}

const LABEL_PROBLEM: &str = "must be KEY=VALUE, several separated by commas, all of them names, and no key twice";

fn name(text: &str) -> Option<String> {
    (1..=MAX_JOB_NAME_CHARS).contains(&text.chars().count()).then(|| text.to_owned())
}

fn labels(text: &str) -> Option<BTreeMap<Name, Name>> {
    let pairs = text.split(',').map(|pair| {
        let (key, value) = pair.split_once('=')?;
        Some((key.parse().ok()?, value.parse().ok()?))
    });
    let mut found = BTreeMap::new();
    for pair in pairs {
        let (key, value) = pair?;
        // A job has one value for a key: asking for two would match nothing, and keeping the last would lie.
        if found.len() == MAX_JOB_LABELS || found.insert(key, value).is_some() {
            return None;
        }
    }
    Some(found)
}

fn job_query(mut params: Params, default_limit: u32) -> Result<JobQuery, Refused> {
    const STATUSES: [JobStatus; 5] =
        [JobStatus::Pending, JobStatus::Running, JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled];
    let query = JobQuery {
        limit: params.limit(default_limit),
        waiting: params.word("waiting", &[("true", true), ("false", false)]).unwrap_or(false),
        filter: JobFilter {
            among: None,
            before: params.parsed("after"),
            status: params.word("status", &STATUSES.map(|s| (s.word(), s))),
            name: params.read("name", "must be a name of 1 to 128 characters", name),
            labels: params.read("label", LABEL_PROBLEM, labels).unwrap_or_default(),
        },
    };
    params.finish()?;
    Ok(query)
}
