//! Defines why a command failed, its message and its exit code.

use std::io;

use grid_types::api::FaultDoc;
use grid_types::visible::visible;
use grid_types::{Code, JobId, NodeId, Span};

use crate::text::{long_line, number, one_line};

/// What was asked for is done, and stdout did not take the answer: no other code may say so. EX_IOERR of sysexits.h.
pub const UNWRITTEN: u8 = 74;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] grid_client::Error),
    #[error("{message}{}", in_brackets(.hint.as_deref()))]
    Usage { message: String, hint: Option<String> },
    #[error("{what} is not valid: {}", in_one(.faults))]
    Invalid { what: String, faults: Vec<FaultDoc> },
    #[error("{0}")]
    NotFound(String),
    #[error("cannot write the answer")]
    Output(#[source] io::Error),
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    #[error("{job} has not ended after {after}")]
    WaitTimedOut { job: JobId, after: Span },
    #[error("{job} is cancelled, but {what} after {after}")]
    StillRuns { job: JobId, what: String, after: Span },
    #[error("{node} still has {} after {after}; it stays drained", number(*.leases as usize, "lease"))]
    StillBusy { node: NodeId, leases: u32, after: Span },
    #[error("interrupted; {job} goes on")]
    Interrupted { job: JobId },
    #[error("interrupted; {job} is cancelled nevertheless")]
    LeftCancelled { job: JobId },
}

impl Failure {
    pub fn usage(message: impl Into<String>, hint: Option<String>) -> Self {
        Self::Usage { message: message.into(), hint }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Client(error) => error.exit_code(),
            Self::Usage { .. } | Self::Invalid { .. } | Self::Runtime(_) => 2,
            Self::Output(_) => UNWRITTEN,
            Self::NotFound(_) => 4,
            Self::WaitTimedOut { .. } | Self::StillRuns { .. } | Self::StillBusy { .. } => 124,
            Self::Interrupted { .. } | Self::LeftCancelled { .. } => 130,
        }
    }

    /// The message with its faults and hint, for stderr.
    pub fn lines(&self) -> String {
        let (message, faults) = match self {
            Self::Usage { message, .. } => (message.clone(), &[][..]),
            Self::Invalid { what, faults } => (format!("{what} is not valid"), &faults[..]),
            Self::Client(grid_client::Error::Refused(refusal)) => match &refusal.details[..] {
                // A controller's message may already name its only fault, or all of them in one line.
                [only] if refusal.message.contains(&only.problem) => (refusal.to_string(), &[][..]),
                [first, ..] if refusal.message.contains(&first.problem) => {
                    (format!("{} ({})", number(refusal.details.len(), "fault"), refusal.word), &refusal.details[..])
                }
                details => (refusal.to_string(), details),
            },
            Self::Output(source) | Self::Runtime(source) => (format!("{self}: {source}"), &[][..]),
            _ => (self.to_string(), &[][..]),
        };
        let mut lines = format!("error: {}\n", long_line(&message));
        for fault in faults {
            let field = if fault.field.is_empty() { String::new() } else { format!("{}: ", one_line(&fault.field)) };
            // Only what was found here has further lines, which point at a character.
            let is_own = matches!(self, Self::Invalid { .. });
            let (problem, place) = fault.problem.split_once('\n').filter(|_| is_own).unwrap_or((&fault.problem, ""));
            lines.push_str(&format!("  {field}{}\n", long_line(problem)));
            place.lines().for_each(|line| lines.push_str(&format!("    {}\n", long_line(line))));
        }
        for hint in self.hints() {
            lines.push_str(&format!("hint: {}\n", visible(&hint)));
        }
        lines
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Usage { hint, .. } => hint.iter().cloned().collect(),
            Self::Client(error) => {
                let lost = error.maybe_done().then(|| {
                    "the answer was lost: it may have been done all the same; look with `gridc job list` before you \
                     repeat it"
                        .to_owned()
                });
                let address = matches!(error, grid_client::Error::Unreachable { .. })
                    .then(|| "name a controller with --server URL or GRID_SERVER; `grid dev` starts one".to_owned());
                let leaderless = (error.code() == Some(Code::NotLeader))
                    .then(|| "gridc cluster status shows which controllers answer, and how many must agree".to_owned());
                lost.into_iter().chain(address).chain(leaderless).collect()
            }
            Self::StillRuns { job, .. } | Self::LeftCancelled { job } => {
                vec![format!("gridc job why {job} says what it waits for")]
            }
            Self::WaitTimedOut { job, .. } | Self::Interrupted { job } => vec![
                format!("watch it again:   gridc job watch {job}"),
                format!("see its results:  gridc job status {job}"),
                format!("ask why it waits: gridc job why {job}"),
                format!("stop it:          gridc job cancel {job}"),
            ],
            Self::StillBusy { node, .. } => vec![
                "gridc job list --status running shows what may still run there".to_owned(),
                format!("gridc node drain {node} --wait goes on waiting"),
            ],
            Self::Invalid { .. } | Self::NotFound(_) | Self::Output(_) | Self::Runtime(_) => Vec::new(),
        }
    }
}

fn in_brackets(hint: Option<&str>) -> String {
    hint.map(|hint| format!(" ({hint})")).unwrap_or_default()
}

fn in_one(faults: &[FaultDoc]) -> String {
    let first_line = |problem: &str| problem.lines().next().unwrap_or_default().to_owned();
    faults.iter().map(|f| format!("{}: {}", f.field, first_line(&f.problem))).collect::<Vec<_>>().join("; ")
}
