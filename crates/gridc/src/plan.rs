//! `gridc job plan`: what a job would do, phase by phase, and where it could not.

use grid_types::api::PlanDoc;
use serde_json::{Map, Value};

use crate::cli::{Format, Global, PlanArgs, RunArgs};
use crate::connect::connect;
use crate::failure::Failure;
use crate::out;
use crate::text::{named, one_line, target};

pub async fn plan(global: &Global, args: &PlanArgs) -> Result<u8, Failure> {
    let args = RunArgs::from(args);
    let mut body = match &args.file {
        Some(file) => crate::jobfile::read(file)?,
        None => crate::task::document(&args)?,
    };
    crate::run::put_marks(&mut body, &args)?;
    let doc = connect(global)?.plan(global.namespace.as_str(), &body).await?;
    out::print(global.output.unwrap_or(Format::Table), &doc, |_| plan_text(&doc))?;
    Ok(0)
}

fn plan_text(doc: &PlanDoc) -> String {
    let mut text = format!("target     {}\n", target(&doc.target));
    for (name, value) in [("exclude", &doc.exclude), ("limit", &doc.limit)] {
        text.extend(value.as_ref().map(|value| format!("{name:<11}{}\n", one_line(value))));
    }
    text.push_str(&format!("nodes      {}: {}\n", doc.expected.len(), named(&doc.expected)));
    for group in &doc.unmatched {
        let (count, known, reason) = (group.count, doc.known, one_line(&group.reason));
        let more = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(group.nodes.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text.push_str(&format!("left out   {count} of {known} {reason}: {}{more}\n", named(&group.nodes)));
    }
    let offline: Vec<_> = doc.offline.iter().map(|(node, state)| format!("{node} ({state})")).collect();
    if !offline.is_empty() {
        text.push_str(&format!("offline    {}\n", named(&offline)));
    }
    for (action, nodes) in &doc.lacking {
        text.push_str(&format!("lacking    {} would fail on {}\n", one_line(action), named(nodes)));
    }
    let mut step = 0;
    for (index, phase) in doc.tasks.as_array().into_iter().flatten().filter_map(Value::as_object).enumerate() {
        push_phase(&mut text, index, phase, &mut step);
    }
    if let Some(concurrency) = &doc.concurrency {
        let concurrency = one_line(concurrency);
        text.push_str(&format!("concurrency  {concurrency}, in phases that do not set their own\n"));
    }
    if let Some(first) = &doc.first {
        text.push_str(&format!("first      {}, in phases that do not set their own\n", one_line(first)));
    }
    text.push_str(&format!(
        "strategy   {}\ntolerates  {}\nrows       {}\n",
        doc.strategy,
        one_line(&doc.failure_tolerate),
        doc.rows
    ));
    text.push_str(&format!("plan       {}\n", one_line(&doc.hash)));
    text
}

/// A barrier is its one task; a pipeline is a list of them.
fn push_phase(text: &mut String, index: usize, phase: &Map<String, Value>, step: &mut usize) {
    let (way, tasks, of_a_task) = match phase.get("tasks").and_then(Value::as_array) {
        Some(tasks) => {
            let tasks = tasks.iter().filter_map(Value::as_object).collect();
            ("each node alone", tasks, &["condition", "timeout", "max_retries"][..])
        }
        None => ("all nodes together", vec![phase], &["timeout", "max_retries"][..]),
    };
    let rules = rules(phase, &["condition", "nodes", "concurrency", "first", "atomic", "confirm"]);
    let nodes = cleanup_nodes(phase);
    text.push_str(&format!("{:<11}{way}{rules}{nodes}\n", format!("phase {index}")));
    for task in tasks {
        let line = one_line(&(task_text(task) + &self::rules(task, of_a_task)));
        text.push_str(&format!("{:<11}{line}\n", format!("  step {step}")));
        *step += 1;
    }
}

/// Where a clean-up runs that does not say it itself.
fn cleanup_nodes(phase: &Map<String, Value>) -> &'static str {
    let cleans_up = phase.get("condition").is_some_and(|condition| condition == "on_failure");
    let says = phase.contains_key("nodes");
    if cleans_up && !says { ", on failed nodes (on all after fail-fast or the job's timeout)" } else { "" }
}

fn task_text(task: &Map<String, Value>) -> String {
    let word = |key: &str| task.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("{}/{}", word("backend"), word("action"));
    for (name, value) in task.get("params").and_then(Value::as_object).into_iter().flatten() {
        line.push_str(&format!(" {name}={}", shown(value)));
    }
    line
}

fn rules(map: &Map<String, Value>, keys: &[&str]) -> String {
    keys.iter().filter_map(|key| Some(format!(", {key}: {}", shown(map.get(*key)?)))).collect()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use grid_types::api::{PlanDoc, TargetDoc, UnmatchedDoc};
    use serde_json::json;

    use super::plan_text;

    #[test]
    fn every_phase_and_step_is_shown_with_its_rules() {
        let doc = PlanDoc {
            hash: "ab".into(),
            target: TargetDoc { scope: "group".into(), value: Some("web".into()) },
            exclude: Some("node:web-03".into()),
            limit: None,
            first: Some("10%".into()),
            known: 10,
            unmatched: vec![UnmatchedDoc {
                reason: "do not match group:web".into(),
                count: 7,
                nodes: vec!["db-01".into(), "db-02".into()],
            }],
            expected: vec!["web-01".into(), "web-02".into()],
            offline: [("web-02".to_owned(), "dead".to_owned())].into(),
            lacking: [("apt/install".to_owned(), vec!["web-01".to_owned()])].into(),
            tasks: json!([
                {"tasks": [
                    {"backend": "apt", "action": "install", "params": {"package": "curl"}, "timeout": "5m"},
                    {"backend": "ping", "action": "echo", "condition": "on_failure"},
                ], "concurrency": 3},
                {"backend": "test", "action": "output", "params": {"lines": 3}, "max_retries": 2, "confirm": true},
                {"backend": "ping", "action": "echo", "condition": "on_failure"},
                {"backend": "ping", "action": "echo", "condition": "on_failure", "nodes": "healthy"},
            ]),
            strategy: "fail-fast".into(),
            failure_tolerate: "0".into(),
            concurrency: Some("20%".into()),
            rows: 6,
        };
        let expected = "\
target     group:web
exclude    node:web-03
nodes      2: web-01, web-02
left out   7 of 10 do not match group:web: db-01, db-02 and 5 more
offline    web-02 (dead)
lacking    apt/install would fail on web-01
phase 0    each node alone, concurrency: 3
  step 0   apt/install package=curl, timeout: 5m
  step 1   ping/echo, condition: on_failure
phase 1    all nodes together, confirm: true
  step 2   test/output lines=3, max_retries: 2
phase 2    all nodes together, condition: on_failure, on failed nodes (on all after fail-fast or the job's timeout)
  step 3   ping/echo
phase 3    all nodes together, condition: on_failure, nodes: healthy
  step 4   ping/echo
concurrency  20%, in phases that do not set their own
first      10%, in phases that do not set their own
strategy   fail-fast
tolerates  0
rows       6
plan       ab
";
        assert_eq!(plan_text(&doc), expected);
    }
}
