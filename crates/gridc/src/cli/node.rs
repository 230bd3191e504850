//! Defines the verbs of `gridc node`, their options and their help.

use clap::{Args, Subcommand};
use grid_types::Span;

pub const EXAMPLES: &str = "\
Examples:
  gridc node list
  gridc node info web-01 -o yaml
  gridc node drain web-01 --wait
  gridc node remove web-01";

#[derive(Debug, Subcommand)]
pub enum NodeVerb {
    /// List the registered nodes
    #[command(after_help = "\
Examples:
  gridc node list
  gridc node list -t 'group:web and facts:os.version>=12'
  gridc node list -o json | jq -r '.items[] | select(.status != \"ready\") | .id'")]
    List {
        /// Only nodes of this target, as for `gridc job run`
        #[arg(short, long, value_name = "TARGET")]
        target: Option<String>,
    },
    /// Show the details and facts of one node
    #[command(after_help = "\
Examples:
  gridc node info web-01
  gridc node info web-01 -o json")]
    Info {
        /// Id of the node
        id: String,
    },
    /// Stop dispatching work to a node; running work finishes
    #[command(after_help = "\
A node stays drained when its worker restarts, until --undo. Jobs report a drained node as skipped, or
wait for it if they have `offline: wait`.

Examples:
  gridc node drain web-01
  gridc node drain web-01 --wait --wait-timeout 10m
  gridc node drain web-01 --undo")]
    Drain(DrainArgs),
    /// Remove a node that no longer exists
    #[command(after_help = "\
A node that is alive is refused (exit 5): drain it first. With --force, work that runs there becomes
unknown. The worker of the node ends; if it is started again, it registers as a new node. Results keep
the name of the node.

Examples:
  gridc node remove web-01
  gridc node remove web-01 --force")]
    Remove {
        /// Id of the node
        id: String,
        /// Remove it even if it is alive; work that runs there becomes unknown
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Id of the node
    pub id: String,
    /// Dispatch work to the node again
    #[arg(long)]
    pub undo: bool,
    /// Wait until nothing runs on the node
    #[arg(long, conflicts_with = "undo")]
    pub wait: bool,
    /// Stop waiting after this time (exit 124); the node stays drained
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
    pub wait_timeout: Option<Span>,
}
