//! The options of `gridc job logs`.

use clap::Args;
use grid_types::NodeId;

pub const EXAMPLES: &str = "\
Each line has the name of its node in front, and the number of the step if there are several.
Without -f one output follows the other; with -f lines come as they are printed, in turns, until
the job has ended. Whole outputs are kept on the workers; if one is away, or its output is too old,
the stored end of it (16 KiB) is shown and stderr says so. Bytes that are no text are shown as a
marker. Control characters are shown as escapes on a terminal and printed as they are on a pipe; --raw
prints the bytes of one output as they are, to a terminal only with --force.

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
    /// Stay until the job has ended and show what it prints
    #[arg(short, long, conflicts_with = "grouped")]
    pub follow: bool,
    /// Only these nodes
    #[arg(long = "node", value_name = "NAME", value_delimiter = ',')]
    pub nodes: Vec<NodeId>,
    /// Only this step
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub step: Option<u32>,
    /// What this run printed [default: the newest]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// Only this attempt [default: the newest]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Of each output only the last so many lines
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "grouped")]
    pub tail: Option<u32>,
    /// The bytes of one output as they are, for a file or a pipe; needs one --node
    #[arg(long, conflicts_with_all = ["grouped", "tail"], requires = "nodes")]
    pub raw: bool,
    /// With --raw: also to a terminal, which obeys the control codes in the bytes
    #[arg(long, requires = "raw")]
    pub force: bool,
    /// Equal outputs once, with how many nodes printed them
    #[arg(long, conflicts_with_all = ["nodes", "attempt"])]
    pub grouped: bool,
    /// With --grouped: every node by name
    #[arg(long, requires = "grouped")]
    pub names: bool,
}
