//! Reads the one task of `job run BACKEND ACTION [PARAMETER]...` by the declarations.
//!
//! What arrives here went through `args`: a parameter is `--name=value`, `name=value`, or a bare `--name`.
//! The controller checks everything again; it is the authority. Checking here too costs nothing and answers before
//! anybody is asked, with names as they were typed.

use grid_types::api::FaultDoc;
use grid_types::decl::{self, ActionDecl, BackendDecl, ParamType};
use grid_types::job::parse_job;
use serde_json::{Map, Value, json};

use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::suggest::nearest;

/// Options of gridc that somebody may have meant behind an action.
const OPTIONS: &[&str] = &[
    "target",
    "exclude",
    "limit",
    "first",
    "strategy",
    "failure-tolerate",
    "offline",
    "on-unknown",
    "concurrency",
    "confirm",
    "timeout",
    "max-retries",
    "effect",
    "name",
    "label",
    "plan",
    "wait",
    "wait-timeout",
    "fail-on-skipped",
    "file",
    "output",
];

/// The document to submit.
pub fn document(args: &RunArgs) -> Result<Value, Failure> {
    let (backend, action, rest) = action_of(&args.words)?;
    let mut task = Map::new();
    task.insert("backend".to_owned(), json!(backend.name));
    task.insert("action".to_owned(), json!(action.name));
    task.insert("params".to_owned(), Value::Object(params_of(action, rest)?));
    if let Some(timeout) = args.timeout {
        task.insert("timeout".to_owned(), json!(timeout));
    }
    if let Some(retries) = args.max_retries {
        task.insert("max_retries".to_owned(), json!(retries));
    }
    if let Some(effect) = &args.effect {
        task.insert("effect".to_owned(), json!(effect));
    }
    if let Some(concurrency) = &args.concurrency {
        task.insert("concurrency".to_owned(), number_or_share(concurrency));
    }
    if args.confirm {
        task.insert("confirm".to_owned(), json!(true));
    }
    let mut job = Map::new();
    job.insert("target".to_owned(), args.target.as_deref().map(crate::aim::target).transpose()?.unwrap_or_default());
    if let Some(tolerate) = &args.failure_tolerate {
        job.insert("failure_tolerate".to_owned(), number_or_share(tolerate));
    }
    for (field, word) in [("strategy", &args.strategy), ("offline", &args.offline), ("on_unknown", &args.on_unknown)] {
        job.extend(word.as_ref().map(|word| (field.to_owned(), json!(word))));
    }
    job.insert("tasks".to_owned(), json!([task]));
    let job = Value::Object(job);
    match parse_job(&job) {
        Ok(_) => Ok(job),
        Err(faults) => {
            let faults = faults.list().iter().map(|f| FaultDoc {
                field: typed(&f.field),
                problem: f.problem.clone() + &meant(action, &job, &f.field),
                at: None,
            });
            Err(Failure::Invalid { what: format!("the task {}", args.words[..2].join(" ")), faults: faults.collect() })
        }
    }
}

/// A whole number counts nodes; anything else is read as a share.
pub fn number_or_share(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |nodes| json!(nodes))
}

fn action_of(words: &[String]) -> Result<(&'static BackendDecl, &'static ActionDecl, &[String]), Failure> {
    let [name, rest @ ..] = words else {
        let known = decl::builtin().iter().map(|b| b.name).collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(
            format!("a backend and an action are needed, like `ping echo`; backends: {known}"),
            Some("gridc job run --help lists every action".to_owned()),
        ));
    };
    let Some(backend) = decl::backend(name) else {
        let known: Vec<_> = decl::builtin().iter().map(|b| b.name).collect();
        return Err(unknown("backend", name, &format!("known: {}", known.join(", ")), nearest(name, known)));
    };
    let actions: Vec<_> = backend.actions.iter().map(|a| a.name).collect();
    let [name, rest @ ..] = rest else {
        return Err(Failure::usage(format!("an action is missing: {} has {}", backend.name, actions.join(", ")), None));
    };
    let Some(action) = backend.action(name) else {
        let has = format!("{} has {}", backend.name, actions.join(", "));
        return Err(unknown("action", name, &has, nearest(name, actions)));
    };
    Ok((backend, action, rest))
}

fn params_of(action: &ActionDecl, words: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut params = Map::new();
    for word in words {
        let flag = word.strip_prefix("--");
        let (name, value) = match (flag.unwrap_or(word).split_once('='), flag) {
            (Some((name, value)), _) => (name, Some(value)),
            (None, Some(name)) => (name, None),
            (None, None) => {
                return Err(Failure::usage(
                    format!("unexpected word {word:?}: parameters are written --name VALUE or name=VALUE"),
                    Some(takes(action)),
                ));
            }
        };
        // Options are written with a dash.
        let spelled = name.replace('-', "_");
        let Some(decl) = action.params.iter().find(|p| p.name == spelled) else {
            return Err(unknown_param(action, word, name));
        };
        let value = match (value, decl.kind) {
            (Some(value), _) => value,
            (None, ParamType::Boolean) => "true",
            (None, _) => {
                return Err(Failure::usage(
                    format!("--{name} needs a value ({})", decl.help),
                    Some(format!("a value that begins with '-' is written --{name}=VALUE")),
                ));
            }
        };
        match decl.kind {
            ParamType::Texts | ParamType::Integers { .. } | ParamType::TextMap => {
                collect(params.entry(decl.name).or_insert(Value::Null), decl.kind, value)
                    .map_err(|problem| Failure::usage(format!("--{name} {problem}"), Some(decl.help.to_owned())))?;
            }
            _ if params.insert(decl.name.to_owned(), json!(value)).is_some() => {
                return Err(Failure::usage(format!("the parameter {name:?} is given twice"), None));
            }
            _ => {}
        }
    }
    Ok(params)
}

/// Adds what one word says to a list or a map: JSON of the whole of it, or one item.
fn collect(so_far: &mut Value, kind: ParamType, word: &str) -> Result<(), String> {
    let opens = if matches!(kind, ParamType::TextMap) { '{' } else { '[' };
    let given = if word.starts_with(opens) {
        let wrong = |error| format!("begins with {opens} and is not valid JSON: {error}");
        serde_json::from_str(word).map_err(wrong)?
    } else if let ParamType::TextMap = kind {
        let (name, value) = word.split_once('=').ok_or("is written NAME=VALUE, or as a JSON object")?;
        json!({name: value})
    } else if let ParamType::Integers { .. } = kind {
        word.split(',').map(|item| json!(item.trim())).collect()
    } else {
        json!([word])
    };
    match (&mut *so_far, given) {
        (Value::Null, given) => *so_far = given,
        (Value::Array(all), Value::Array(more)) => all.extend(more),
        (Value::Object(all), Value::Object(more)) => {
            for (name, value) in more {
                if all.insert(name.clone(), value).is_some() {
                    return Err(format!("names {name} twice"));
                }
            }
        }
        _ => return Err("is given in two ways that do not fit together".to_owned()),
    }
    Ok(())
}

fn unknown_param(action: &ActionDecl, word: &str, name: &str) -> Failure {
    if !word.starts_with("--") && word.starts_with('-') {
        return Failure::usage(format!("unknown option {word:?}"), Some(takes(action)));
    }
    let params = action.params.iter().map(|p| p.name);
    // `name=value` can only be a parameter.
    let options = OPTIONS.iter().copied().filter(|_| word.starts_with("--"));
    unknown(
        "parameter",
        name,
        &takes(action),
        nearest(name, params.chain(options)).map(|n| format!("--{n}")).as_deref(),
    )
}

fn unknown(what: &str, word: &str, known: &str, near: Option<&str>) -> Failure {
    let shown: String = word.chars().take(60).collect();
    Failure::usage(format!("unknown {what} {shown:?}: {known}"), near.map(|near| format!("did you mean {near}?")))
}

fn takes(action: &ActionDecl) -> String {
    let params: Vec<_> = action.params.iter().map(|p| format!("--{}", p.name)).collect();
    if params.is_empty() {
        format!("{} takes no parameters", action.name)
    } else {
        format!("{} takes {}", action.name, params.join(", "))
    }
}

/// Of a choice, the nearest word to the one that was given.
fn meant(action: &ActionDecl, job: &Value, field: &str) -> String {
    let near = || {
        let name = field.strip_prefix("tasks[0].params.")?;
        let ParamType::Choice { of } = action.params.iter().find(|p| p.name == name)?.kind else { return None };
        nearest(job["tasks"][0]["params"][name].as_str()?, of.iter().copied())
    };
    near().map(|word| format!(" (did you mean {word}?)")).unwrap_or_default()
}

/// A field of the document as it was typed.
fn typed(field: &str) -> String {
    match field.strip_prefix("tasks[0].") {
        Some(task) => format!("--{}", task.strip_prefix("params.").unwrap_or(task).replace('_', "-")),
        None => format!("--{}", field.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::document;
    use crate::cli::{Cli, JobVerb, Verb};
    use clap::{CommandFactory, Parser};
    use serde_json::{Value, json};

    fn read(line: &str) -> Result<Value, String> {
        let mut root = Cli::command();
        root.build();
        let argv = std::iter::once("gridc").chain(line.split(' ')).map(Into::into).collect();
        let cli = Cli::try_parse_from(crate::args::arrange(argv, &root)).unwrap();
        let Verb::Job(JobVerb::Run(args)) = cli.verb else { panic!("{line}") };
        document(&args).map_err(|failure| failure.to_string())
    }

    #[test]
    fn both_ways_to_write_a_parameter_give_the_same_job() {
        let want = json!({
            "target": {"scope": "group", "value": "web"},
            "strategy": "continue",
            "tasks": [{
                "backend": "ping", "action": "echo", "params": {"message": "hi"}, "timeout": "3s", "max_retries": 2,
            }],
        });
        for line in [
            "job run -t group:web --strategy continue --timeout 3s --max-retries 2 ping echo --message hi",
            "job run ping echo message=hi --max-retries 2 -t group:web --strategy continue --timeout 3s",
            "job run ping echo --message=hi --timeout=3s --max-retries=2 --strategy=continue --target=group:web",
        ] {
            assert_eq!(read(line).unwrap(), want, "{line}");
        }
    }

    #[test]
    fn lists_and_maps_are_repeated_or_written_as_json() {
        let params = |words: &str| {
            read(&format!("job run -t all command run program=x {words}")).map(|job| job["tasks"][0]["params"].clone())
        };
        for words in ["--args -r --args=--x", "args=-r args=--x", r#"args=["-r","--x"]"#, r#"--args=["-r"] --args=--x"#]
        {
            let words = words.replace("--args -r", "--args=-r");
            assert_eq!(params(&words).unwrap(), json!({"program": "x", "args": ["-r", "--x"]}), "{words}");
        }
        let want = json!({"program": "x", "env": {"A": "1=2", "B": ""}});
        assert_eq!(params("--env A=1=2 --env=B=").unwrap(), want);
        assert_eq!(params(r#"env={"A":"1=2","B":""}"#).unwrap(), want);
        assert_eq!(params("--exit-codes 0,1 --exit_codes 3").unwrap()["exit_codes"], json!(["0", "1", "3"]));
        assert_eq!(read("job run -t all command run program=x --effect pure").unwrap()["tasks"][0]["effect"], "pure");
        for (words, want) in [
            ("args=[x", "--args begins with [ and is not valid JSON"),
            ("--env A", "--env is written NAME=VALUE"),
            ("--env A=1 --env A=2", "--env names A twice"),
            (
                "exit_codes=256",
                "the task command run is not valid: --exit-codes: must be a list of whole numbers from 0 to 255",
            ),
        ] {
            let problem = params(words).unwrap_err();
            assert!(problem.starts_with(want), "{words}: {problem}");
        }
        let fixed = read("job run -t all ping echo --effect once").unwrap_err();
        assert_eq!(
            fixed,
            "the task ping echo is not valid: --effect: echo is always pure: this action does not let a task choose"
        );
    }

    #[test]
    fn the_rules_of_a_job_and_of_its_phase_each_go_to_their_place() {
        let job = read(
            "job run ping echo --concurrency 2 --confirm -t labels:zone=a,role=web --failure-tolerate 10% \
             --offline wait --on-unknown=wait",
        );
        let want = json!({
            "target": {"scope": "labels", "value": "role=web,zone=a"},
            "failure_tolerate": "10%", "offline": "wait", "on_unknown": "wait",
            "tasks": [{"backend": "ping", "action": "echo", "params": {}, "concurrency": 2, "confirm": true}],
        });
        assert_eq!(job.unwrap(), want);
        assert_eq!(read("job run -t any ping echo").unwrap()["target"], json!({"scope": "any"}));
    }

    #[test]
    fn j1_a_whole_number_counts_nodes_and_anything_else_is_a_share() {
        let tolerate = |text: &str| read(&format!("job run -t all ping echo --failure-tolerate {text}"));
        for (text, want) in
            [("3", json!(3)), ("0", json!(0)), ("1", json!(1)), ("1.0", json!("1.0")), ("0.1", json!("0.1"))]
        {
            assert_eq!(tolerate(text).unwrap()["failure_tolerate"], want, "{text}");
        }
        for bad in ["ten", "-1", "101%", "4294967296", "1e2"] {
            let problem = tolerate(bad).unwrap_err();
            assert!(problem.starts_with("the task ping echo is not valid: --failure-tolerate: "), "{bad}: {problem}");
        }
    }

    #[test]
    fn a_value_may_hold_anything_behind_the_first_equals_sign() {
        let job = read("job run -t all ping echo --message=--wait=a=b").unwrap();
        assert_eq!(job["tasks"][0]["params"]["message"], "--wait=a=b");
        let job = read("job run -t all ping echo message=").unwrap();
        assert_eq!(job["tasks"][0]["params"]["message"], "");
    }

    #[test]
    fn faults_say_what_would_have_been_right() {
        for (line, want) in [
            (
                "job run -t all pong echo",
                "unknown backend \"pong\": known: ping, apt, systemd, rke2, command, script, file, http, wait, test (did you mean ping?)",
            ),
            (
                "job run -t all ping ecko",
                "unknown action \"ecko\": ping has echo, hostname, sleep (did you mean echo?)",
            ),
            ("job run -t all ping", "an action is missing: ping has echo, hostname, sleep"),
            (
                "job run -t all ping echo --mesage hi",
                "unknown parameter \"mesage\": echo takes --message (did you mean --message?)",
            ),
            (
                "job run -t all ping hostname --wat",
                "unknown parameter \"wat\": hostname takes no parameters (did you mean --wait?)",
            ),
            ("job run -t all ping echo message=a message=b", "the parameter \"message\" is given twice"),
            (
                "job run -t all test output --lines -1",
                "the task test output is not valid: --lines: must be a whole number from 0 to 10000000; --width: is \
                 required (characters per line)",
            ),
            (
                "job run -t all rke2 start --mode servr",
                "the task rke2 start is not valid: --mode: must be server or agent (did you mean server?)",
            ),
            (
                "job run -t all apt install --package -y",
                "--package needs a value (a package name, like curl, libc6:amd64, curl=7.88.1-10 or curl/bookworm) \
                 (a value that begins with '-' is written --package=VALUE)",
            ),
            (
                "job run -t all apt install --package=-y",
                "the task apt install is not valid: --package: must not begin with '-' (a package name, like curl, \
                 libc6:amd64, curl=7.88.1-10 or curl/bookworm)",
            ),
            (
                "job run -t all ping sleep --duration 1s --timeout 0s",
                "the task ping sleep is not valid: --timeout: must be longer than 0",
            ),
        ] {
            assert_eq!(read(line).unwrap_err(), want, "{line}");
        }
        assert!(read("job run -t all ping echo hi").unwrap_err().starts_with("unexpected word \"hi\""));
    }
}
