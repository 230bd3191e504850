//! stdout: data, in the format that was asked for.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
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

/// Resolves when nobody can read stdout any more: what follows something would otherwise notice only with its next line.
pub async fn reader_gone() {
    let (gone, heard) = tokio::sync::oneshot::channel();
    if let Ok(stdout) = io::stdout().as_fd().try_clone_to_owned() {
        // Ends with the process.
        std::thread::spawn(move || {
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
    // Nobody is left to be told if stderr is gone.
    let _ = writeln!(io::stderr(), "{line}");
}
