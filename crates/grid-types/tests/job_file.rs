//! `docs/jobs.md` is what the fields of a job say. `cargo xtask docs` writes it anew.
//!
//! The examples of the page are read by the reader that a controller uses.

use std::path::PathBuf;

use grid_types::job::fields::{Field, IN_PIPELINE, JOB, LEAF, PHASE, TARGET};
use grid_types::job::parse_job;
use grid_types::limits::{
    MAX_BODY_BYTES, MAX_CONCURRENT, MAX_JOB_LABELS, MAX_JOB_NAME_CHARS, MAX_PENDING, MAX_RETRIES, MAX_ROWS, MAX_STEPS,
    MAX_WAITING,
};
use grid_types::{JobStatus, Outcome};
use serde_json::json;

const HEAD: &str = "\
# The job file

Written by `cargo xtask docs` from the fields that the reader knows (`crates/grid-types/src/job/fields.rs`); changes belong there.

A job is a target and a list of phases. It is written as YAML or JSON for `gridc job run -f FILE` (`-` is stdin), and as JSON for
`POST /job`. Anything that is not on this page is refused, every fault at once and by its field; nothing is stored of a job with
a fault.

```yaml
# deploy.yaml
target: group:web               # or {scope: group, value: web}
failure_tolerate: 10%
tasks:
  - concurrency: 20             # a pipeline: each node walks it alone, twenty nodes at a time
    tasks:
      - {backend: apt, action: update}
      - {backend: apt, action: install, params: {package: nginx}, max_retries: 2}
  - {backend: systemd, action: restart, params: {unit: nginx}, confirm: true}
  - condition: on_failure       # a clean-up: where something failed; the healthy nodes keep nginx
    nodes: failed               # without this: on every node once more than 10% have failed
    tasks:
      - {backend: apt, action: remove, params: {package: nginx}}
```

`gridc job plan -f deploy.yaml` shows what it would do, and on which nodes, without doing it.

Durations are written `300ms`, `3s`, `2m`, `1h`. Names are `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`.
";

/// What the page has in YAML; that a person can submit it is tested where YAML is read (`gridc`).
fn example() -> serde_json::Value {
    json!({
        "target": "group:web",
        "failure_tolerate": "10%",
        "tasks": [
            {"concurrency": 20, "tasks": [
                {"backend": "apt", "action": "update"},
                {"backend": "apt", "action": "install", "params": {"package": "nginx"}, "max_retries": 2},
            ]},
            {"backend": "systemd", "action": "restart", "params": {"unit": "nginx"}, "confirm": true},
            {"condition": "on_failure", "nodes": "failed", "tasks": [
                {"backend": "apt", "action": "remove", "params": {"package": "nginx"}},
            ]},
        ],
    })
}

fn table(title: &str, note: &str, fields: &[Field]) -> String {
    let note = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    let mut text = format!("\n## {title}\n\n{note}| field | takes | default | meaning |\n|---|---|---|---|\n");
    for field in fields {
        text.push_str(&format!("| `{}` | {} | {} | {} |\n", field.name, field.accepts, field.default, field.help));
    }
    text
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(&table("The job", "", JOB));
    page.push_str(&table(
        "Target",
        "Short forms: `all`, `group:NAME`, `node:ID`, `labels:KEY=VALUE,…`, `any`. `any` is one node, the least busy of those that \
         can run every task. Nodes that match and are offline are never left out in silence: see `offline`. A target must match a \
         known node when the job is submitted.",
        TARGET,
    ));
    page.push_str(&table(
        "Phase",
        "A phase is one task, or a pipeline of them (`tasks`). Steps are numbered depth first, from 0: results, `job status` and \
         `job logs` name them so.",
        PHASE,
    ));
    page.push_str(&table(
        "Task",
        "Backends, their actions and parameters: [backends.md](backends.md), or `gridc backend describe NAME`.",
        LEAF,
    ));
    page.push_str(&table("In a pipeline", "A task of a pipeline may also have:", IN_PIPELINE));
    let words = |words: Vec<&str>| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let jobs = [JobStatus::Pending, JobStatus::Running, JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled];
    page.push_str(&format!(
        "\n## How it goes\n\n\
         - A job is one of {}.\n\
         - A step on a node is one of {}: exactly one, with a reason.\n\
         - `failed`, `timed_out` and `unknown` count against `failure_tolerate`, once for each node.\n\
         - After a restore (`grid server --restore`), a node that is offline when the job is confirmed may have run steps after the backup. A\n  \
         once-only step that the job reaches there is therefore `unknown`, although `offline` says `skip` or `fail`; other steps are skipped or\n  \
         failed as `offline` says. With `offline: wait` the job waits for the node. A node that drains is asked first, whatever `offline` says.\n\
         - An ended job goes on with `gridc job resume ID` (everything that is missing) or `gridc job retry ID` (only on nodes where \
         something failed).\n\
         \n## Bounds\n\n\
         | what | at most |\n|---|---|\n\
         | steps of a job | {MAX_STEPS} |\n\
         | steps × nodes | {MAX_ROWS} |\n\
         | levels of `tasks` | 2 |\n\
         | `max_retries` | {MAX_RETRIES} |\n\
         | characters of `name` | {MAX_JOB_NAME_CHARS} |\n\
         | `labels` | {MAX_JOB_LABELS} |\n\
         | bytes of the file | {MAX_BODY_BYTES} |\n\
         | jobs that run at once (`--max-concurrent`) | {MAX_CONCURRENT} |\n\
         | jobs that wait (`--max-pending`); more are refused | {MAX_PENDING} |\n\
         | jobs that wait for an operator or for offline nodes (`--max-waiting`); beyond it new ones are refused | {MAX_WAITING} |\n",
        words(jobs.map(JobStatus::word).to_vec()),
        words(Outcome::ALL.map(Outcome::word).to_vec()),
    ));
    page
}

#[test]
fn the_page_about_job_files_is_current() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/jobs.md");
    if std::env::var_os("GRID_DOCS").is_some_and(|what| what == "write") {
        std::fs::write(&file, page()).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == page(), "docs/jobs.md is not what the fields say: run `cargo xtask docs`");
}

#[test]
fn the_example_and_the_defaults_of_the_page_are_what_the_reader_says() {
    assert!(parse_job(&example()).is_ok(), "{:?}", parse_job(&example()));
    let written = json!({
        "target": {"scope": "all"}, "strategy": "fail-fast", "timeout": "24h", "failure_tolerate": 0, "offline": "skip",
        "on_unknown": "fail",
        "tasks": [{"backend": "ping", "action": "hostname", "params": {}, "max_retries": 0, "condition": "always",
                   "confirm": false, "atomic": false}],
    });
    let written = parse_job(&written).unwrap();
    let bare = parse_job(&json!({"target": "all", "tasks": [{"backend": "ping", "action": "hostname"}]})).unwrap();
    assert_eq!(written.timeout_ms(), bare.timeout_ms());
    assert_eq!(written.tolerance(), bare.tolerance());
    let given = |spec: &grid_types::job::JobSpec| (spec.phases.clone(), spec.strategy, spec.offline, spec.on_unknown);
    assert_eq!(given(&written), given(&bare), "the defaults of the page, written out, change nothing");
}
