//! The lines on stdout that scripts wait for.

use std::io::Write;

/// One line, flushed: whoever reads a pipe must not wait for a full buffer. A closed stdout is nobody's problem.
pub fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
