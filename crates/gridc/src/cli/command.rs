//! Defines the options of `gridc run` and `gridc job outputs`.

use std::path::PathBuf;

use clap::Args;
use grid_types::Span;

use crate::aim::Narrow;

pub const EXAMPLES: &str = "\
Runs a job with one task, `command run`. Everything after the program is an argument of it. No shell
is involved, so pipes and $VARIABLES are plain text. The command runs on every node of the target,
even if it fails on others. Identical outputs are printed once, with the nodes that printed them; the
last 16 KiB of each are stored (`gridc job logs` prints the whole output).
Exits 0 if the command succeeded on every node of the target, otherwise 1 with the nodes that failed
and the reason. A node that is offline counts as failed.

A worker runs only programs that its operator allows:
  grid worker --enable-backend command --allow-command uname ...

Examples:
  gridc run -t all -- uname -r
  gridc run -t group:web -- systemctl is-active nginx
  gridc run -t group:web --limit 1 -- /usr/local/bin/migrate
  gridc run -t node:web-01 --effect idempotent --timeout 30s -- /usr/local/bin/cleanup --days 7
  gridc run -t group:db --env PGHOST=/run/postgresql --cwd / --stdin check.sql -- psql -At
  gridc run -t all -o json -- uname -r | jq '.outputs[] | {output, nodes}'";

#[derive(Debug, Args)]
#[command(override_usage = "gridc run [OPTIONS] --target TARGET [--] PROGRAM [ARG]...")]
pub struct CommandArgs {
    /// Nodes to run on: all, any (one node, chosen by the scheduler), node:ID,..., group:NAME,..., labels:KEY=VALUE,...,
    /// facts:KEY=VALUE,..., combined with and, or, not; first 3 of ..., 20% of ...
    #[arg(short, long, value_name = "TARGET")]
    pub target: String,
    /// Do not run on these nodes of the target
    #[arg(long, value_name = "TARGET")]
    pub exclude: Option<String>,
    /// Run only on this part of the target: the first N nodes by id, a share, or those that also match
    #[arg(long, value_name = "N|SHARE|TARGET", allow_negative_numbers = true)]
    pub limit: Option<String>,
    /// Effect class of the command; `once` is never repeated automatically [default: once]
    #[arg(long, value_name = "CLASS", value_parser = ["pure", "idempotent", "once"])]
    pub effect: Option<String>,
    /// Environment variable for the command; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Working folder, an absolute path [default: a new empty folder]
    #[arg(long, value_name = "PATH")]
    pub cwd: Option<String>,
    /// Local file to use as standard input; - is stdin [default: empty]
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Timeout on a node, like 90s [default: 5m]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<Span>,
    /// Number of nodes that may run it at once, or a share like 20% [default: all]
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub concurrency: Option<String>,
    /// Stop waiting after this time (exit 124); the job continues
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub wait_timeout: Option<Span>,
    /// Program (a name or an absolute path) and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

impl CommandArgs {
    pub fn narrow(&self) -> Narrow<'_> {
        Narrow { exclude: self.exclude.as_deref(), limit: self.limit.as_deref(), first: None }
    }
}

pub const OUTPUTS_EXAMPLES: &str = "\
Writes the complete output of a step to DIR/NODE for each node, byte for byte. DIR is created if it
does not exist. Existing files are never overwritten: such a node is reported as an error. A node on
which the step did not succeed, or whose output is no longer complete, gets no file. Exits 1 if any
node has no file.

Examples:
  gridc job outputs job-0c5t9v3k2m7qa --dir ./hostnames
  gridc job outputs job-0c5t9v3k2m7qa --step 2 --dir ./configs";

#[derive(Debug, Args)]
pub struct OutputsArgs {
    /// Id of the job
    pub id: String,
    /// Number of the step; required if the job has several
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub step: Option<u32>,
    /// Number of the run [default: the newest]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// Folder to write to
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
