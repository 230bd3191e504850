//! The verbs of `gridc job`, their options and their help.
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
    /// Submit a job: one task on the command line, or a file
    #[command(after_help = submit::run_examples())]
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
