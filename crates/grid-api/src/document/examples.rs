//! One example for each body and each good answer in JSON. A test holds every one against its schema.

use serde_json::{Value, json};

const JOB: &str = "job-0c5t9v3k2m7qa";
const LEASE: &str = "lease-0c5t9v3k2m7qa-1-0-1-3";
const AT: &str = "2026-05-04T10:15:00.000Z";

/// Puts the examples of the operation `id` where they belong.
pub fn put(doc: &mut Value, id: &str) {
    if let Some(body) = request(id) {
        doc["requestBody"]["content"]["application/json"]["example"] = body;
    }
    let Some(answer) = answer(id) else { return };
    for status in ["200", "201"] {
        if let Some(json) = doc["responses"].get_mut(status).and_then(|a| a["content"].get_mut("application/json")) {
            json["example"] = answer.clone();
        }
    }
}

fn request(id: &str) -> Option<Value> {
    Some(match id {
        "submitJob" | "planJob" => json!({
            "target": {"scope": "group", "value": "web"},
            "tasks": [
                {"backend": "ping", "action": "echo", "params": {"message": "hello"}},
                {"concurrency": 2, "tasks": [
                    {"backend": "apt", "action": "install", "params": {"package": "curl"}, "timeout": "10m", "max_retries": 2},
                    {"backend": "systemd", "action": "restart", "params": {"unit": "nginx.service"}},
                ]},
            ],
            "strategy": "continue",
            "failure_tolerate": "10%",
        }),
        "cancelJob" | "drainNode" | "undrainNode" | "promoteMember" | "demoteMember" => json!({}),
        "stepDown" => json!({"to": "n2"}),
        "joinMember" => json!({
            "node_id": "n2", "raft_id": 7, "folder_id": "9d2e", "raft_addr": "10.0.0.2:4601",
            "api_url": "http://10.0.0.2:4600", "grpc_addr": "10.0.0.2:4602", "feature_level": 1, "replace": false,
        }),
        "readLogsFrom" => json!({
            "from": [{"step": 0, "node": "web-01", "epoch": 1, "attempt": 1, "run": 7, "next": 1024}],
        }),
        "confirmJob" => json!({"phase": 1}),
        "resumeJob" | "retryJob" => json!({"rerun_once": false}),
        "pollLeases" => json!({
            "agent": "edge-01", "wait": "20s", "groups": ["edge"], "backends": {"ping": ["echo"]}, "slots": 1, "held": [],
        }),
        "reportResult" => json!({
            "agent": "edge-01", "lease_id": LEASE, "job_id": JOB, "job_epoch": 1, "leader_epoch": 4, "step": 0,
            "attempt": 1, "status": "success", "output": "hello\n", "error": null, "duration": "0.2s",
        }),
        "resolveStep" => json!({"step": 0, "node": "web-01", "as": "success"}),
        _ => return None,
    })
}

fn answer(id: &str) -> Option<Value> {
    let page = |item: Value| json!({"items": [item], "next": null});
    Some(match id {
        "submitJob" | "getJob" => job(),
        "planJob" => json!({
            "hash": "0".repeat(64), "target": {"scope": "all"}, "expected": ["web-01", "web-02"],
            "offline": {"web-02": "dead"}, "tasks": [{"backend": "ping", "action": "echo"}],
            "strategy": "fail-fast", "failure_tolerate": "0", "rows": 2,
        }),
        "listJobs" => page(job()),
        "listJobsBare" => json!([job()]),
        "cancelJob" => json!({"id": JOB, "status": "cancelled"}),
        "confirmJob" | "resumeJob" | "retryJob" | "resolveStep" => json!({"id": JOB, "status": "running"}),
        "whyJob" => json!({"id": JOB, "status": "pending", "why": "5 jobs run already, the most at once; it is next"}),
        "listResults" => page(json!({
            "step": 0, "node": "web-01", "status": "success", "duration": "2.3s", "attempts": 1, "started_at": AT,
        })),
        "groupOutputs" => {
            page(json!({"count": 2, "nodes": ["web-01", "web-02"], "output": "hello\n", "total_bytes": 6}))
        }
        "events" => page(json!({
            "id": 812, "at": AT, "kind": "JobStarted", "subject": JOB, "text": "3 nodes", "job": JOB, "node": null,
            "namespace": "default", "leader_epoch": 4, "role": "LEADER",
        })),
        "pollLeases" => json!({
            "leases": [{
                "lease_id": LEASE, "job_id": JOB, "job_epoch": 1, "leader_epoch": 4, "step": 0, "attempt": 1,
                "backend": "ping", "action": "echo", "params": {"message": "hello"}, "timeout": "5m", "effect": "pure",
            }],
            "revoked": [], "leader_epoch": 4,
        }),
        "reportResult" => json!({"lease_id": LEASE, "status": "success", "leader_epoch": 4}),
        "listBackends" => page(backend()),
        "getBackend" => backend(),
        "listNodes" => page(node("ready")),
        "listNodesBare" => json!([node("online")]),
        "getNode" | "drainNode" | "undrainNode" => node("ready"),
        "cluster" | "removeMember" | "promoteMember" | "demoteMember" => json!({
            "cluster_id": "5f0c3a1e9b7d4c21", "leader_id": "n1", "leader_epoch": 4, "voters": 1, "majority": 1, "feature_level": 1,
            "members": [controller()],
        }),
        "controllers" => json!([controller()]),
        "joinMember" => json!({"cluster_id": "5f0c3a1e9b7d4c21"}),
        "stepDown" => role(),
        "removeNode" => json!({"id": "web-01", "status": "removed"}),
        "getNodeBare" => node("online"),
        "role" => role(),
        "status" => {
            let mut status = role();
            let more = json!({
                "cluster_id": "5f0c3a1e9b7d4c21", "version": "0.1.0", "nodes": {"ready": 3}, "jobs": {"running": 1},
                "applied_index": 41,
            });
            if let (Value::Object(status), Value::Object(more)) = (&mut status, more) {
                status.extend(more);
            }
            status
        }
        "health" => json!({"status": "ok"}),
        "ready" => json!({"status": "ready"}),
        _ => return None,
    })
}

fn job() -> Value {
    let counts = json!({
        "pending": 0, "running": 1, "success": 1, "failed": 0, "timed_out": 0, "cancelled": 0, "skipped": 0, "unknown": 0,
    });
    json!({
        "id": JOB, "namespace": "default", "target": {"scope": "group", "value": "web"},
        "tasks": [{"backend": "ping", "action": "echo", "params": {"message": "hello"}}],
        "strategy": "fail-fast", "failure_tolerate": "0", "offline": "skip", "on_unknown": "fail",
        "status": "running", "reason": null, "step": 0, "expected": ["web-01", "web-02"], "expected_count": 2, "skipped_offline": 0,
        "owner": null, "job_epoch": 1, "leader_epoch": 4, "counts": counts,
        "steps": [{"step": 0, "phase": 0, "backend": "ping", "action": "echo", "counts": counts}],
        "results": {"0": {
            "web-01": {"status": "success", "duration": "2.3s", "attempts": 1, "started_at": AT},
            "web-02": {"status": "running", "attempts": 1, "started_at": AT},
        }},
        "created_at": AT, "updated_at": AT,
    })
}

fn node(status: &str) -> Value {
    json!({
        "id": "web-01", "hostname": "web-01.example.org", "address": "10.0.0.11", "groups": ["web", "prod"],
        "labels": {"rack": "a3"}, "backends": {"ping": ["echo", "sleep"]}, "os": "linux", "arch": "x86_64",
        "capacity": {"cpu_milli": 4000, "memory_bytes": 8_589_934_592_u64, "disk_bytes": 107_374_182_400_u64, "slots": 8},
        "version": "0.1.0", "status": status, "state": "ready", "ordinal": 1, "session": 3, "drained": false, "agent": false, "leases": 0,
        "last_seen": AT, "registered_at": AT, "leader_epoch": 4,
    })
}

fn controller() -> Value {
    json!({
        "id": "n1", "role": "LEADER", "voter": true, "leader_epoch": 4, "feature_level": 1, "version": "0.1.0",
        "api_url": "http://10.0.0.1:4600", "grpc_addr": "10.0.0.1:4602", "raft_addr": "10.0.0.1:4601", "raft_id": 5,
        "last_index": 41, "applied_index": 41, "lag": 0, "last_contact_ms": 0,
    })
}

fn backend() -> Value {
    json!({
        "name": "ping", "help": "answers", "on_by_default": true, "needs": [],
        "actions": [{
            "name": "echo", "help": "says it again", "effect": "pure", "timeout": "5m",
            "params": [{"name": "message", "help": "what to say", "type": "text", "required": false, "default": "pong"}],
        }],
    })
}

fn role() -> Value {
    json!({
        "node_id": "n1", "role": "LEADER", "leader_epoch": 4, "leader_id": "n1",
        "leader_url": "http://10.0.0.1:4600", "leader_grpc": "http://10.0.0.1:4602", "controllers": ["http://10.0.0.1:4600"],
    })
}
