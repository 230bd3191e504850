//! Plain HTTP agents: `POST /v1/leases` asks for work, `POST /v1/results` reports how it ended (W4, W10).
//!
//! Not here: what is given to whom (`Control`); the list of agents, which is that of nodes (`nodes`).
//! The bodies are read by hand, to name every fault at once, as those of `decisions`.

mod facts;
mod report;

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use grid_controller::{AgentPoll, Agents};
use grid_types::api::{DEFAULT_WAIT_MS, LeasesDoc, MAX_INSTANCE_BYTES, MAX_WAIT_MS, RecordedDoc};
use grid_types::limits::MAX_SLOTS;
use grid_types::{Faults, LeaseId, NodeId, Span};
use serde_json::Value;

use crate::http::body::{Fields, JsonBody};
use crate::http::caller::Asked;
use crate::http::query::Params;
use crate::http::refused::Refused;
use crate::http::streams::Closing;
use crate::schema::{LeasesBody, ResultBody};

/// `POST /v1/leases`: answers when there is work or something to stop, or when `wait` is over.
#[utoipa::path(
    post,
    path = "/v1/leases",
    tag = "agents",
    operation_id = "pollLeases",
    request_body = LeasesBody,
    responses(
        (status = 200, description = "what to run and what to stop; both may be empty", body = LeasesDoc),
    ),
)]
pub async fn leases<C: Agents>(
    Asked { control, mut caller }: Asked<C>,
    mut closing: Closing,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<LeasesDoc>, Refused> {
    params.finish()?;
    let known = ["agent", "wait", "instance", "hostname", "groups", "labels", "backends", "slots", "held"];
    let poll = poll(Fields::of(&control, &mut caller, body, &known)?)?;
    // A question must not hold up an orderly stop, nor be cut off while leases are being given.
    Ok(Json(control.poll_agent(&caller, poll, async move { closing.changed().await }).await?))
}

/// `POST /v1/results`.
#[utoipa::path(
    post,
    path = "/v1/results",
    tag = "agents",
    operation_id = "reportResult",
    request_body = ResultBody,
    responses(
        (status = 200, description = "it is recorded", body = RecordedDoc),
    ),
)]
pub async fn results<C: Agents>(
    Asked { control, mut caller }: Asked<C>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Result<Json<RecordedDoc>, Refused> {
    params.finish()?;
    let has_epoch = body.as_ref().and_then(|body| body.get("leader_epoch")).is_some_and(|epoch| !epoch.is_null());
    let mut fields = Fields::of(&control, &mut caller, body, &report::KNOWN)?;
    if !has_epoch {
        fields.fault("leader_epoch", "is required: that of the lease, or the current one after a change of leader");
    }
    Ok(Json(control.agent_result(&caller, report::read(fields)?).await?))
}

fn poll(mut fields: Fields) -> Result<AgentPoll, Refused> {
    let agent = agent(&mut fields);
    let wait = format!("a duration of at most {}, such as 20s", Span::from_ms(MAX_WAIT_MS));
    let wait = fields
        .optional("wait", &wait, |value| value.as_str()?.parse().ok().filter(|span: &Span| span.ms() <= MAX_WAIT_MS));
    let instance = format!("a text of 1 to {MAX_INSTANCE_BYTES} bytes");
    let instance = fields.optional("instance", &instance, |value| {
        value.as_str().filter(|text| (1..=MAX_INSTANCE_BYTES).contains(&text.len())).map(str::to_owned)
    });
    let facts = facts::read(&mut fields);
    let outstanding = fields.nested("held", outstanding).unwrap_or_default();
    let Some(agent) = agent else { return Err(fields.refused()) };
    fields.finish()?;
    let wait = Duration::from_millis(wait.map_or(DEFAULT_WAIT_MS, Span::ms));
    Ok(AgentPoll { agent, instance, facts, outstanding, wait })
}

fn agent(fields: &mut Fields) -> Option<NodeId> {
    fields.required("agent", "the name of the agent, a-z, 0-9 and -", |value| value.as_str()?.parse().ok())
}

fn outstanding(value: &Value, faults: &mut Faults) -> Option<BTreeSet<LeaseId>> {
    let most = usize::try_from(MAX_SLOTS).unwrap_or(usize::MAX);
    let Some(list) = value.as_array().filter(|list| list.len() <= most) else {
        faults.add("held", format!("must be a list of at most {most} lease ids"));
        return None;
    };
    let mut outstanding = BTreeSet::new();
    for (i, id) in list.iter().enumerate() {
        match id.as_str().and_then(|text| text.parse().ok()) {
            Some(id) => drop(outstanding.insert(id)),
            None => faults.add(format!("held[{i}]"), "must be a lease id, as /v1/leases gave it"),
        }
    }
    Some(outstanding)
}
