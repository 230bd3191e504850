//! Defines the options that describe a job to submit or to plan: `gridc job run`, `gridc job plan`.

use std::path::PathBuf;

use clap::Args;
use grid_types::limits::MAX_RETRIES;
use grid_types::{Span, decl};

use crate::aim::Narrow;

#[derive(Debug, Default, Args)]
#[command(override_usage = "\
gridc job run [OPTIONS] --target TARGET BACKEND ACTION [PARAMETER]...
       gridc job run [OPTIONS] --file FILE", group = clap::ArgGroup::new("stay").args(["wait", "follow"]).multiple(true))]
pub struct RunArgs {
    /// Nodes to run on: all, any (one node, chosen by the scheduler), node:ID,..., group:NAME,..., labels:KEY=VALUE,...,
    /// facts:KEY=VALUE,..., combined with and, or, not; first 3 of ..., 20% of ...
    #[arg(short, long, value_name = "TARGET", required_unless_present = "file")]
    pub target: Option<String>,
    /// Do not run on these nodes of the target
    #[arg(long, value_name = "TARGET")]
    pub exclude: Option<String>,
    /// Run only on this part of the target: the first N nodes by id, a share, or those that also match
    #[arg(long, value_name = "N|SHARE|TARGET", allow_negative_numbers = true)]
    pub limit: Option<String>,
    /// Run each phase on this number of nodes first, and on the others after `gridc job confirm`
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub first: Option<String>,
    /// Read the job from a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = TASK_OPTIONS)]
    pub file: Option<PathBuf>,
    /// What happens on the other nodes when a node fails [default: fail-fast]
    #[arg(long, value_name = "STRATEGY", value_parser = ["fail-fast", "continue"])]
    pub strategy: Option<String>,
    /// Number of nodes that may fail, or a share like 10% or 0.1 [default: 0; with continue: 100%]
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub failure_tolerate: Option<String>,
    /// How to treat offline nodes [default: skip]
    #[arg(long, value_name = "RULE", value_parser = ["skip", "wait", "fail"])]
    pub offline: Option<String>,
    /// How to treat an unknown outcome; wait: until an operator decides with `gridc job resolve` [default: fail]
    #[arg(long, value_name = "RULE", value_parser = ["fail", "wait"])]
    pub on_unknown: Option<String>,
    /// Number of nodes that may run it at once, or a share like 20% [default: all]
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub concurrency: Option<String>,
    /// Display name of the job; need not be unique
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Label of the job; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Begin only after `gridc job confirm`
    #[arg(long)]
    pub confirm: bool,
    /// Timeout of the task on a node, like 90s [default: the action's, or 5m]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<Span>,
    /// Number of further attempts on a node that failed [default: 0]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_RETRIES))
    )]
    pub max_retries: Option<u32>,
    /// Effect class of the task, for actions that leave it to the caller [default: the action's]
    #[arg(long, value_name = "CLASS", value_parser = ["pure", "idempotent", "once"])]
    pub effect: Option<String>,
    /// Run only if the plan still has this hash (from `gridc job plan`)
    #[arg(long, value_name = "HASH")]
    pub plan: Option<String>,
    /// Wait until the job has ended and show its progress
    #[arg(long)]
    pub wait: bool,
    /// Like --wait, and print the output of the nodes, prefixed with their names
    #[arg(long)]
    pub follow: bool,
    /// Stop waiting after this time (exit 124); the job continues
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "stay")]
    pub wait_timeout: Option<Span>,
    /// Also exit 1 if nodes were skipped because they were offline
    #[arg(long, requires = "stay")]
    pub fail_on_skipped: bool,
    /// BACKEND ACTION [PARAMETER]...; a parameter is --name VALUE or name=VALUE
    #[arg(value_name = "TASK")]
    pub words: Vec<String>,
}

impl RunArgs {
    pub fn narrow(&self) -> Narrow<'_> {
        Narrow { exclude: self.exclude.as_deref(), limit: self.limit.as_deref(), first: self.first.as_deref() }
    }
}

#[derive(Debug, Args)]
#[command(override_usage = "\
gridc job plan [OPTIONS] --target TARGET BACKEND ACTION [PARAMETER]...
       gridc job plan [OPTIONS] --file FILE")]
pub struct PlanArgs {
    /// Nodes to run on, as for `gridc job run`
    #[arg(short, long, value_name = "TARGET", required_unless_present = "file")]
    pub target: Option<String>,
    /// Read the job from a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["target", "words"])]
    pub file: Option<PathBuf>,
    /// Do not run on these nodes of the target
    #[arg(long, value_name = "TARGET")]
    pub exclude: Option<String>,
    /// Run only on this part of the target: the first N nodes by id, a share, or those that also match
    #[arg(long, value_name = "N|SHARE|TARGET", allow_negative_numbers = true)]
    pub limit: Option<String>,
    /// Run each phase on this number of nodes first, and on the others after `gridc job confirm`
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub first: Option<String>,
    /// BACKEND ACTION [PARAMETER]...; a parameter is --name VALUE or name=VALUE
    #[arg(value_name = "TASK")]
    pub words: Vec<String>,
}

impl From<&PlanArgs> for RunArgs {
    fn from(args: &PlanArgs) -> Self {
        let PlanArgs { target, file, exclude, limit, first, words } = args;
        Self {
            target: target.clone(),
            file: file.clone(),
            exclude: exclude.clone(),
            limit: limit.clone(),
            first: first.clone(),
            words: words.clone(),
            ..Self::default()
        }
    }
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("a label is KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// What a file says itself.
const TASK_OPTIONS: [&str; 11] = [
    "target",
    "strategy",
    "failure_tolerate",
    "offline",
    "on_unknown",
    "concurrency",
    "confirm",
    "timeout",
    "max_retries",
    "effect",
    "words",
];

/// The declarations are the one place that knows the actions; the help only repeats them.
pub(super) fn run_examples() -> String {
    let mut text = "\
Options of gridc may be given before or after the parameters. Write a parameter that has the name of
an option as name=VALUE, and a value that begins with '-' as --name=VALUE.

Examples:
  gridc job run --target all ping echo --message hi
  gridc job run ping echo message=hi -t node:web-01 --wait
  gridc job run -t group:web ping sleep --duration 3s --timeout 10s --max-retries 2 --wait -o json
  gridc job run -t labels:role=web,zone=a ping hostname --concurrency 2 --failure-tolerate 10%
  gridc job run -t any ping echo --confirm --wait
  gridc job run -t 'group:web and not node:web-01' ping hostname
  gridc job run -t 'first 3 of facts:os.id=debian,os.version>=12' ping hostname --wait
  gridc job run -f deploy-web.yaml --limit 1 --wait
  gridc job run -f deploy-web.yaml --exclude node:web-01 --wait
  gridc job run -f deploy-web.yaml --first 1 --wait --wait-timeout 10m
  gridc job run -t group:web apt update --follow
  gridc job run -f - < deploy-web.json

A job file:
  target: group:web                       # or: all, any, node:a,b, labels:k=v, facts:k=v
  strategy: fail-fast                     # or: continue
  failure_tolerate: 10%                   # or a number of nodes
  offline: wait                           # or: skip, fail
  on_unknown: wait                        # or: fail
  tasks:
    - tasks:                              # a pipeline: each node runs these in order
        - {backend: ping, action: echo, params: {message: hi}, timeout: 30s}
        - {backend: ping, action: hostname}
    - {backend: ping, action: sleep, params: {duration: 1s}, max_retries: 2, concurrency: 5}
    - {backend: ping, action: echo, confirm: true}      # waits for gridc job confirm

Backends and their actions:"
        .to_owned();
    for backend in decl::builtin() {
        let note = if backend.on_by_default { "" } else { " (off by default on workers)" };
        text.push_str(&format!("\n  {}: {}{note}", backend.name, backend.help));
        for action in backend.actions {
            let params = action.params.iter().map(|p| {
                let shown = format!("--{} {}", p.name, p.name.to_uppercase());
                if p.required { format!(" {shown}") } else { format!(" [{shown}]") }
            });
            let call = format!("{}{}", action.name, params.collect::<String>());
            text.push_str(&format!("\n    {call}\n        {}", action.help));
        }
    }
    text
}
