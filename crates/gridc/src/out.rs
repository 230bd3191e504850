//! Writes to stdout and stderr: the only module that does.
//!
//! stdout is data, in the format that was asked for; stderr is for the person at the terminal. Both take [`Safe`] text only;
//! the bytes of [`raw`] are the exception.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use terminal_size::{Height, Width, terminal_size_of};

use crate::cli::Format;
use crate::failure::Failure;
use crate::safe::Safe;

/// Prints a document as JSON or YAML, or `table` of it.
pub fn print<T: Into<Safe>>(
    format: Format,
    document: &impl Serialize,
    table: impl FnOnce(bool) -> T,
) -> Result<(), Failure> {
    let text = match format {
        Format::Json => Safe::json_pretty(document).map_err(Failure::Output)?,
        Format::Yaml => Safe::yaml(document).map_err(Failure::Output)?,
        Format::Table => table(is_terminal()).into(),
    };
    write(&text).map(drop)
}

/// One of many documents: a line of JSON, a document of YAML, or its line of a table.
pub fn record(format: Format, document: &impl Serialize, line: impl FnOnce() -> Safe) -> Result<bool, Failure> {
    let text = match format {
        Format::Json => Safe::json(document).map_err(Failure::Output)?,
        Format::Yaml => {
            let mut text = Safe::lines("---\n");
            text.push(&Safe::yaml(document).map_err(Failure::Output)?);
            text
        }
        Format::Table => line(),
    };
    write(&text)
}

/// False: the reader (`| head`) has seen enough.
pub fn write(text: &Safe) -> Result<bool, Failure> {
    bytes(text.as_str().as_bytes())
}

/// Bytes as they are. A terminal would obey them, so that it gets them only by force.
pub fn raw(piece: &[u8], force: bool) -> Result<bool, Failure> {
    if is_terminal() && !force {
        return Err(refuse_raw());
    }
    bytes(piece)
}

pub fn refuse_raw() -> Failure {
    Failure::usage(
        "--raw prints bytes as they are, and a terminal obeys those that are control codes",
        Some("write them to a file or a pipe; --force prints them here all the same".to_owned()),
    )
}

fn bytes(piece: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(piece).and_then(|()| stdout.flush()))
}

/// A reader that has seen enough is no error.
fn written(done: io::Result<()>) -> Result<bool, Failure> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true).map_err(Failure::Output),
    }
}

/// Prints a failure on stderr and returns the exit code.
pub fn report(failure: &Failure) -> u8 {
    warn(&Safe::lines(&failure.lines()));
    failure.exit_code()
}

/// What clap has to say: help and version on stdout, faults of the command line on stderr.
pub fn usage(error: &clap::Error) -> Result<u8, Failure> {
    let text = error.render().to_string();
    if error.use_stderr() {
        // Its colours are lost only if a word of the command line would touch the terminal.
        if Safe::lines(&text).as_str() == text {
            let _ = error.print();
        } else {
            warn(&Safe::lines(&text));
        }
    } else {
        written(error.print().and_then(|()| io::stdout().flush()))?;
    }
    Ok(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Whether stdout is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// How wide the terminal of stdout is.
pub fn columns() -> Option<usize> {
    let stdout = io::stdout();
    let (Width(columns), Height(_)) = terminal_size_of(&stdout).filter(|_| stdout.is_terminal())?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Resolves when nobody can read stdout any more: what follows something would otherwise notice only with its next line.
pub async fn reader_gone() {
    let (gone, heard) = tokio::sync::oneshot::channel();
    if let Ok(stdout) = io::stdout().as_fd().try_clone_to_owned() {
        // Ends with the process, or when nobody can read any more; `gone` says which.
        let _watcher = std::thread::spawn(move || {
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            while matches!(poll(&mut watched, None), Err(rustix::io::Errno::INTR)) {}
            if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
                let _ = gone.send(());
            }
        });
    }
    if heard.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A line for the person at the terminal.
pub fn tell(line: &str) {
    warn(&Safe::line(line));
}

/// Of a list that was cut at its limit.
pub fn tell_more(shown: usize) {
    tell(&format!("hint: only the newest {shown} are shown; --limit N shows more"));
}

/// Whole lines for the person at the terminal.
pub fn warn(lines: &Safe) {
    Sink::stderr().put(lines);
}

/// Where progress goes: stderr, or what a test reads.
pub struct Sink(Box<dyn Write + Send>);

impl Sink {
    pub fn stderr() -> Self {
        Self(Box::new(io::stderr()))
    }

    #[cfg(test)]
    pub fn to(to: impl Write + Send + 'static) -> Self {
        Self(Box::new(to))
    }

    pub fn put(&mut self, text: &Safe) {
        // If stderr is gone, too, only the exit code is left.
        let _ = self.0.write_all(text.as_str().as_bytes()).and_then(|()| self.0.flush());
    }
}

/// Columns and rows of the terminal of stderr, if it is one.
pub fn stderr_size() -> Option<(usize, usize)> {
    let stderr = io::stderr();
    let (Width(columns), Height(rows)) = terminal_size_of(&stderr).filter(|_| stderr.is_terminal())?;
    Some((usize::from(columns), usize::from(rows)))
}

/// Whether stderr is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// A new command cannot forget to escape what it prints: only this module knows stdout and stderr.
    #[test]
    fn issue14_7_nothing_else_writes_to_a_terminal() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut looked = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("src/out.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for word in ["io::stdout", "io::stderr", "print!(", "println!(", "dbg!("] {
                        assert!(!text.contains(word), "{} uses {word}", path.display());
                    }
                    looked += 1;
                }
            }
        }
        assert!(looked > 30, "{looked}");
    }
}
