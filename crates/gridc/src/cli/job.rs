//! The verbs of `gridc job`, their options and their help.

use std::path::PathBuf;

use super::command::{self, OutputsArgs};
use super::logs::{self, LogsArgs};
use super::look::{ListArgs, StatusArgs, WaitArgs};
use crate::aim::Narrow;
use clap::{Args, Subcommand, ValueEnum};
use grid_types::api::Resolution;
use grid_types::limits::MAX_RETRIES;
use grid_types::{NodeId, Span, decl};

#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Submit a job: one task on the command line, or a file
    #[command(after_help = run_examples())]
    Run(Box<RunArgs>),
    /// Show how a job stands: its steps and what happened on each node
    #[command(after_help = "\
Shows up to 50 nodes, failures first; with a filter up to 1,000 that match. `gridc job get` has all
of them. A job that was resumed or retried has several runs; the newest is shown unless --run names
another. Attempts are those of all runs up to the one that is shown. With -o json a filter leaves
only the results that match in the document.

Examples:
  gridc job status job-0c5t9v3k2m7qa
  gridc job status job-0c5t9v3k2m7qa --failed
  gridc job status job-0c5t9v3k2m7qa --node web-01,web-02 --step 2
  gridc job status job-0c5t9v3k2m7qa --status running,pending
  gridc job status job-0c5t9v3k2m7qa --run 1
  gridc job status job-0c5t9v3k2m7qa -o json | jq .counts")]
    Status(StatusArgs),
    /// Open the live view of a job again, until it has ended
    #[command(
        visible_alias = "watch",
        after_help = "\
Shows what `gridc job run --wait` shows, for any job, as often as wanted; at the end it prints and
exits like it. Ctrl-C stops watching and leaves the job alone.

Examples:
  gridc job watch job-0c5t9v3k2m7qa
  gridc job wait job-0c5t9v3k2m7qa --wait-timeout 10m -o json"
    )]
    Wait(WaitArgs),
    /// Print the whole document of a job, every result included, as JSON
    #[command(after_help = "\
Prints JSON unless `-o yaml` is given. Jobs with more than 1,000 results are collected page by page.

Examples:
  gridc job get job-0c5t9v3k2m7qa
  gridc job get job-0c5t9v3k2m7qa -o yaml
  gridc job get job-0c5t9v3k2m7qa | jq '.results[\"0\"]'")]
    Get {
        /// Id of the job
        id: String,
        /// Show this run instead of the newest
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
        run: Option<u32>,
    },
    /// Print what a job's steps printed
    #[command(after_help = logs::EXAMPLES)]
    Logs(LogsArgs),
    /// Store what a step printed, a file for each node
    #[command(after_help = command::OUTPUTS_EXAMPLES)]
    Outputs(OutputsArgs),
    /// List jobs, newest first
    #[command(after_help = "\
A job that waits for an operator is shown as `waiting`; its document (-o json) says in `why` what it
waits for and how to let it go on, and keeps the status `running` or `pending`.

Examples:
  gridc job list
  gridc job list --waiting
  gridc job list --status failed --limit 10
  gridc job list --name deploy --label team=web
  gridc job list --waiting -o json | jq -r '.items[].why'")]
    List(ListArgs),
    /// Cancel a job: no new work goes out, running work is ended
    #[command(after_help = "\
It is answered when no new work can go out; what runs is ended by its workers, within seconds of their
hearing it. --wait stays until everything has, and exits 0 however each step ended; a node that is away
is waited for until it is back or dead. A job that has already ended is a conflict (exit 5).

Examples:
  gridc job cancel job-0c5t9v3k2m7qa
  gridc job cancel job-0c5t9v3k2m7qa --wait")]
    Cancel {
        /// Id of the job
        id: String,
        /// Stay until nothing of it runs any more
        #[arg(long)]
        wait: bool,
        /// Stop waiting after this long (exit 124); the job is cancelled nevertheless
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
        wait_timeout: Option<Span>,
    },
    /// Show what a job would do, without doing it
    #[command(after_help = "\
Resolves targets and defaults, lists the nodes it would run on (which of them are offline, and which
lack what a step needs) and why the others are left out, shows every phase and step, and prints a hash
over all of it. `gridc job run -f FILE --plan HASH` runs exactly that, or is refused (exit 5) because
the file, a node or a declaration has changed.

Examples:
  gridc job plan -f deploy.yaml
  gridc job plan -f deploy.yaml --limit 1
  gridc job plan -t 'group:web and facts:os.id=debian' apt update
  gridc job run -f deploy.yaml --plan $(gridc job plan -f deploy.yaml -o json | jq -r .hash)")]
    Plan(Box<PlanArgs>),
    /// Let an ended job go on: run only what is missing
    #[command(after_help = "\
Runs what failed, timed out, was cancelled, skipped, is unknown or was never reached, on the nodes of
the first run; what succeeded is not run again. Once-only steps that may have run already are listed
and refused (exit 5) unless --rerun-once is given.

Examples:
  gridc job resume job-0c5t9v3k2m7qa
  gridc job resume job-0c5t9v3k2m7qa --wait
  gridc job resume job-0c5t9v3k2m7qa --rerun-once")]
    Resume(RerunArgs),
    /// Run again what failed, only on the nodes where it did
    #[command(after_help = "\
Like resume, but only nodes on which something failed, timed out or is unknown take part: they run
what failed and everything they miss because of it. The other nodes run nothing; if they miss parts,
the job ends failed and says so, and resume runs those. A job of which nothing failed is a conflict
(exit 5).

Examples:
  gridc job retry job-0c5t9v3k2m7qa
  gridc job retry job-0c5t9v3k2m7qa --wait --wait-timeout 10m
  gridc job retry job-0c5t9v3k2m7qa --rerun-once")]
    Retry(RerunArgs),
    /// Let a phase begin that waits for a person, or a job go on that is held
    #[command(after_help = "\
A phase with `confirm: true` begins only after this. Without --phase it is whichever phase waits;
with it, a job that waits for another phase is left alone. A job that does not wait is a conflict
(exit 5).
After a restore from a backup every job that had not ended is held until it is confirmed: look at
`gridc job why` and at the machines first. --all-held confirms all of them, and no phase.
A once-only step that may have run after the backup becomes unknown when the job reaches it, unless a
worker's journal says that it did not run. Such steps are listed; --rerun-once runs them again.

Examples:
  gridc job confirm job-0c5t9v3k2m7qa
  gridc job confirm job-0c5t9v3k2m7qa --phase 1 --wait
  gridc job confirm job-0c5t9v3k2m7qa --rerun-once
  gridc job confirm --all-held")]
    Confirm {
        /// Id of the job
        #[arg(required_unless_present = "all_held")]
        id: Option<String>,
        /// The phase that is meant, counted from 0 [default: the one that waits]
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        phase: Option<u32>,
        /// Every job of the namespace that is held after a restore
        #[arg(long, conflicts_with_all = ["id", "phase"])]
        all_held: bool,
        /// Of a job that is held after a restore: run once-only steps again that may have run after the backup
        #[arg(long, conflicts_with = "phase")]
        rerun_once: bool,
        /// Stay until the job has ended and show how it goes
        #[arg(long, conflicts_with = "all_held")]
        wait: bool,
        /// Stop waiting after this long (exit 124); the job goes on
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
        wait_timeout: Option<Span>,
    },
    /// Say how a step ended on a node that nobody knows
    #[command(after_help = "\
With `on_unknown: wait` a job stops where an outcome is unknown (its worker was lost, for example),
because to run such a step again could do its work twice. Look at the node, then say what you found:
  success  it was done: the node goes on
  failed   it was not done: the node has failed
  retry    run it again
A step that does not wait for this is a conflict (exit 5).

Examples:
  gridc job resolve job-0c5t9v3k2m7qa --step 2 --node web-07 --as success
  gridc job resolve job-0c5t9v3k2m7qa --step 2 --node web-07 --as retry")]
    Resolve {
        /// Id of the job
        id: String,
        /// Number of the step, as `gridc job status` shows it
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        step: u32,
        /// The node
        #[arg(long, value_name = "NAME")]
        node: NodeId,
        /// How it ended
        #[arg(long = "as", value_name = "VERDICT")]
        verdict: Verdict,
    },
    /// Say in one line why a job is not further, or how it ended
    #[command(after_help = "\
Examples:
  gridc job why job-0c5t9v3k2m7qa
  gridc job why job-0c5t9v3k2m7qa -o json | jq -r .why")]
    Why {
        /// Id of the job
        id: String,
    },
}

#[derive(Debug, Default, Args)]
#[command(override_usage = "\
gridc job run [OPTIONS] --target TARGET BACKEND ACTION [PARAMETER]...
       gridc job run [OPTIONS] --file FILE", group = clap::ArgGroup::new("stay").args(["wait", "follow"]).multiple(true))]
pub struct RunArgs {
    /// Where to run: all, any (one node, picked for you), node:ID,..., group:NAME,..., labels:KEY=VALUE,...,
    /// facts:KEY=VALUE,..., combined with and, or, not; first 3 of ..., 20% of ...
    #[arg(short, long, value_name = "TARGET", required_unless_present = "file")]
    pub target: Option<String>,
    /// Do not run on these nodes of the target
    #[arg(long, value_name = "TARGET")]
    pub exclude: Option<String>,
    /// Run only on this part of the target: the first N nodes by id, a share, or those that also match
    #[arg(long, value_name = "N|SHARE|TARGET", allow_negative_numbers = true)]
    pub limit: Option<String>,
    /// Run each phase on so many nodes first; the others follow after `gridc job confirm`
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub first: Option<String>,
    /// Read the job from a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = TASK_OPTIONS)]
    pub file: Option<PathBuf>,
    /// What a failed node means for the others [default: fail-fast]
    #[arg(long, value_name = "STRATEGY", value_parser = ["fail-fast", "continue"])]
    pub strategy: Option<String>,
    /// How many nodes may fail: a number, or a share like 10% or 0.1 [default: 0; all with continue]
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub failure_tolerate: Option<String>,
    /// What becomes of a node that is offline [default: skip]
    #[arg(long, value_name = "RULE", value_parser = ["skip", "wait", "fail"])]
    pub offline: Option<String>,
    /// What an outcome means that nobody knows; wait: a person decides, with `gridc job resolve`
    /// [default: fail]
    #[arg(long, value_name = "RULE", value_parser = ["fail", "wait"])]
    pub on_unknown: Option<String>,
    /// How many nodes may be at it at once: a number, or a share like 20% [default: all]
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub concurrency: Option<String>,
    /// Name of the job, for people; need not be unique
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Label of the job; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Begin only after `gridc job confirm`
    #[arg(long)]
    pub confirm: bool,
    /// How long the task may take on a node, like 90s [default: the action's, or 5m]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<Span>,
    /// How often a node that failed tries again [default: 0]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_RETRIES))
    )]
    pub max_retries: Option<u32>,
    /// What running the task a second time means, where its action leaves it to the caller [default: the action's]
    #[arg(long, value_name = "CLASS", value_parser = ["pure", "idempotent", "once"])]
    pub effect: Option<String>,
    /// Run exactly what `gridc job plan` showed under this hash, or nothing
    #[arg(long, value_name = "HASH")]
    pub plan: Option<String>,
    /// Stay until the job has ended and show how it goes
    #[arg(long)]
    pub wait: bool,
    /// Like --wait, and print what the nodes print, with their names in front
    #[arg(long)]
    pub follow: bool,
    /// Stop waiting after this long (exit 124); the job goes on
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "stay")]
    pub wait_timeout: Option<Span>,
    /// Exit 1 also if nodes were skipped because they were offline
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
    /// Where to run, as for `gridc job run`
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
    /// Run each phase on so many nodes first; the others follow after `gridc job confirm`
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

#[derive(Debug, Args)]
pub struct RerunArgs {
    /// Id of the job
    pub id: String,
    /// Run once-only steps again that may have run already
    #[arg(long)]
    pub rerun_once: bool,
    /// Stay until the job has ended and show how it goes
    #[arg(long)]
    pub wait: bool,
    /// Stop waiting after this long (exit 124); the job goes on
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
    pub wait_timeout: Option<Span>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Verdict {
    Success,
    Failed,
    Retry,
}

impl From<Verdict> for Resolution {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Success => Self::Success,
            Verdict::Failed => Self::Failed,
            Verdict::Retry => Self::Retry,
        }
    }
}

/// The declarations are the one place that knows the actions; the help only repeats them.
fn run_examples() -> String {
    let mut text = "\
Options of gridc may stand before or after the parameters. A parameter that has the name of an
option is written name=VALUE; a value that begins with '-' is written --name=VALUE.

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
    - tasks:                              # each node walks these alone
        - {backend: ping, action: echo, params: {message: hi}, timeout: 30s}
        - {backend: ping, action: hostname}
    - {backend: ping, action: sleep, params: {duration: 1s}, max_retries: 2, concurrency: 5}
    - {backend: ping, action: echo, confirm: true}      # waits for gridc job confirm

Backends and their actions:"
        .to_owned();
    for backend in decl::builtin() {
        let note = if backend.on_by_default { "" } else { " (workers run it only if told to)" };
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
