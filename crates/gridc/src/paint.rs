//! Chooses colours: which there are, what they mean, and when they are used.
//!
//! `--color` decides; `auto` means on a terminal that is not dumb, unless `NO_COLOR` is set (no-color.org). Colours only repeat
//! what the words say: everything is readable without them.

use clap::ValueEnum;
use grid_types::{JobStatus, Outcome};

use crate::safe::Safe;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorWhen {
    /// How text for a stream looks.
    pub fn style(self, terminal: bool) -> Style {
        Style { terminal, colour: self.paints(terminal) }
    }

    /// Whether a stream is painted.
    pub fn paints(self, is_terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
                is_terminal && !refused && !dumb
            }
        }
    }
}

/// What the stream that text is written to shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// It is a terminal: lines are cut to its width, and control characters are made visible.
    pub terminal: bool,
    pub colour: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Bold,
    Good,
    Bad,
    /// Somebody has to do something, or wait.
    Waits,
    Busy,
    Faint,
}

impl Tone {
    pub fn of_job(status: JobStatus) -> Self {
        match status {
            JobStatus::Pending => Self::Plain,
            JobStatus::Running => Self::Busy,
            JobStatus::Completed => Self::Good,
            JobStatus::Failed => Self::Bad,
            JobStatus::Cancelled => Self::Waits,
        }
    }

    pub fn of_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Pending | Outcome::Skipped => Self::Faint,
            Outcome::Running => Self::Busy,
            Outcome::Success => Self::Good,
            Outcome::Cancelled => Self::Waits,
            Outcome::Failed | Outcome::TimedOut | Outcome::Unknown => Self::Bad,
        }
    }

    /// By the word that documents have for the state of a node.
    pub fn of_node(state: &str) -> Self {
        match state {
            "ready" => Self::Good,
            "warning" | "draining" => Self::Waits,
            "unhealthy" | "dead" => Self::Bad,
            _ => Self::Faint,
        }
    }

    /// A part of a line, with its colour if `colour`.
    pub fn paint(self, text: &str, colour: bool) -> Safe {
        let code = match self {
            Self::Plain => None,
            Self::Bold => Some(1),
            Self::Faint => Some(2),
            Self::Bad => Some(31),
            Self::Good => Some(32),
            Self::Waits => Some(33),
            Self::Busy => Some(36),
        };
        match code.filter(|_| colour) {
            Some(code) => Safe::painted(text, code),
            None => Safe::part(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ColorWhen, Tone};

    #[test]
    fn foreign_text_is_escaped_in_every_colour() {
        assert_eq!(Tone::Bad.paint("a\u{1b}[2J", true).as_str(), "\u{1b}[31ma\\u{1b}[2J\u{1b}[0m");
        assert_eq!(Tone::Bad.paint("a\u{1b}[2J", false).as_str(), "a\\u{1b}[2J");
        assert_eq!(Tone::Plain.paint("a", true).as_str(), "a");
    }

    #[test]
    fn a_pipe_is_painted_only_on_demand() {
        assert!(!ColorWhen::Auto.paints(false) && !ColorWhen::Never.paints(true) && ColorWhen::Always.paints(false));
    }
}
