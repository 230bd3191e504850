//! Defines the options of `gridc job logs`.

use clap::Args;
use grid_types::NodeId;

pub const EXAMPLES: &str = "\
Each line is prefixed with the name of its node, and with the number of the step if there are several.
Without -f, outputs are printed one after another; with -f, lines are printed as they arrive, until the
job has ended. Workers keep complete outputs; if a worker is offline or has deleted an output, its
stored end (16 KiB) is printed, with a note on stderr. Bytes that are not text are replaced by a
marker. Control characters are escaped on a terminal and unchanged on a pipe; --raw prints the exact
bytes of one output, to a terminal only with --force.

Examples:
  gridc job logs job-0c5t9v3k2m7qa
  gridc job logs -f job-0c5t9v3k2m7qa
  gridc job logs job-0c5t9v3k2m7qa --node web-01 --step 2 --tail 20
  gridc job logs job-0c5t9v3k2m7qa --run 1
  gridc job logs job-0c5t9v3k2m7qa --grouped
  gridc job logs job-0c5t9v3k2m7qa --node web-01 --raw > dump.bin";

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Id of the job
    pub id: String,
    /// Follow the output until the job has ended
    #[arg(short, long, conflicts_with = "grouped")]
    pub follow: bool,
    /// Only these nodes
    #[arg(long = "node", value_name = "NAME", value_delimiter = ',')]
    pub nodes: Vec<NodeId>,
    /// Only this step
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub step: Option<u32>,
    /// Output of this run [default: the newest]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// Only this attempt [default: the newest]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only the last N lines of each output
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "grouped")]
    pub tail: Option<u32>,
    /// Print the exact bytes of one output, for a file or a pipe; requires one --node
    #[arg(long, conflicts_with_all = ["grouped", "tail"], requires = "nodes")]
    pub raw: bool,
    /// With --raw: also to a terminal, which interprets control codes in the output
    #[arg(long, requires = "raw")]
    pub force: bool,
    /// Print identical outputs once, with the number of nodes that printed them
    #[arg(long, conflicts_with_all = ["nodes", "attempt"])]
    pub grouped: bool,
    /// With --grouped: list the nodes by name
    #[arg(long, requires = "grouped")]
    pub names: bool,
}
