//! Documents for unit tests.

use std::collections::BTreeMap;

use grid_types::Outcome;
use grid_types::api::JobDoc;
use serde_json::{from_value, json};

/// One step of `ping echo` on three nodes, with the given counts.
pub fn job(status: &str, counts: &[(&str, u64)]) -> JobDoc {
    let mut all: BTreeMap<_, _> = Outcome::ALL.iter().map(|o| (o.word(), 0)).collect();
    all.extend(counts.iter().copied());
    let doc = json!({
        "id": "job-0c5t9v3k2m7qa", "namespace": "default", "target": {"scope": "all"},
        "tasks": [{"backend": "ping", "action": "echo"}], "strategy": "fail-fast", "status": status, "reason": null,
        "step": 0, "expected": ["db-01", "web-01", "web-02"], "owner": "c1", "job_epoch": 1, "leader_epoch": 1,
        "counts": all, "steps": [{"step": 0, "phase": 0, "backend": "ping", "action": "echo", "counts": all}],
        "created_at": "2026-02-12T10:30:00Z", "updated_at": "2026-02-12T10:30:01Z",
    });
    from_value(doc).unwrap()
}

/// Compares with a file of this crate; `GRIDC_GOLDEN=write` writes it instead.
pub fn golden(path: &str, got: &str) {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("GRIDC_GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(got, want, "{path}; GRIDC_GOLDEN=write accepts the new text");
}
