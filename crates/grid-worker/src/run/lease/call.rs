//! Describes a program that a backend runs, and how it ended.
//!
//! The end of its own output is kept beside the lease's, so that an error can say why and not only that. The two
//! outputs of a program are one stream here: nobody could order them otherwise.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::seams::Exit;

/// Enough for what a program says at its end.
const SAID_BYTES: usize = 4 * 1024;
const LINES_QUOTED: usize = 3;

/// What to run. Never a shell string: arguments reach the program as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub program: String,
    pub args: Vec<String>,
    /// On top of what every program of this worker gets; overrides it.
    pub env: Vec<(String, String)>,
    /// Where it works; without one, in the lease's own folder.
    pub folder: Option<PathBuf>,
    /// What it reads; without it, nothing.
    pub stdin: Option<String>,
}

impl Call {
    pub fn new<A: Into<String>>(program: &str, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: program.to_owned(), args, env: Vec::new(), folder: None, stdin: None }
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its name, without the folder.
    pub program: String,
    pub exit: Exit,
    /// The end of what it printed; empty if it succeeded.
    pub said: String,
}

impl Finished {
    pub(super) fn new(program: &str, exit: Exit, said: String) -> Self {
        let name = Path::new(program).file_name().map_or(program.into(), std::ffi::OsStr::to_string_lossy);
        Self { program: name.into_owned(), exit, said }
    }

    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.exit == Exit::Code(0)
    }

    /// Anything but exit code 0 as an error: `apt-get install: exit 100: E: Unable to locate package nope`.
    ///
    /// # Errors
    /// `verb` (may be empty), the exit code, and the last lines it printed.
    pub fn success(&self, verb: &str) -> Result<(), String> {
        self.one_of(&[0], verb)
    }

    /// Any other exit code than these as an error.
    ///
    /// # Errors
    /// As of [`Finished::success`].
    pub fn one_of(&self, codes: &[i64], verb: &str) -> Result<(), String> {
        let what = if verb.is_empty() { self.program.clone() } else { format!("{} {verb}", self.program) };
        let end = match self.exit {
            Exit::Code(code) if codes.contains(&code.into()) => return Ok(()),
            Exit::Code(code) => format!("{what}: exit {code}"),
            Exit::Signal(signal) => format!("{what}: killed by signal {signal}"),
        };
        let why = self.why();
        Err(if why.is_empty() { end } else { format!("{end}: {why}") })
    }

    /// Lines that call themselves errors as apt's do, else the last ones.
    fn why(&self) -> String {
        let lines = || self.said.lines().map(str::trim).filter(|line| !line.is_empty());
        let errors: Vec<_> = lines().filter(|line| line.starts_with("E: ")).collect();
        let mut told = if errors.is_empty() { lines().collect() } else { errors };
        told.dedup();
        told[told.len().saturating_sub(LINES_QUOTED)..].join("; ")
    }
}

/// The end of what a running program has said so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Said(Arc<Mutex<VecDeque<u8>>>);

impl Said {
    pub(super) fn write(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&bytes[bytes.len().saturating_sub(SAID_BYTES)..]);
        let excess = kept.len().saturating_sub(SAID_BYTES);
        kept.drain(..excess);
    }

    pub(super) fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Finished, SAID_BYTES, Said};
    use crate::seams::Exit;

    #[test]
    fn an_error_names_program_code_and_what_it_said_last() {
        let ended = |code, said: &str| Finished::new("/usr/bin/apt-get", Exit::Code(code), said.to_owned());
        assert_eq!(ended(0, "").success("install"), Ok(()));
        assert_eq!(
            ended(100, "Reading state...\nE: Unable to locate package nope\n\n").success("install"),
            Err("apt-get install: exit 100: E: Unable to locate package nope".to_owned())
        );
        assert_eq!(ended(1, "a\nb\n\nc\nd\nd\n").success(""), Err("apt-get: exit 1: b; c; d".to_owned()));
        assert_eq!(ended(1, "").success("x"), Err("apt-get x: exit 1".to_owned()));
        let killed = Finished::new("sleep", Exit::Signal(9), String::new());
        assert_eq!(killed.success(""), Err("sleep: killed by signal 9".to_owned()));
    }

    #[test]
    fn only_the_end_is_kept() {
        let said = Said::default();
        said.write(&vec![b'x'; 3 * SAID_BYTES]);
        said.write(b"end");
        assert_eq!(said.text().len(), SAID_BYTES);
        assert!(said.text().ends_with("xend"));
    }
}
