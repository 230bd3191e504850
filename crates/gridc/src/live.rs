//! Shows a job live: a frame that is drawn over on a terminal, plain lines anywhere else. Always on stderr.
//!
//! Not here: when to look at the job (`watch`), the summary at its end (`summary`).

mod frame;
mod lines;
mod screen;

use std::time::Duration;

use grid_types::Outcome;
use grid_types::api::JobDoc;

use crate::out::{self, Sink};
use crate::paint::ColorWhen;
use crate::text::count;
use lines::Lines;
use screen::Screen;

/// Failures that are printed one by one; more are only counted.
pub const MAX_LISTED: usize = 50;

/// The status of a job at one look.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub job: &'a JobDoc,
    /// Which nodes still run a step, the longest first; empty if there are too many to ask.
    pub running: &'a [Running],
    /// What it is waiting for, if it makes no progress.
    pub why: Option<&'a str>,
    /// How long its run has taken so far, or took.
    pub elapsed: Duration,
}

/// A node that is at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub node: String,
    pub step: u32,
    pub for_long: Duration,
}

/// Whether the job has ended and nothing of it runs any more.
pub fn is_quiet(doc: &JobDoc) -> bool {
    doc.status.is_ended() && count(&doc.counts, Outcome::Running) == 0
}

/// Shows a job while somebody waits for it.
pub trait LiveView {
    /// Shows the status; called at every look, changed or not.
    fn show(&mut self, look: &Look<'_>);
    /// A node failed, as a line.
    fn failed(&mut self, line: &str);
    /// No controller answers, as a line.
    fn silence(&mut self, line: &str);
    /// Time passes between two looks.
    fn tick(&mut self);
    /// Leaves a tidy terminal; nothing more will be shown.
    fn close(&mut self);
}

/// Lines, also on a terminal: for when something else is printed there.
pub fn plain_view() -> Box<dyn LiveView + Send> {
    Box::new(Lines::new(Sink::stderr()))
}

/// The view that fits stderr.
#[must_use]
pub fn live_view() -> Box<dyn LiveView + Send> {
    view_in(ColorWhen::Auto)
}

/// The same, in colours as asked for.
pub fn view_in(color: ColorWhen) -> Box<dyn LiveView + Send> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if out::stderr_is_terminal() && !dumb {
        Box::new(Screen::on_stderr(color.paints(true)))
    } else {
        Box::new(Lines::new(Sink::stderr()))
    }
}
