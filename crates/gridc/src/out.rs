//! stdout: data, in the format that was asked for.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::cli::Format;
use crate::failure::Failure;

/// Prints a document as JSON or YAML, or `table` of it.
pub fn print(format: Format, document: &impl Serialize, table: impl FnOnce(bool) -> String) -> Result<(), Failure> {
    let text = match format {
        Format::Json => {
            serde_json::to_string_pretty(document).map_err(io::Error::from).map_err(Failure::Output)? + "\n"
        }
        Format::Yaml => serde_norway::to_string(document).map_err(|e| Failure::Output(io::Error::other(e)))?,
        Format::Table => table(io::stdout().is_terminal()),
    };
    write(text.as_bytes()).map(drop)
}

/// False: the reader (`| head`) has seen enough.
pub fn write(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true).map_err(Failure::Output),
    }
}

/// A line for the person at the terminal.
pub fn tell(line: &str) {
    // Nobody is left to be told if stderr is gone.
    let _ = writeln!(io::stderr(), "{line}");
}
