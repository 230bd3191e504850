//! The live view of a job: bars on a terminal, plain lines anywhere else. Always on stderr.

mod bars;
mod lines;

use std::io::IsTerminal;

use grid_types::api::JobDoc;

use bars::Bars;
use lines::Lines;

/// Shows a job while somebody waits for it.
pub trait LiveView {
    /// Shows how it stands; called at every look, changed or not.
    fn show(&mut self, job: &JobDoc);
    /// Adds a line that stays, like a failure.
    fn tell(&mut self, line: &str);
    /// Leaves a tidy terminal; nothing more will be shown.
    fn close(&mut self);
}

/// The view that fits stderr.
#[must_use]
pub fn live_view() -> Box<dyn LiveView + Send> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if std::io::stderr().is_terminal() && !dumb {
        Box::new(Bars::new())
    } else {
        Box::new(Lines::new(Box::new(std::io::stderr())))
    }
}
