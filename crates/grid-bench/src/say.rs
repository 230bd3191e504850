//! Prints to stdout and stderr. Errors are ignored: a benchmark does not depend on its readers.
//! Lines may contain messages of the measured servers: control characters are made visible, never sent to a terminal.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

use grid_types::visible::visible_lines;

/// One line on stdout.
pub fn out(line: impl Display) {
    text(format_args!("{line}\n"));
}

/// Prints to stdout unchanged.
pub fn text(text: impl Display) {
    let mut stdout = stdout().lock();
    let text = visible_lines(&text.to_string()).into_owned();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// One line on stderr.
pub fn err(line: impl Display) {
    let _ = stderr().write_all(visible_lines(&format!("{line}\n")).as_bytes());
}
