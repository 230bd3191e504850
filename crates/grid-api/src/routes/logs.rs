//! Serves outputs: the bytes of one, or the lines of a whole job as they are printed.
//!
//! `GET …/output/{step}/{node}`: the bytes, in chunks; with `follow` until the attempt has ended.
//! `GET …/logs`: one JSON record a line (`LogDoc`), an empty line every 10 s of silence, a record `end` at the end: a stream
//! without it broke off, and `POST …/logs` with the cursors of what was read goes on where it was.
//!
//! Whole outputs stay on the workers, and those speak to the leader only: a standby sends readers of `logs` and followers
//! there, and serves the stored end of an output itself.

use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::response::Response;
use grid_controller::{LogFilter, LogQuery, OutputQuery, Outputs};
use grid_types::api::{LogCursor, LogDoc, LogsBody, Role};
use grid_types::{Attempt, NodeId, StepIndex};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::http::body::{Fields, JsonBody};
use crate::http::caller::Asked;
use crate::http::guard;
use crate::http::path::{OfJob, OfOutput};
use crate::http::query::Params;
use crate::http::refused::Refused;
use crate::http::streams::{self, Closing};

/// Bytes of the whole output, once it has ended; the body holds the last of them.
pub const HEADER_OUTPUT_TOTAL: &str = "x-grid-output-total";
/// Of the first byte of the body.
pub const HEADER_OUTPUT_OFFSET: &str = "x-grid-output-offset";
/// Which attempt it is.
pub const HEADER_OUTPUT_ATTEMPT: &str = "x-grid-output-attempt";

/// `GET …/output/{step}/{node}?follow=&offset=&attempt=`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/output/{step}/{node}",
    tag = "results",
    operation_id = "getOutput",
    params(
        ("follow" = Option<bool>, Query, description = "stay until the attempt has ended"),
        ("offset" = Option<u64>, Query, description = "begin at this byte"),
        ("attempt" = Option<u32>, Query, description = "this attempt instead of the newest", minimum = 1),
        ("run" = Option<u32>, Query, description = "of this run; the newest if it is left out", minimum = 1, maximum = 100),
    ),
    responses(
        (
            status = 200,
            description = "the output as the task wrote it: whole if its worker is there, otherwise its last bytes",
            content_type = "application/octet-stream",
            body = Vec<u8>,
            headers(
                ("X-Grid-Output-Total" = Option<u64>, description = "bytes of the whole output, once it has ended"),
                ("X-Grid-Output-Offset" = u64, description = "of the first byte of the body"),
                ("X-Grid-Output-Attempt" = u32, description = "which attempt it is"),
            ),
        ),
    ),
)]
pub async fn output<C: Outputs>(
    Asked { control, caller }: Asked<C>,
    path: OfOutput,
    closing: Closing,
    mut params: Params,
) -> Result<Response, Refused> {
    let OfOutput { job, step, node } = path;
    let query = OutputQuery {
        step,
        node,
        follow: follow(&mut params),
        offset: params.read("offset", "must be a number of bytes", |text| text.parse().ok()).unwrap_or(0),
        attempt: attempt(&mut params),
        run: params.run(),
    };
    params.finish()?;
    let role = control.role();
    if query.follow && role.role == Role::Standby {
        return Err(guard::not_here(&control, role));
    }
    let output = control.output(&caller, &job, query).await?;
    let body = streams::body(output.pieces, closing, Bytes::new(), "", |piece| piece.map_err(|e| e.to_string()));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // A task chooses these bytes; no browser may take them for a page of this origin.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static(HEADER_OUTPUT_OFFSET), HeaderValue::from(output.offset));
    headers.insert(HeaderName::from_static(HEADER_OUTPUT_ATTEMPT), HeaderValue::from(output.attempt.0));
    if let Some(total) = output.total_bytes {
        headers.insert(HeaderName::from_static(HEADER_OUTPUT_TOTAL), HeaderValue::from(total));
    }
    Ok(response)
}

/// `GET …/logs?follow=&step=&node=&attempt=&tail=`.
#[utoipa::path(
    get,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/logs",
    tag = "results",
    operation_id = "readLogs",
    params(
        ("follow" = Option<bool>, Query, description = "stay until the job has ended"),
        ("step" = Option<u32>, Query, description = "only this step"),
        ("node" = Option<String>, Query, description = "only these nodes, with commas between them", pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(,[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"),
        ("attempt" = Option<u32>, Query, description = "this attempt instead of the newest", minimum = 1),
        ("run" = Option<u32>, Query, description = "of this run; the newest if it is left out", minimum = 1, maximum = 100),
        ("tail" = Option<u32>, Query, description = "of each output only the last so many lines", minimum = 1),
    ),
    responses(
        (status = 200, description = "one LogDoc a line; the last is `end`", content_type = "application/x-ndjson", body = LogDoc),
    ),
)]
pub async fn logs<C: Outputs>(
    Asked { control, caller }: Asked<C>,
    OfJob(job): OfJob,
    closing: Closing,
    params: Params,
) -> Result<Response, Refused> {
    let query = query(params, Vec::new())?;
    Ok(stream(control.logs(&caller, &job, query).await?, closing))
}

/// `POST …/logs`: the same, from where the reader was.
#[utoipa::path(
    post,
    path = "/api/v1/namespaces/{ns}/jobs/{id}/logs",
    tag = "results",
    operation_id = "readLogsFrom",
    params(
        ("follow" = Option<bool>, Query, description = "stay until the job has ended"),
        ("step" = Option<u32>, Query, description = "only this step"),
        ("node" = Option<String>, Query, description = "only these nodes, with commas between them", pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(,[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"),
        ("attempt" = Option<u32>, Query, description = "this attempt instead of the newest", minimum = 1),
        ("run" = Option<u32>, Query, description = "of this run; the newest if it is left out", minimum = 1, maximum = 100),
        ("tail" = Option<u32>, Query, description = "of each output only the last so many lines", minimum = 1),
    ),
    request_body = LogsBody,
    responses(
        (status = 200, description = "one LogDoc a line; the last is `end`", content_type = "application/x-ndjson", body = LogDoc),
    ),
)]
pub async fn logs_from<C: Outputs>(
    Asked { control, mut caller }: Asked<C>,
    OfJob(job): OfJob,
    closing: Closing,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    let mut fields = Fields::of(&control, &mut caller, body, &["from"])?;
    let cursors = |value: &Value| serde_json::from_value::<Vec<LogCursor>>(value.clone()).ok();
    let from = fields.optional("from", "a list of {step, node, epoch, attempt, run, next}", cursors);
    fields.finish()?;
    let query = query(params, from.unwrap_or_default())?;
    Ok(stream(control.logs(&caller, &job, query).await?, closing))
}

fn query(mut params: Params, from: Vec<LogCursor>) -> Result<LogQuery, Refused> {
    let follow = follow(&mut params);
    let step = params.read("step", "must be the number of a step, from 0", |text| text.parse().ok().map(StepIndex));
    let names = |text: &str| text.split(',').map(|name| name.parse::<NodeId>().ok().map(String::from)).collect();
    let nodes: Option<Vec<String>> = params.read("node", "must be names of nodes with commas between them", names);
    let attempt = attempt(&mut params);
    let run = params.run();
    let tail = params.read("tail", "must be a number of lines, from 1", |text| text.parse().ok().filter(|n| *n > 0));
    params.finish()?;
    let filter = LogFilter { step, nodes: nodes.unwrap_or_default(), attempt, run };
    Ok(LogQuery { filter, follow, tail, from })
}

fn stream(records: mpsc::Receiver<LogDoc>, closing: Closing) -> Response {
    let body = streams::body(records, closing, Bytes::from_static(b"\n"), "\n", |record| Ok(line(&record)));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn follow(params: &mut Params) -> bool {
    params.word("follow", &[("true", true), ("false", false)]).unwrap_or(false)
}

fn attempt(params: &mut Params) -> Option<Attempt> {
    let read = |text: &str| text.parse().ok().filter(|n| *n > 0).map(Attempt);
    params.read("attempt", "must be the number of an attempt, from 1", read)
}

fn line(record: &LogDoc) -> Bytes {
    // Texts and numbers can always be written, and JSON has no line breaks.
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    Bytes::from(line)
}
