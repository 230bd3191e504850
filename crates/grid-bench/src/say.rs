//! stdout and stderr of a benchmark: whether anybody reads them is not its concern, so errors are ignored.
//! Messages of the servers that are measured are in it: control characters are shown, never sent to a terminal.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

use grid_types::visible::visible_lines;

/// One line on stdout.
pub fn out(line: impl Display) {
    text(format_args!("{line}\n"));
}

/// On stdout as it is.
pub fn text(text: impl Display) {
    let mut stdout = stdout().lock();
    let text = visible_lines(&text.to_string()).into_owned();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// One line on stderr.
pub fn err(line: impl Display) {
    let _ = stderr().write_all(visible_lines(&format!("{line}\n")).as_bytes());
}
