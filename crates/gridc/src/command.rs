//! `gridc run`: one program on many nodes, its outputs grouped, and an exit code like the program's.
//!
//! It is an ordinary job with the strategy `continue`: a program that fails on one node is run on the others nevertheless,
//! and whether it succeeded everywhere is counted here. The job stays: `gridc job status|logs|resume` know it.
//! Not here: which programs a worker runs (`--allow-command` there).

use grid_client::{Client, IdempotencyKey};
use grid_types::api::{FaultDoc, JobDoc, OutputGroupDoc};
use grid_types::job::parse_job;
use grid_types::{JobId, JobStatus, Outcome, StepIndex};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::{CommandArgs, Format, Global};
use crate::connect::connect;
use crate::failure::Failure;
use crate::input::each_once;
use crate::logs::{Names, group_text, left_out};
use crate::out::{self, tell, warn};
use crate::run::{id_of, wait, worse};
use crate::safe::Safe;
use crate::summary::summary;
use crate::task::number_or_share;
use crate::text::count;
use crate::watch::Until;

/// The whole of it, for a program.
#[derive(Serialize)]
struct CommandDoc<'a> {
    job: &'a JobDoc,
    outputs: &'a [OutputGroupDoc],
}

pub async fn run(global: &Global, args: &CommandArgs) -> Result<u8, Failure> {
    let body = document(args)?;
    let (client, namespace) = (connect(global)?, global.namespace.as_str());
    let doc = client.submit_with_key(namespace, &body, &IdempotencyKey::random()?, None).await?;
    let id = id_of(&doc)?;
    tell(&format!("{id} submitted"));
    let end = wait(&client, global, doc, id, Until::Ended.within(args.wait_timeout)).await?;
    let outputs = client.outputs(namespace, id, StepIndex(0), None).await?.items;
    let format = global.output.unwrap_or(Format::Table);
    let printed = out::print(format, &CommandDoc { job: &end, outputs: &outputs }, |_| outputs_text(&end, &outputs));
    let written = printed.map_or_else(|failure| out::report(&failure), |()| 0);
    if let Some(hint) = left_out(id, &end.counts, &outputs) {
        tell(&hint);
    }
    let everywhere = succeeded_everywhere(&end);
    if !everywhere {
        tell_failures(&client, namespace, id, &end).await;
    }
    Ok(worse(u8::from(!everywhere), written))
}

/// Who did not succeed, and why; the controller that said how the job ended says that, too, or nothing does.
async fn tell_failures(client: &Client, namespace: &str, id: JobId, end: &JobDoc) {
    if let Ok(text) = summary(client, namespace, id, end).await {
        warn(&Safe::lines(&text));
    }
}

/// A node that was offline did not run it.
fn succeeded_everywhere(end: &JobDoc) -> bool {
    let rows: u64 = end.counts.values().sum();
    end.status == JobStatus::Completed && count(&end.counts, Outcome::Success) == rows
}

/// The job to submit.
fn document(args: &CommandArgs) -> Result<Value, Failure> {
    each_once("variable", &args.env)?;
    let Some((program, words)) = args.words.split_first() else {
        return Err(Failure::usage("a program is needed, like `gridc run -t all -- uname -r`", None));
    };
    // The parser takes an option that it does not know for the program.
    if program.starts_with('-') {
        let hint = "options come before PROGRAM; `gridc run --help` lists them";
        return Err(Failure::usage(format!("gridc run has no option {program:?}"), Some(hint.to_owned())));
    }
    if words.is_empty() && !program.starts_with('/') && program.trim().contains(char::is_whitespace) {
        let hint = format!("no shell reads it: write -- {}, without quotes around all of it", program.trim());
        return Err(Failure::usage(format!("{program:?} is not the name of a program"), Some(hint)));
    }
    let mut params = Map::from_iter([("program".to_owned(), json!(program))]);
    if !words.is_empty() {
        params.insert("args".to_owned(), json!(words));
    }
    if !args.env.is_empty() {
        let env: Map<_, _> = args.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        params.insert("env".to_owned(), Value::Object(env));
    }
    params.extend(args.cwd.as_ref().map(|cwd| ("cwd".to_owned(), json!(cwd))));
    if let Some(path) = &args.stdin {
        let text = crate::jobfile::text_of(path)
            .map_err(|problem| Failure::usage(format!("--stdin {}: {problem}", path.display()), None))?;
        params.insert("stdin".to_owned(), json!(text));
    }
    let mut task = Map::from_iter([
        ("backend".to_owned(), json!("command")),
        ("action".to_owned(), json!("run")),
        ("params".to_owned(), Value::Object(params)),
    ]);
    task.extend(args.effect.as_ref().map(|effect| ("effect".to_owned(), json!(effect))));
    task.extend(args.timeout.map(|timeout| ("timeout".to_owned(), json!(timeout))));
    task.extend(args.concurrency.as_ref().map(|text| ("concurrency".to_owned(), number_or_share(text))));
    let mut job = Map::from_iter([
        ("target".to_owned(), crate::aim::target(&args.target)?),
        ("strategy".to_owned(), json!("continue")),
        ("tasks".to_owned(), json!([task])),
    ]);
    args.narrow().put(&mut job);
    let job = Value::Object(job);
    match parse_job(&job) {
        Ok(_) => Ok(job),
        Err(faults) => {
            let faults = crate::aim::pointed(&faults, &job).into_iter();
            let faults = faults.map(|fault| FaultDoc { field: typed(&fault.field), ..fault }).collect();
            Err(Failure::Invalid { what: "the command".to_owned(), faults })
        }
    }
}

/// A field of the document as it was typed.
fn typed(field: &str) -> String {
    let name = field.strip_prefix("tasks[0].").unwrap_or(field);
    match name.strip_prefix("params.").unwrap_or(name) {
        "program" => "PROGRAM".to_owned(),
        name if name.starts_with("args") => name.replacen("args", "ARG", 1),
        name => format!("--{}", name.replace('_', "-")),
    }
}

fn outputs_text(end: &JobDoc, outputs: &[OutputGroupDoc]) -> String {
    outputs.iter().filter_map(|group| shown(end, group)).map(|group| group_text(&group, Names::Some, "")).collect()
}

/// Nodes that failed without a reason are listed with the failures, as far as the document has them.
fn shown(end: &JobDoc, group: &OutputGroupDoc) -> Option<OutputGroupDoc> {
    let mut group = group.clone();
    if let Some(results) = end.results.as_ref().and_then(|steps| steps.get("0")).filter(|_| group.output.is_empty()) {
        group.nodes.retain(|node| results.get(node).is_none_or(|result| !result.status.is_failure()));
        group.count = group.nodes.len() as u64;
    }
    (group.count > 0).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::{document, outputs_text, succeeded_everywhere};
    use crate::cli::{Cli, Verb};
    use crate::samples::job;
    use clap::Parser;
    use grid_types::api::OutputGroupDoc;
    use serde_json::{Value, json};

    fn read(line: &str) -> Result<Value, String> {
        let cli = Cli::try_parse_from(std::iter::once("gridc").chain(line.split(' '))).map_err(|e| e.to_string())?;
        let Verb::Run(args) = cli.verb else { panic!("{line}") };
        document(&args).map_err(|failure| failure.lines())
    }

    #[test]
    fn everything_behind_the_program_belongs_to_it() {
        let want = json!({"program": "uname", "args": ["-r", "-o", "json", "--", "--timeout", "x"]});
        for line in ["run -t all -- uname -r -o json -- --timeout x", "run -t all uname -r -o json -- --timeout x"] {
            let job = read(line).unwrap();
            assert_eq!(job["tasks"][0]["params"], want, "{line}");
        }
        let job = read("run -t group:web --effect pure --env A=1=2 --env B= --cwd / --timeout 3s --concurrency 2 -- x")
            .unwrap();
        let task = json!({"backend": "command", "action": "run", "effect": "pure", "timeout": "3s", "concurrency": 2,
            "params": {"program": "x", "env": {"A": "1=2", "B": ""}, "cwd": "/"}});
        assert_eq!(job, json!({"target": {"scope": "group", "value": "web"}, "strategy": "continue", "tasks": [task]}));
    }

    #[test]
    fn a_target_is_narrowed_as_for_a_job_file() {
        let job = read("run -t all --limit 20% --exclude node:db-01 -- x").unwrap();
        assert_eq!((&job["limit"], &job["exclude"]), (&json!("20%"), &json!("node:db-01")));
        assert_eq!(read("run -t all --limit 1 -- x").unwrap()["limit"], 1);
    }

    #[test]
    fn a_command_line_in_quotes_is_told_apart_from_a_program() {
        let read = |program: &str| {
            let cli = Cli::try_parse_from(["gridc", "run", "-t", "all", "--", program]).unwrap();
            let Verb::Run(args) = cli.verb else { panic!("{program}") };
            document(&args).map(drop).map_err(|failure| failure.lines())
        };
        let problem = read("uname -r").unwrap_err();
        assert!(problem.contains("hint: no shell reads it: write -- uname -r"), "{problem}");
        read("/opt/my tool").unwrap();
    }

    #[test]
    fn faults_are_named_as_they_were_typed() {
        for (line, want) in [
            ("run -t all -- ./x", "PROGRAM"),
            ("run -t all --cwd tmp -- x", "--cwd"),
            ("run -t all --concurrency 0 -- x", "--concurrency"),
            ("run -t all --env A=1 --env A=2 -- x", "the variable \"A\" is given twice"),
            ("run -t all --exlude node:x -- x", "no option \"--exlude\""),
            ("run -t all -- -x", "no option \"-x\""),
            ("run -t wbe -- x", "wbe\n    ^"),
            ("run -t all --limit web -- x", "--limit: unknown word \"web\""),
            ("run -t all --exclude any -- x", "--exclude"),
            ("run -t all --stdin /no/such/file -- x", "--stdin /no/such/file: "),
            ("run -t all --env =1 -- x", "write NAME=VALUE"),
            ("run -- x", "--target"),
            ("run -t all", "PROGRAM"),
        ] {
            let problem = read(line).unwrap_err();
            assert!(problem.contains(want), "{line}: {problem}");
        }
    }

    #[test]
    fn only_success_on_every_node_counts() {
        for (status, counts, want) in [
            ("completed", &[("success", 3)][..], true),
            ("completed", &[("success", 2), ("failed", 1)], false),
            ("completed", &[("success", 2), ("skipped", 1)], false),
            ("failed", &[("failed", 3)], false),
            ("cancelled", &[("success", 3)], false),
        ] {
            assert_eq!(succeeded_everywhere(&job(status, counts)), want, "{counts:?}");
        }
    }

    #[test]
    fn outputs_are_grouped_under_the_names_of_their_nodes() {
        let group = |count, nodes: &[&str], output: &str| OutputGroupDoc {
            count,
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            output: output.to_owned(),
            total_bytes: output.len() as u64,
        };
        let mut end = job("completed", &[("success", 5), ("failed", 1)]);
        let result = |status: &str| serde_json::from_value(json!({"status": status})).unwrap();
        let results = [("e", "success"), ("f", "failed")].map(|(node, status)| (node.to_owned(), result(status)));
        end.results = Some([("0".to_owned(), results.into_iter().collect())].into());
        let text = outputs_text(&end, &[group(4, &["a", "b", "c", "d"], "6.1\u{1b}[2J\n"), group(2, &["e", "f"], "")]);
        assert_eq!(text, "4 nodes (a, b, c, d):\n  6.1\\u{1b}[2J\n1 node (e): nothing\n");
    }
}
