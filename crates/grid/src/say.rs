//! Prints everything that this program prints: data on stdout, logs and messages on stderr, both through an [`Outlet`].
//!
//! Lines may contain errors and outputs of other machines: control characters are made visible, never sent to a terminal
//! (`grid_types::visible`). An entry of the log is one line, whatever it contains; of control codes it keeps only colours.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::sync::LazyLock;
use std::time::Duration;

use grid_types::visible::{visible, visible_lines};

use crate::outlet::Outlet;

static STDOUT: LazyLock<Outlet> = LazyLock::new(Outlet::stdout);
static STDERR: LazyLock<Outlet> = LazyLock::new(Outlet::stderr);

/// Maximum length of one entry of the log; this program's own messages are shorter.
const MAX_ENTRY_BYTES: usize = 16 * 1024;

/// For lines that are still queued when the process ends; a stopped reader must not delay the exit.
const LAST_LINES: Duration = Duration::from_secs(1);

/// One line on stdout, for scripts that wait for it.
pub fn out(line: impl std::fmt::Display) {
    STDOUT.push(visible_lines(&format!("{line}\n")).as_bytes());
}

/// One line on stderr, for an operator.
pub fn err(line: impl std::fmt::Display) {
    STDERR.push(visible_lines(&format!("{line}\n")).as_bytes());
}

/// The writer of the log: one write is one entry.
pub fn log() -> Log {
    Log(STDERR.clone())
}

pub struct Log(Outlet);

impl Write for Log {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let shown = &entry[..entry.len().min(MAX_ENTRY_BYTES)];
        let mut line = log_line(&String::from_utf8_lossy(shown));
        if shown.len() < entry.len() {
            line.pop();
            line.push_str(&format!(" and {} more bytes\n", entry.len() - shown.len()));
        }
        self.0.push(line.as_bytes());
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes one line of an entry and keeps only colours of its control codes.
fn log_line(entry: &str) -> String {
    let mut line = String::with_capacity(entry.len() + 1);
    let mut rest = entry.strip_suffix('\n').unwrap_or(entry);
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, code) = rest.split_at(at);
        let end = 2 + code[2..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        let is_colour = code[end..].starts_with('m');
        let end = end + usize::from(is_colour);
        line.push_str(&visible(before));
        line.push_str(&if is_colour { code[..end].into() } else { visible(&code[..end]) });
        rest = &code[end..];
    }
    line.push_str(&visible(rest));
    line.push('\n');
    line
}

/// Called before the process ends.
pub fn flush() {
    STDOUT.flush(LAST_LINES);
    STDERR.flush(LAST_LINES);
}

/// Prints panics like all other messages: the default hook would wait for a reader of stderr.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        err(format_args!("thread {:?} {info}{trace}", thread.name().unwrap_or("unnamed")));
    }));
}

#[cfg(test)]
mod tests {
    use super::log_line;

    #[test]
    fn issue14_7_an_entry_of_the_log_is_one_line_that_cannot_touch_the_terminal() {
        for (entry, line) in [
            ("plain\n", "plain\n"),
            ("two\nlines\n", "two\\nlines\n"),
            (
                "\u{1b}[2m10:30\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m ready\n",
                "\u{1b}[2m10:30\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m ready\n",
            ),
            ("a\u{1b}[2Jb\u{1b}]0;c\u{7}\u{9b}\u{202e}", "a\\u{1b}[2Jb\\u{1b}]0;c\\u{7}\\u{9b}\\u{202e}\n"),
            ("\u{1b}[", "\\u{1b}[\n"),
            ("\u{1b}[1;31ü", "\\u{1b}[1;31ü\n"),
        ] {
            assert_eq!(log_line(entry), line);
        }
    }
}
