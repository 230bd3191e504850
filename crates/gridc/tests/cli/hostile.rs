//! A controller, or a server in its place, that puts control characters into every text: nothing of it may reach
//! a terminal as a command, whatever the verb, the format and the way it fails.

use grid_testkit::{Typed, on_terminal};
use serde_json::{Value, json};

use crate::fake::{Fake, JOB, boom, job};
use crate::gridc;
use crate::listing::node;

/// Of every kind: a title, a cleared screen, C1, DEL, a bidi override, an isolate, marks, and both separators.
const EVIL: &str =
    "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}5m\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{2029}\u{85}\r\ny";

/// Words that a client reads as one of a few; anything else is refused before it is shown.
const WORDS: [&str; 7] = ["status", "role", "effect", "timeout", "word", "kind", "next"];

/// Every text and every name in it, poisoned; words only with `words`.
fn poisoned(value: &Value, words: bool) -> Value {
    match value {
        Value::String(text) => json!(format!("{text}{EVIL}")),
        Value::Array(items) => items.iter().map(|item| poisoned(item, words)).collect(),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| {
                let known = WORDS.contains(&key.as_str()) && value.is_string();
                let value = if known && !words { value.clone() } else { poisoned(value, words) };
                // Only keys that are names: those of labels, nodes and backends.
                let name = ["rack", "web-01", "apt/install", "ping"].contains(&key.as_str());
                (if name { format!("{key}{EVIL}") } else { key.clone() }, value)
            };
            Value::Object(map.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

fn one_job() -> Value {
    let results = json!({"0": {"web-01": {"status": "success", "duration": "0.1s", "attempts": 1}, "web-02": boom()}});
    let mut doc = job("failed", &[("success", 1), ("failed", 1)], Some(results));
    let run = |n: u32| json!({"run": n, "kind": "submit", "status": "failed", "reason": "r", "counts": {}, "started_at": "t", "ended_at": "t"});
    doc["runs"] = json!([run(2), run(1)]);
    doc["reason"] = json!("too many failures");
    doc["name"] = json!("nightly");
    doc["labels"] = json!({"rack": "a"});
    doc["held"] = json!("2026-02-12T10:30:00Z");
    doc["skipped_offline"] = json!(1);
    doc
}

fn answer(line: &str) -> Value {
    let member = json!({"id": "c1", "role": "LEADER", "voter": true, "leader_epoch": 1, "version": "0.1.0", "feature_level": 2,
        "api_url": "http://c1", "grpc_addr": "c1:1", "raft_addr": "c1:2", "raft_id": 1, "last_index": 1,
        "applied_index": 1, "lag": 0, "last_contact_ms": 1});
    let superseded = json!({"generation": 2, "by": "web-01", "at": "2026-02-12T10:30:00Z"});
    let role = json!({"node_id": "c1", "role": "LEADER", "leader_epoch": 1, "leader_id": "c1", "leader_url": "u"});
    let path = line.split('?').next().unwrap_or_default();
    let rest = path.rsplit(&format!("/jobs/{JOB}")).next().unwrap_or_default();
    match path.split(' ').nth(1).unwrap_or_default() {
        "/role" | "/api/v1/cluster/step-down" => role,
        "/status" => grid_testkit::spec::with(
            role,
            json!({"cluster_id": "k", "version": "0.1.0", "nodes": {"ready": 1}, "jobs": {"rack": 1},
            "applied_index": 1, "snapshot_problem": "disk full", "superseded": superseded}),
        ),
        "/api/v1/nodes" => json!({"items": [node("web-01", "ready")], "next": null}),
        path if path.starts_with("/api/v1/nodes/") => node("web-01", "ready"),
        "/api/v1/backends" => json!({"items": [crate::backends::apt()], "next": null}),
        "/api/v1/backends/apt" => crate::backends::apt(),
        "/api/v1/events" => {
            json!({"items": [{"id": 1, "at": "t", "kind": "NodeDead", "subject": "web-01", "text": "lost",
            "node": "web-02", "leader_epoch": 1}], "next": null})
        }
        path if path.starts_with("/api/v1/cluster") => {
            json!({"cluster_id": "k", "leader_id": "c1", "leader_epoch": 1, "voters": 1,
            "majority": 1, "feature_level": 1, "superseded": superseded, "members": [member]})
        }
        "/api/v1/namespaces/default/jobs" if line.starts_with("GET") => json!({"items": [one_job()], "next": null}),
        "/api/v1/namespaces/default/jobs" => one_job(),
        "/api/v1/namespaces/default/jobs/plan" => json!({"hash": "h", "target": {"scope": "group", "value": "web"},
            "expected": ["web-01"], "offline": {"web-01": "dead"}, "lacking": {"apt/install": ["web-01"]},
            "tasks": [{"backend": "apt", "action": "install", "params": {"rack": "curl"}, "condition": "on_failure"}],
            "strategy": "fail-fast", "failure_tolerate": "0", "rows": 1}),
        _ => match rest {
            "/why" => json!({"id": JOB, "status": "running", "why": "waits"}),
            "/outputs/0" => {
                json!({"items": [{"count": 1, "nodes": ["web-01"], "output": "line\n", "total_bytes": 5}], "next": null})
            }
            "" => one_job(),
            verb if verb.starts_with("/results") => json!({"items": [], "next": null}),
            _ => {
                json!({"id": JOB, "status": "running", "note": "n", "may_have_run": [{"step": 0, "node": "web-01", "awaited": true}]})
            }
        },
    }
}

/// The ids of jobs stay as they are where a client could not go on with another one.
fn answered(line: &str) -> (u16, Value) {
    if line.contains("/logs") {
        let text = json!({"kind": "output", "step": 0, "node": format!("web-01{EVIL}"), "epoch": 1, "attempt": 1, "run": 1,
            "offset": 0, "next": 6, "text": format!("hello{EVIL}\n")});
        let note = json!({"kind": "note", "step": 0, "node": format!("web-02{EVIL}"), "word": "away", "text": format!("away{EVIL}")});
        return (200, json!(format!("{text}\n{note}\n{{\"kind\":\"end\",\"status\":\"completed\"}}\n")));
    }
    if line.contains("/output/") {
        return (200, json!(format!("raw{EVIL}\n")));
    }
    let mut doc = poisoned(&answer(line), false);
    if line.starts_with("POST") && line.ends_with("/jobs") {
        doc["id"] = json!(JOB);
        return (201, doc);
    }
    (200, doc)
}

async fn typed(server: &Fake, line: &str) -> Typed {
    let mut command = gridc(&server.url(), line).into_std();
    command.env("GRID_PATIENCE", "300ms");
    tokio::task::spawn_blocking(move || on_terminal(command)).await.unwrap()
}

fn lines() -> Vec<String> {
    let mut lines: Vec<String> = [
        "job status JOB",
        "job status JOB --failed",
        "job status JOB --status failed --step 0",
        "job wait JOB",
        "job get JOB",
        "job list",
        "job list --color always",
        "job why JOB",
        "job confirm JOB",
        "job confirm JOB --wait",
        "job cancel JOB",
        "job cancel JOB --wait",
        "job resume JOB",
        "job resume JOB --wait",
        "job retry JOB",
        "job resolve JOB --step 0 --node web-01 --as failed",
        "job logs JOB",
        "job logs JOB -f",
        "job logs JOB --grouped",
        "job logs JOB --grouped --names",
        "run -t all -- uname -r",
        "job run -t all ping echo",
        "job run -t all ping echo --wait",
        "job run -t all ping echo --follow",
        "node list",
        "node info web-01",
        "node drain web-01",
        "node remove web-01",
        "events",
        "backend list",
        "backend describe apt",
        "cluster status",
        "cluster remove c3",
        "cluster step-down",
        "cluster lift",
        "status",
        "role",
        "controllers",
        "job confirm --all-held",
    ]
    .into_iter()
    .map(|line| line.replace("JOB", JOB))
    .collect();
    lines.push(format!("job plan -f {}/tests/cli/hostile.yaml", env!("CARGO_MANIFEST_DIR")));
    lines
}

#[tokio::test]
async fn issue14_7_no_answer_can_touch_the_terminal() {
    let server = Fake::start(|_, seen| answered(&seen.line)).await;
    for line in lines() {
        for format in ["", " -o json", " -o yaml", " -o table"] {
            let line = format!("{line}{format}");
            let typed = typed(&server, &line).await;
            typed.assert_harmless(&line);
            // An id that is none is refused there before anything is asked of it.
            assert!(typed.code < 2 || line.contains("--all-held"), "{line}: it is shown, not refused: {typed:?}");
        }
    }
}

type Refuse = fn(&str) -> (u16, Value);

#[tokio::test]
async fn issue14_7_no_refusal_can_touch_the_terminal() {
    let refusals: [Refuse; 5] = [
        |line| (200, poisoned(&answer(line), true)),
        |_| (200, json!(EVIL)),
        |_| (409, json!(EVIL)),
        |_| {
            let details = json!([{"field": EVIL, "problem": EVIL}, {"field": EVIL, "problem": EVIL}]);
            (422, json!({"error": EVIL, "message": EVIL, "details": details}))
        },
        |_| (404, json!({"error": "NOT_FOUND", "message": EVIL})),
    ];
    for refuse in refusals {
        let server = Fake::start(move |_, seen| refuse(&seen.line)).await;
        for line in lines().iter().filter(|line| !line.contains("--grouped")) {
            let typed = typed(&server, line).await;
            typed.assert_harmless(line);
        }
    }
    for line in [format!("job status {EVIL}"), format!("--server http://{EVIL} status"), format!("node {EVIL}")] {
        let command = {
            let mut command = gridc("", "").into_std();
            command.args(line.split(' '));
            command
        };
        let typed = tokio::task::spawn_blocking(move || on_terminal(command)).await.unwrap();
        typed.assert_harmless(&line);
        assert!(typed.code >= 2, "{typed:?}");
    }
}

#[tokio::test]
async fn issue14_7_json_and_yaml_keep_their_meaning() {
    let server = Fake::start(|_, seen| answered(&seen.line)).await;
    for line in lines().iter().filter(|line| !line.contains("logs") && !line.contains("job confirm --all-held")) {
        // What is appended there belongs to the program.
        if line.contains("--follow") || line.starts_with("run ") {
            continue;
        }
        let ran = crate::run(&server.url(), &format!("{line} -o json")).await;
        let harmless = |text: &str| {
            !text.contains(|c: char| c != '\n' && (c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c)))
        };
        assert!(harmless(&ran.stdout), "{line}: {ran:?}");
        let json = ran.json();
        assert!(json.to_string().contains("owned"), "{line}: the text is there: {json}");
        let yaml = crate::run(&server.url(), &format!("{line} -o yaml")).await;
        assert!(harmless(&yaml.stdout), "{line}: {yaml:?}");
        let read: Value = serde_norway::from_str(&yaml.stdout).unwrap_or_else(|e| panic!("{line}: {e}: {yaml:?}"));
        assert_eq!(read, json, "{line}");
        if line == "node info web-01" {
            assert_eq!(json["hostname"], format!("web-01.lan{EVIL}"));
        }
    }
}

#[tokio::test]
async fn issue14_7_raw_output_goes_to_a_terminal_only_by_force() {
    let server = Fake::start(|_, seen| answered(&seen.line)).await;
    let line = format!("job logs {JOB} --node web-01 --raw");
    let refused = typed(&server, &line).await;
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.text.contains("--force") && !refused.text.contains("owned"), "{refused:?}");
    let forced = typed(&server, &format!("{line} --force")).await;
    assert!(forced.code == 0 && forced.text.contains("\u{1b}]0;owned\u{7}"), "{forced:?}");
    let piped = crate::run(&server.url(), &line).await.exits(0);
    assert_eq!(piped.stdout, format!("raw{EVIL}\n"), "a pipe gets the bytes as they are");
}
