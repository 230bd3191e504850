//! stdout and stderr of a benchmark: whether anybody reads them is not its concern, so errors are ignored.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// One line on stdout.
pub fn out(line: impl Display) {
    text(format_args!("{line}\n"));
}

/// On stdout as it is.
pub fn text(text: impl Display) {
    let mut stdout = stdout().lock();
    let _ = write!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// One line on stderr.
pub fn err(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}
