//! Everything that this program prints: data on stdout, logs and messages on stderr, both through an [`Outlet`].

use std::backtrace::{Backtrace, BacktraceStatus};
use std::sync::LazyLock;
use std::time::Duration;

use crate::outlet::Outlet;

static STDOUT: LazyLock<Outlet> = LazyLock::new(Outlet::stdout);
static STDERR: LazyLock<Outlet> = LazyLock::new(Outlet::stderr);

/// For what is still queued when the process ends; a reader that has stopped must not keep it.
const LAST_LINES: Duration = Duration::from_secs(1);

/// One line on stdout, for scripts that wait for it.
pub fn out(line: impl std::fmt::Display) {
    STDOUT.push(format!("{line}\n").as_bytes());
}

/// One line on stderr, for an operator.
pub fn err(line: impl std::fmt::Display) {
    STDERR.push(format!("{line}\n").as_bytes());
}

/// The writer of the log.
pub fn log() -> Outlet {
    STDERR.clone()
}

/// Before the process ends.
pub fn flush() {
    STDOUT.flush(LAST_LINES);
    STDERR.flush(LAST_LINES);
}

/// Panics are told as everything else is: the default hook would wait for a reader of stderr.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        err(format_args!("thread {:?} {info}{trace}", thread.name().unwrap_or("unnamed")));
    }));
}
