//! The shape of the command line, and its help.
//!
//! Every option here is wired to something. `--patience` is hidden: the contract says 10 s, and only tests and
//! scripts that probe for a controller have a reason to change it.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use grid_client::ServerUrl;
use grid_types::job::Target;
use grid_types::limits::MAX_RETRIES;
use grid_types::{JobStatus, Name, Span, decl};

#[derive(Debug, Parser)]
#[command(
    name = "gridc",
    version,
    about = "Run operations on a fleet of machines, and see how they went",
    after_help = "\
Examples:
  gridc node list
  gridc job run --target all ping echo --message hi --wait
  gridc job run -f deploy-web.yaml --wait
  gridc job status job-0c5t9v3k2m7qa

Exit codes:
    0  done
    1  the job ended other than completed
    2  usage, or refused input
    3  no controller reachable
    4  not found
    5  conflict or denied
  124  the wait timed out
  130  interrupted while waiting",
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Controllers to ask; any of them will do, the leader is found
    #[arg(long, global = true, env = "GRID_SERVER", default_value = "http://127.0.0.1:8765", value_name = "URL[,URL]")]
    pub server: Servers,
    /// Namespace of the jobs
    #[arg(short, long, global = true, default_value = "default", value_name = "NAME")]
    pub namespace: Name,
    /// How to print the answer [default: table; for `job get`: json]
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// How long to look for a controller
    #[arg(long, global = true, env = "GRID_PATIENCE", default_value = "10s", hide = true)]
    pub patience: Span,
}

#[derive(Debug, Clone)]
pub struct Servers(pub Vec<ServerUrl>);

impl FromStr for Servers {
    type Err = grid_client::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        grid_client::parse_servers(text).map(Self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Yaml,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run jobs and look at them
    #[command(subcommand, after_help = JOB_EXAMPLES, arg_required_else_help = true)]
    Job(JobVerb),
    /// Look at the machines
    #[command(subcommand, after_help = NODE_EXAMPLES, arg_required_else_help = true)]
    Node(NodeVerb),
    #[command(flatten)]
    Cluster(ClusterVerb),
}

const JOB_EXAMPLES: &str = "\
Examples:
  gridc job run --target group:web ping hostname --wait
  gridc job list --status running
  gridc job cancel job-0c5t9v3k2m7qa";

const NODE_EXAMPLES: &str = "\
Examples:
  gridc node list
  gridc node info web-01 -o yaml";

#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Submit a job: one task on the command line, or a file
    #[command(after_help = run_examples())]
    Run(RunArgs),
    /// Show how a job stands: its steps and what happened on each node
    #[command(after_help = "\
Shows up to 50 nodes, failures first; `gridc job get` has all of them.

Examples:
  gridc job status job-0c5t9v3k2m7qa
  gridc job status job-0c5t9v3k2m7qa -o json | jq .counts")]
    Status {
        /// Id of the job
        id: String,
    },
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
    },
    /// List jobs, newest first
    #[command(after_help = "\
Examples:
  gridc job list
  gridc job list --status failed --limit 10
  gridc job list -o json | jq -r '.items[].id'")]
    List {
        /// How many at most
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Only jobs that stand like this
        #[arg(long, value_name = "STATUS")]
        status: Option<StatusWord>,
    },
    /// Cancel a job: no new work goes out, running work is ended
    #[command(after_help = "\
A job that has already ended is a conflict (exit 5).

Examples:
  gridc job cancel job-0c5t9v3k2m7qa")]
    Cancel {
        /// Id of the job
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(override_usage = "\
gridc job run [OPTIONS] --target TARGET BACKEND ACTION [PARAMETER]...
       gridc job run [OPTIONS] --file FILE")]
pub struct RunArgs {
    /// Where to run: all, group:NAME or node:ID
    #[arg(short, long, value_name = "TARGET", required_unless_present = "file")]
    pub target: Option<Target>,
    /// Read the job from a YAML or JSON file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["target", "strategy", "timeout", "max_retries", "words"])]
    pub file: Option<PathBuf>,
    /// What a failed node means for the others [default: fail-fast]
    #[arg(long, value_name = "STRATEGY", value_parser = ["fail-fast", "continue"])]
    pub strategy: Option<String>,
    /// How long the task may take on a node, like 90s [default: the action's, or 5m]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Span>,
    /// How often a node that failed tries again [default: 0]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_RETRIES))
    )]
    pub max_retries: Option<u32>,
    /// Stay until the job has ended and show how it goes
    #[arg(long)]
    pub wait: bool,
    /// Stop waiting after this long (exit 124); the job goes on
    #[arg(long, value_name = "DURATION", requires = "wait")]
    pub wait_timeout: Option<Span>,
    /// BACKEND ACTION [PARAMETER]...; a parameter is --name VALUE or name=VALUE
    #[arg(value_name = "TASK")]
    pub words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatusWord {
    Pending,
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl From<StatusWord> for JobStatus {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Pending => Self::Pending,
            StatusWord::Running => Self::Running,
            StatusWord::Completed => Self::Completed,
            StatusWord::Failed => Self::Failed,
            StatusWord::Cancelled => Self::Cancelled,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum NodeVerb {
    /// List every node the cluster knows
    #[command(after_help = "\
Examples:
  gridc node list
  gridc node list -o json | jq -r '.items[] | select(.status != \"ready\") | .id'")]
    List,
    /// Show everything known about one node
    #[command(after_help = "\
Examples:
  gridc node info web-01
  gridc node info web-01 -o json")]
    Info {
        /// Id of the node
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum ClusterVerb {
    /// Show the cluster: its leader, nodes and jobs
    #[command(after_help = "\
Examples:
  gridc status
  gridc status -o json | jq .jobs")]
    Status,
    /// Show the role of the controller that answers, and who leads
    #[command(after_help = "\
Examples:
  gridc role
  gridc --server http://c1:8765,http://c2:8765 role -o json | jq -r .leader_url")]
    Role,
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
  gridc job run -f deploy-web.yaml --wait --wait-timeout 10m
  gridc job run -f - < deploy-web.json

A job file:
  target: {scope: group, value: web}      # or: all, node
  strategy: fail-fast                     # or: continue
  tasks:
    - tasks:                              # each node walks these alone
        - {backend: ping, action: echo, params: {message: hi}, timeout: 30s}
        - {backend: ping, action: hostname}
    - {backend: ping, action: sleep, params: {duration: 1s}, max_retries: 2}

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

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed_and_every_command_teaches_by_example() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let mut todo = vec![command];
        while let Some(command) = todo.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  gridc "), "{}", command.get_name());
            todo.extend(command.get_subcommands().cloned());
        }
    }
}
