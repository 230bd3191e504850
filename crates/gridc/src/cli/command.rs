//! The options of `gridc run` and `gridc job outputs`.

use std::path::PathBuf;

use clap::Args;
use grid_types::Span;
use grid_types::job::Target;

pub const EXAMPLES: &str = "\
The short form of a job of one task, `command run`. Everything behind the program belongs to it;
no shell reads it, so pipes and $VARIABLES are only text. The command runs on every node of the
target, whatever happens on the others. Equal outputs are printed once, with the nodes that had
them; the last 16 KiB of each are kept (`gridc job logs` has all of it).
Exits 0 if the command succeeded on every node of the target, and 1 if it did not, with who and
why: a node that is offline did not run it.

A worker runs only what its operator has allowed:
  grid worker --enable-backend command --allow-command uname ...

Examples:
  gridc run -t all -- uname -r
  gridc run -t group:web -- systemctl is-active nginx
  gridc run -t node:web-01 --effect idempotent --timeout 30s -- /usr/local/bin/cleanup --days 7
  gridc run -t group:db --env PGHOST=/run/postgresql --cwd / --stdin check.sql -- psql -At
  gridc run -t all -o json -- uname -r | jq '.outputs[] | {output, nodes}'";

#[derive(Debug, Args)]
#[command(override_usage = "gridc run [OPTIONS] --target TARGET [--] PROGRAM [ARG]...")]
pub struct CommandArgs {
    /// Where to run: all, group:NAME, node:ID, labels:KEY=VALUE,... or any (one node, picked for you)
    #[arg(short, long, value_name = "TARGET")]
    pub target: Target,
    /// What running it a second time means; once is never repeated automatically [default: once]
    #[arg(long, value_name = "CLASS", value_parser = ["pure", "idempotent", "once"])]
    pub effect: Option<String>,
    /// A variable for the command; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// The folder it works in, a path from / [default: an empty folder of its own]
    #[arg(long, value_name = "PATH")]
    pub cwd: Option<String>,
    /// Its standard input, a file here; - is stdin [default: nothing]
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// How long it may take on a node, like 90s [default: 5m]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub timeout: Option<Span>,
    /// How many nodes may be at it at once: a number, or a share like 20% [default: all]
    #[arg(long, value_name = "N|SHARE", allow_negative_numbers = true)]
    pub concurrency: Option<String>,
    /// Stop waiting after this long (exit 124); the job goes on
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub wait_timeout: Option<Span>,
    /// The program, a path from / or a name, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

pub const OUTPUTS_EXAMPLES: &str = "\
Writes the whole output of a step on each node to DIR/NODE, byte for byte. DIR is made if it is
missing. A file that is there already is never changed: that node is refused. A node on which the
step did not succeed, or whose output is not whole any more, gets no file. Exits 1 if any node has
none.

Examples:
  gridc job outputs job-0c5t9v3k2m7qa --dir ./hostnames
  gridc job outputs job-0c5t9v3k2m7qa --step 2 --dir ./configs";

#[derive(Debug, Args)]
pub struct OutputsArgs {
    /// Id of the job
    pub id: String,
    /// Of this step; needed if the job has several
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub step: Option<u32>,
    /// Of this run [default: the newest]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// The folder
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
