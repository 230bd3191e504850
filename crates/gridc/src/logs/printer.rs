//! Lines of many nodes, each with its place in front.
//!
//! A line that is not finished stays open while the same output goes on, and is ended when another has something to say:
//! so lines are never mixed, and a long one of a single node stays one. Control characters go to a terminal as text only;
//! a pipe gets what was printed.

use std::hash::{DefaultHasher, Hash, Hasher};

use grid_types::api::LogText;

use crate::paint::Style;
use crate::safe::Safe;
use crate::text::one_line;

/// Longer names push their own lines to the right, not everybody's.
const WIDEST: usize = 24;
/// Of ANSI: no black, no white, no red, which looks like an error.
const COLOURS: [u8; 5] = [32, 33, 34, 35, 36];

pub struct Printer {
    width: usize,
    many_steps: bool,
    style: Style,
    /// Whose line is not finished.
    open: Option<String>,
}

impl Printer {
    /// For the outputs of so many steps.
    pub fn new(nodes: &[String], steps: usize, style: Style) -> Self {
        let many_steps = steps > 1;
        let name = nodes.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(WIDEST);
        let width = name + if many_steps { 2 } else { 0 };
        Self { width, many_steps, style, open: None }
    }

    /// `web-01`, or `web-01/2` in a job of several steps.
    pub fn place(&self, step: u32, node: &str) -> String {
        let node = one_line(node);
        if self.many_steps { format!("{node}/{step}") } else { node }
    }

    pub fn text(&mut self, record: &LogText) -> Safe {
        let place = self.place(record.step, &record.node);
        let goes_on = self.open.as_ref() == Some(&place);
        let mut text = if goes_on { Safe::default() } else { self.close() };
        self.open = None;
        for (i, line) in record.text.split_inclusive('\n').enumerate() {
            if i > 0 || !goes_on {
                text.push(&self.prefix(&place));
            }
            text.push(&self.line(line.strip_suffix('\n').unwrap_or(line)));
            if line.ends_with('\n') {
                text.push(&Safe::code("\n"));
            } else {
                self.open = Some(place.clone());
            }
        }
        text
    }

    /// Ends a line that is not finished.
    pub fn close(&mut self) -> Safe {
        if self.open.take().is_some() { Safe::code("\n") } else { Safe::default() }
    }

    fn prefix(&mut self, place: &str) -> Safe {
        // The names of a large job, or of one that has not started, are not known before.
        self.width = self.width.max(place.chars().count().min(WIDEST));
        let padded = format!("{place:<width$}", width = self.width);
        if !self.style.colour {
            return Safe::part(&format!("{padded} | "));
        }
        let mut hasher = DefaultHasher::new();
        place.split('/').next().hash(&mut hasher);
        let colour = COLOURS[usize::try_from(hasher.finish() % COLOURS.len() as u64).unwrap_or(0)];
        let mut prefix = Safe::painted(&format!("{padded} |"), colour);
        prefix.push(&Safe::part(" "));
        prefix
    }

    fn line(&self, line: &str) -> Safe {
        // What Windows tools print at the end of each line.
        Safe::printed(line.strip_suffix('\r').unwrap_or(line), self.style.terminal)
    }
}

#[cfg(test)]
mod tests {
    use super::Printer;
    use crate::paint::Style;
    use grid_types::api::LogText;

    fn record(node: &str, step: u32, text: &str) -> LogText {
        LogText {
            step,
            node: node.to_owned(),
            epoch: 1,
            attempt: 1,
            run: 0,
            offset: 0,
            next: text.len() as u64,
            text: text.to_owned(),
            partial: !text.ends_with('\n'),
        }
    }

    fn nodes() -> Vec<String> {
        vec!["db-1".to_owned(), "web-01".to_owned()]
    }

    #[test]
    fn names_are_aligned_and_lines_are_never_mixed() {
        let mut printer = Printer::new(&nodes(), 1, Style::default());
        let mut text = printer.text(&record("web-01", 0, "one\ntwo\nhal"));
        text.push(&printer.text(&record("web-01", 0, "f\n")));
        text.push(&printer.text(&record("web-01", 0, "open")));
        text.push(&printer.text(&record("db-1", 0, "\nlast")));
        text.push(&printer.close());
        text.push(&printer.close());
        let want = "web-01 | one\nweb-01 | two\nweb-01 | half\nweb-01 | open\ndb-1   | \ndb-1   | last\n";
        assert_eq!(text.as_str(), want);
    }

    #[test]
    fn steps_are_told_where_there_are_several_and_colours_only_if_wanted() {
        let mut printer = Printer::new(&nodes(), 2, Style { terminal: true, colour: true });
        let text = printer.text(&record("db-1", 1, "x\n"));
        let text = text.as_str();
        assert!(
            text.starts_with("\x1b[3") && text.contains("m") && text.ends_with("db-1/1   |\x1b[0m x\n"),
            "{text:?}"
        );
    }

    #[test]
    fn what_a_task_prints_cannot_touch_the_terminal() {
        let shown = |terminal| {
            let style = Style { terminal, colour: false };
            Printer::new(&nodes(), 1, style).text(&record("db-1", 0, "a\x1b[2J\tb\r\n"))
        };
        assert_eq!(shown(true).as_str(), "db-1   | a\\u{1b}[2J\tb\n");
        assert_eq!(shown(false).as_str(), "db-1   | a\x1b[2J\tb\n");
    }
}
