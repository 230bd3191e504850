//! Checks that `docs/jobs.md` is generated from the fields of a job. `cargo xtask docs` rewrites it.
//!
//! The examples of the page are parsed by the parser that a controller uses.

use std::path::PathBuf;

use grid_types::job::fields::{Field, IN_PIPELINE, JOB, LEAF, PHASE, TARGET};
use grid_types::job::parse_job;
use grid_types::limits::{
    MAX_BODY_BYTES, MAX_CONCURRENT, MAX_JOB_LABELS, MAX_JOB_NAME_CHARS, MAX_PENDING, MAX_RETRIES, MAX_ROWS, MAX_STEPS,
    MAX_TARGET_BYTES, MAX_TARGET_DEPTH, MAX_TARGET_TESTS, MAX_WAITING,
};
use grid_types::{JobStatus, Outcome};
use serde_json::json;

const HEAD: &str = "\
# The job file

Written by `cargo xtask docs` from the fields that the parser knows (`crates/grid-types/src/job/fields.rs`); changes belong there.

A job is a target and a list of phases. It is written as YAML or JSON for `gridc job run -f FILE` (`-` is stdin), and as JSON for
`POST /job`. Fields that are not on this page are refused. All faults are reported at once, each with its field, and a job with a fault
is not stored.

```yaml
# deploy.yaml
target: group:web               # or {scope: group, value: web}
failure_tolerate: 10%
tasks:
  - concurrency: 20             # a pipeline: each node runs through it on its own, twenty nodes at a time
    tasks:
      - {backend: apt, action: update}
      - {backend: apt, action: install, params: {package: nginx}, max_retries: 2}
  - {backend: systemd, action: restart, params: {unit: nginx}, confirm: true}
  - condition: on_failure       # clean-up on the failed nodes; the healthy nodes keep nginx
    nodes: failed               # without this: on every node once more than 10% have failed
    tasks:
      - {backend: apt, action: remove, params: {package: nginx}}
```

`gridc job plan -f deploy.yaml` shows what the job would do, and on which nodes, without running it.

Durations are written `300ms`, `3s`, `2m`, `1h`. Names are `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`.
";

const TARGETS: &str = "
## Target

A target is a set of nodes, written as an expression:

| term | nodes |
|---|---|
| `all` | every node |
| `node:web-01,web-02` | these nodes |
| `group:web,db` | nodes in one of these groups |
| `labels:zone=a,role=web` | nodes that carry all of these labels |
| `facts:os.id=debian,os.version>=12` | nodes whose facts pass all of these comparisons; `gridc node info` shows the facts of a node |
| `any` | one node, the least busy of those that can run every task. It is a whole target and is not combined with others |

- Names and values may be patterns: `*` is any text, `?` is one character: `node:web-*`, `group:eu-?`, `labels:rack=b*`.
- Sets are combined with `and`, `or`, `not` and parentheses. `not` binds more tightly than `and`, and `and` more tightly than `or`: `group:web and not (node:web-01 or
  labels:zone=b)`.
- `first 3 of group:web` and `20% of all` select a part of a set: the first nodes in the order of their ids. A share is rounded down to at least one
  node. It applies to everything that follows; within a larger target, put it in parentheses: `group:db or (first 1 of group:web)`. A new
  node changes the part only if its id is lower than the last one in it, or if the share becomes larger.
- Facts are compared as strings with `=` and `!=`, and as versions or numbers with `>=`, `<=`, `>` and `<`: up to four whole numbers separated by dots, or
  a number with `Ki`, `Mi`, `Gi` or `Ti`. The text after the numbers of a fact is ignored: `6.1.0-18-amd64` is `6.1.0`. A node without the
  fact passes no comparison, not even `!=`; `not facts:os.id=debian` includes it.
- A worker reports its facts when it registers: `os.id`, `os.version`, `os.family`, `os.name`, `kernel.release`, `kernel.name`, `cpu.count`, `cpu.model`,
  `memory.total_bytes`, `memory.swap_bytes`, `virtualization.kind` (`none`, `kvm`, `vmware`, `docker`, …), `system.vendor`, `system.product`, `disk.count`,
  `disk.total_bytes`, `disk.NAME.size_bytes`, `network.count`, `network.NAME.ipv4`, `network.NAME.ipv6`, `network.NAME.mac`; and for every node, agents
  included, `hostname`, `address`, `arch`, `os` and `grid.version`.
- Lists have no spaces. A value that has spaces, parentheses or commas, or in which `*` and `?` are meant literally, is quoted:
  `labels:rack=\"b 7\"`; `\\` in quotes escapes `\"` and `\\`.
- Matching nodes that are offline are never skipped silently: see `offline`. A target must match a known node when the job is submitted. It is
  evaluated again when the job starts, and frozen then.
- An error gives the position of the fault: `at` in `details` counts the characters before it.

`exclude` and `limit` narrow a target, so that a job can be tried on one node first and then run on the rest:

```console
$ gridc job run -f deploy.yaml --limit 1
$ gridc job run -f deploy.yaml --exclude node:web-01
```
";

/// The YAML of the page; `gridc`, which reads YAML, tests that it can be submitted.
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
    page.push_str(TARGETS);
    page.push_str(&table("Target as an object", "A target is an expression, or an object with these fields:", TARGET));
    page.push_str(&table(
        "Phase",
        "A phase is one task, or a pipeline of them (`tasks`). Steps are numbered depth first, from 0: results, `job status` and \
         `job logs` use these numbers.",
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
        "\n## Status and outcomes\n\n\
         - The status of a job is one of {}.\n\
         - The outcome of a step on a node is one of {}: exactly one, with a reason.\n\
         - `failed`, `timed_out` and `unknown` count against `failure_tolerate`, once for each node.\n\
         - After a restore (`grid server --restore`), a node that is offline when the job is confirmed may have run steps after the backup. A\n  \
         once-only step that the job reaches there is therefore `unknown`, even with `offline: skip` or `fail`; other steps are skipped or\n  \
         failed as usual. With `offline: wait` the job waits for the node. A draining node is asked first, whatever the value of `offline`.\n\
         - `gridc job resume ID` continues a finished job with everything that is missing; `gridc job retry ID` only on the nodes where a \
         step failed.\n\
         \n## Limits\n\n\
         | limit of | at most |\n|---|---|\n\
         | steps of a job | {MAX_STEPS} |\n\
         | steps × nodes | {MAX_ROWS} |\n\
         | levels of `tasks` | 2 |\n\
         | `max_retries` | {MAX_RETRIES} |\n\
         | characters of `name` | {MAX_JOB_NAME_CHARS} |\n\
         | `labels` | {MAX_JOB_LABELS} |\n\
         | bytes of a target | {MAX_TARGET_BYTES} |\n\
         | levels of parentheses, `not` and parts in a target | {MAX_TARGET_DEPTH} |\n\
         | terms, patterns, labels and comparisons of a target | {MAX_TARGET_TESTS} |\n\
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
    assert!(kept == page(), "docs/jobs.md is out of date: run `cargo xtask docs`");
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
    assert_eq!(given(&written), given(&bare), "writing out the defaults of the page changes nothing");
}
