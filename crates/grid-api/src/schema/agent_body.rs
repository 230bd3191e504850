//! Describes the bodies that plain HTTP agents send, as schemas; `agents` reads them by hand.

use grid_types::api::MAX_INSTANCE_BYTES;
use grid_types::decl::builtin;
use grid_types::limits::{MAX_FACT_BYTES, MAX_GROUPS, MAX_SLOTS};
use serde_json::{Map, Value, json};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::job_body::epoch;
use super::{JOB_ID, NAME};

/// Names the schema of a question for work. [`put_schemas`] writes it.
pub struct LeasesBody;

/// Names the schema of a result.
pub struct ResultBody;

impl ToSchema for LeasesBody {}
impl ToSchema for ResultBody {}

impl PartialSchema for LeasesBody {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().into()
    }
}

impl PartialSchema for ResultBody {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().into()
    }
}

const LEASE_ID: &str = "^lease-[0-7][0-9a-hjkmnp-tv-z]{12}(-(0|[1-9][0-9]{0,8})){4}$";

pub fn put_schemas(all: &mut Map<String, Value>) {
    all.insert("LeasesBody".to_owned(), leases());
    all.insert("ResultBody".to_owned(), result());
}

fn leases() -> Value {
    let names: Vec<_> = builtin().iter().map(|backend| backend.name).collect();
    let actions: Map<_, _> = builtin()
        .iter()
        .map(|backend| {
            let actions: Vec<_> = backend.actions.iter().map(|action| action.name).collect();
            (backend.name.to_owned(), json!({"type": "array", "items": {"type": "string", "enum": actions}}))
        })
        .collect();
    json!({
        "type": "object", "additionalProperties": false, "required": ["agent"],
        "description": "what an agent leaves out of hostname, groups, labels, backends and slots stays as it said it last",
        "properties": {
            "agent": {"type": "string", "pattern": NAME, "description": "its name; one that is new is registered"},
            "wait": {
                "type": ["string", "null"], "pattern": "^([1-5]?[0-9]|60)s$",
                "description": "how long to wait for work, at most 60s; 20s if it is left out",
            },
            "instance": {
                "type": ["string", "null"], "minLength": 1, "maxLength": MAX_INSTANCE_BYTES / 4,
                "description": "distinguishes processes of an agent: a second one is refused while the first one polls",
            },
            "hostname": {"type": ["string", "null"], "maxLength": MAX_FACT_BYTES / 4},
            "groups": {"type": ["array", "null"], "maxItems": MAX_GROUPS, "items": {"type": "string", "pattern": NAME}},
            "labels": {
                "type": ["object", "null"], "maxProperties": 8, "propertyNames": {"pattern": "^[a-z]{1,20}$"},
                "additionalProperties": {"type": "string", "pattern": "^[-a-z0-9]{0,60}$"},
            },
            "backends": {
                "description": "what it runs: whole backends, or some of their actions",
                "oneOf": [
                    {"type": "null"},
                    {"type": "array", "items": {"type": "string", "enum": names}},
                    {"type": "object", "additionalProperties": false, "properties": actions},
                ],
            },
            "slots": {
                "type": ["integer", "null"], "minimum": 1, "maximum": MAX_SLOTS,
                "description": "leases at once; 1 for an agent that never said it",
            },
            "held": {
                "type": ["array", "null"], "maxItems": MAX_SLOTS, "items": {"type": "string", "pattern": LEASE_ID},
                "description": "leases it works on or has the result of: they are not given again",
            },
            "leader_epoch": epoch(),
        },
    })
}

fn result() -> Value {
    let number = |least: u32| json!({"type": "integer", "minimum": least, "maximum": u32::MAX});
    json!({
        "type": "object", "additionalProperties": false,
        "required": ["agent", "lease_id", "job_id", "job_epoch", "leader_epoch", "step", "attempt", "status"],
        "properties": {
            "agent": {"type": "string", "pattern": NAME},
            "lease_id": {"type": "string", "pattern": LEASE_ID},
            "job_id": {"type": "string", "pattern": JOB_ID},
            "job_epoch": number(1),
            "leader_epoch": {
                "type": "integer", "minimum": 0, "maximum": i64::MAX,
                "description": "that of the lease, or the current one after STALE_EPOCH with `stale: leader`",
            },
            "step": number(0),
            "attempt": number(1),
            "status": {"type": "string", "enum": ["success", "failed", "timed_out", "cancelled", "unknown"]},
            "output": {"type": ["string", "null"], "description": "the last 16 KiB of it are kept"},
            "error": {"type": ["string", "null"]},
            "duration": {"type": ["string", "null"], "pattern": "^[0-9]{1,6}(\\.[0-9]{1,9})?s$"},
        },
    })
}
