//! Defines the verbs of `gridc job`, their options and their help.
//!
//! Not here: what describes a job to submit or to plan (`submit`), the options of verbs that only read (`look`, `logs`).

use super::command::{self, OutputsArgs};
use super::logs::{self, LogsArgs};
use super::look::{ListArgs, StatusArgs, WaitArgs};
use super::submit::{self, PlanArgs, RunArgs};
use clap::{Args, Subcommand, ValueEnum};
use grid_types::api::Resolution;
use grid_types::{NodeId, Span};

#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Submit a job: one task on the command line, or a job file
    #[command(after_help = submit::run_examples())]
    Run(Box<RunArgs>),
    /// Show the status of a job: its steps and their outcome on each node
    #[command(after_help = "\
Shows up to 50 nodes, failures first; with a filter, up to 1,000 matching nodes. `gridc job get`
prints all of them. A job that was resumed or retried has several runs; --run selects one, the
default is the newest. Attempts are counted over all runs up to the selected one. With -o json, a
filter removes the results that do not match from the document.

Examples:
  gridc job status job-0c5t9v3k2m7qa
  gridc job status job-0c5t9v3k2m7qa --failed
  gridc job status job-0c5t9v3k2m7qa --node web-01,web-02 --step 2
  gridc job status job-0c5t9v3k2m7qa --status running,pending
  gridc job status job-0c5t9v3k2m7qa --run 1
  gridc job status job-0c5t9v3k2m7qa -o json | jq .counts")]
    Status(StatusArgs),
    /// Follow a job in the live view until it ends
    #[command(
        visible_alias = "watch",
        after_help = "\
Shows the same view as `gridc job run --wait`, for any job, and ends with the same output and exit
code. Ctrl-C stops watching; the job continues.

Examples:
  gridc job watch job-0c5t9v3k2m7qa
  gridc job wait job-0c5t9v3k2m7qa --wait-timeout 10m -o json"
    )]
    Wait(WaitArgs),
    /// Print the complete document of a job, including all results, as JSON
    #[command(after_help = "\
Prints JSON unless `-o yaml` is given. Jobs with more than 1,000 results are fetched page by page.

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
    /// Print the output of a job's steps
    #[command(after_help = logs::EXAMPLES)]
    Logs(LogsArgs),
    /// Save the output of a step, one file per node
    #[command(after_help = command::OUTPUTS_EXAMPLES)]
    Outputs(OutputsArgs),
    /// List jobs, newest first
    #[command(after_help = "\
A job that waits for an operator is shown as `waiting`. Its document (-o json) keeps the status
`running` or `pending`, and its field `why` says what the job is waiting for and how to continue it.

Examples:
  gridc job list
  gridc job list --waiting
  gridc job list --status failed --limit 10
  gridc job list --name deploy --label team=web
  gridc job list --waiting -o json | jq -r '.items[].why'")]
    List(ListArgs),
    /// Cancel a job: dispatch no new work and end running work
    #[command(after_help = "\
Returns when no new work can be dispatched; workers end running work within seconds after they
receive the cancellation. --wait waits until nothing runs and exits 0 whatever the outcome of the
steps; an offline node is waited for until it returns or is declared dead. Cancelling a job that has
ended is a conflict (exit 5).

Examples:
  gridc job cancel job-0c5t9v3k2m7qa
  gridc job cancel job-0c5t9v3k2m7qa --wait")]
    Cancel {
        /// Id of the job
        id: String,
        /// Wait until nothing of the job runs
        #[arg(long)]
        wait: bool,
        /// Stop waiting after this time (exit 124); the job is cancelled nevertheless
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
        wait_timeout: Option<Span>,
    },
    /// Show what a job would do without running it
    #[command(after_help = "\
Resolves targets and defaults, lists the nodes the job would run on (with those that are offline or
lack a backend) and why other nodes do not match, shows every phase and step, and prints a hash of
the plan. `gridc job run -f FILE --plan HASH` runs exactly this plan; it is refused (exit 5) if the
file, a node or a declaration has changed.

Examples:
  gridc job plan -f deploy.yaml
  gridc job plan -f deploy.yaml --limit 1
  gridc job plan -t 'group:web and facts:os.id=debian' apt update
  gridc job run -f deploy.yaml --plan $(gridc job plan -f deploy.yaml -o json | jq -r .hash)")]
    Plan(Box<PlanArgs>),
    /// Run the parts of an ended job that did not succeed
    #[command(after_help = "\
Runs the steps that failed, timed out, were cancelled or skipped, are unknown or were never reached,
on the nodes of the first run; steps that succeeded do not run again. Steps of effect class `once`
that may have run are listed, and the command is refused (exit 5) unless --rerun-once is given.

Examples:
  gridc job resume job-0c5t9v3k2m7qa
  gridc job resume job-0c5t9v3k2m7qa --wait
  gridc job resume job-0c5t9v3k2m7qa --rerun-once")]
    Resume(RerunArgs),
    /// Run the failed steps of an ended job again, only on the nodes that failed
    #[command(after_help = "\
Like resume, but only on nodes where a step failed, timed out or is unknown: they run that step and
the steps that they missed because of it. Other nodes run nothing; if they have missed steps, the job
ends as failed and says so, and resume runs those steps. Retrying a job without failures is a conflict
(exit 5).

Examples:
  gridc job retry job-0c5t9v3k2m7qa
  gridc job retry job-0c5t9v3k2m7qa --wait --wait-timeout 10m
  gridc job retry job-0c5t9v3k2m7qa --rerun-once")]
    Retry(RerunArgs),
    /// Confirm a phase that waits for an operator, or release a held job
    #[command(after_help = "\
A phase with `confirm: true` begins only after it is confirmed. --phase confirms only that phase; the
default is the phase that is waiting. Confirming a job that is not waiting is a conflict (exit 5).
After a restore from a backup, every unfinished job is held until it is confirmed: check `gridc job
why` and the machines first. --all-held confirms all held jobs, but no phase.
A `once` step that may have run after the backup becomes unknown when the job reaches it, unless the
worker's journal shows that it did not run. Such steps are listed; --rerun-once runs them again.

Examples:
  gridc job confirm job-0c5t9v3k2m7qa
  gridc job confirm job-0c5t9v3k2m7qa --phase 1 --wait
  gridc job confirm job-0c5t9v3k2m7qa --rerun-once
  gridc job confirm --all-held")]
    Confirm {
        /// Id of the job
        #[arg(required_unless_present = "all_held")]
        id: Option<String>,
        /// Phase to confirm, counted from 0 [default: the one that is waiting]
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        phase: Option<u32>,
        /// Confirm every job of the namespace that is held after a restore
        #[arg(long, conflicts_with_all = ["id", "phase"])]
        all_held: bool,
        /// Run `once` steps of a held job again that may have run after the backup
        #[arg(long, conflicts_with = "phase")]
        rerun_once: bool,
        /// Wait until the job has ended and show its progress
        #[arg(long, conflicts_with = "all_held")]
        wait: bool,
        /// Stop waiting after this time (exit 124); the job continues
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
        wait_timeout: Option<Span>,
    },
    /// Record the outcome of an unknown step on a node
    #[command(after_help = "\
With `on_unknown: wait`, a job waits where the outcome of a step is unknown (for example because its
worker was lost), since running the step again could repeat its effect. Inspect the node, then record:
  success  the step took effect: the node continues
  failed   the step did not take effect: the node has failed
  retry    run the step again
Resolving a step that is not waiting is a conflict (exit 5).

Examples:
  gridc job resolve job-0c5t9v3k2m7qa --step 2 --node web-07 --as success
  gridc job resolve job-0c5t9v3k2m7qa --step 2 --node web-07 --as retry")]
    Resolve {
        /// Id of the job
        id: String,
        /// Number of the step, as `gridc job status` shows it
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        step: u32,
        /// Id of the node
        #[arg(long, value_name = "NAME")]
        node: NodeId,
        /// Outcome to record
        #[arg(long = "as", value_name = "VERDICT")]
        verdict: Verdict,
    },
    /// Explain what a job is waiting for, or how it ended
    #[command(after_help = "\
Examples:
  gridc job why job-0c5t9v3k2m7qa
  gridc job why job-0c5t9v3k2m7qa -o json | jq -r .why")]
    Why {
        /// Id of the job
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct RerunArgs {
    /// Id of the job
    pub id: String,
    /// Run `once` steps again that may have run
    #[arg(long)]
    pub rerun_once: bool,
    /// Wait until the job has ended and show its progress
    #[arg(long)]
    pub wait: bool,
    /// Stop waiting after this time (exit 124); the job continues
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
    pub wait_timeout: Option<Span>,
}

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
