//! The verbs of `gridc node`, their options and their help.

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
    /// List the nodes that the cluster knows
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
    /// Show everything known about one node
    #[command(after_help = "\
Examples:
  gridc node info web-01
  gridc node info web-01 -o json")]
    Info {
        /// Id of the node
        id: String,
    },
    /// Give a node no new work; what runs there finishes
    #[command(after_help = "\
It stays drained when its worker is started again, until --undo. Jobs skip a drained node by name, or
wait for it if they say `offline: wait`.

Examples:
  gridc node drain web-01
  gridc node drain web-01 --wait --wait-timeout 10m
  gridc node drain web-01 --undo")]
    Drain(DrainArgs),
    /// Forget a node that is gone
    #[command(after_help = "\
A node that lives is refused (exit 5): drain it first. With --force what runs there is given up as
unknown. Its worker ends; if it is started again, it registers as a new node. Results keep its name.

Examples:
  gridc node remove web-01
  gridc node remove web-01 --force")]
    Remove {
        /// Id of the node
        id: String,
        /// Even if it lives: what runs there becomes unknown
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Id of the node
    pub id: String,
    /// Let it take work again
    #[arg(long)]
    pub undo: bool,
    /// Stay until nothing runs there any more
    #[arg(long, conflicts_with = "undo")]
    pub wait: bool,
    /// Stop waiting after this long (exit 124); it stays drained
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, requires = "wait")]
    pub wait_timeout: Option<Span>,
}
