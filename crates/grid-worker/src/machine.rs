//! Implements the seams on the real machine: files, randomness, clock, processes, and what it says of itself.
//!
//! [`host`] puts its parts behind the traits of `seams`. Nothing else in this crate draws randomness, opens the journal's files or
//! starts a process; `seams` says what is not behind a trait.
//! Not here: which files a worker keeps (`data_dir`), when programs are started (`run`).

mod directory;
mod disk;
pub(crate) mod hardware;
mod processes;
mod programs;
mod random;
pub(crate) mod space;

use std::sync::Arc;

use grid_types::clock::SystemClock;

pub use directory::HttpDirectory;
pub use disk::FileDisk;
pub(crate) use disk::write_whole;
pub use processes::SystemProcesses;
pub(crate) use programs::locate;
pub use random::SystemRandom;

use crate::seams::Host;

/// This machine.
#[must_use]
pub fn host() -> Host {
    Host {
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SystemRandom),
        processes: Arc::new(SystemProcesses::new()),
        disk: Arc::new(|path| Box::new(FileDisk::new(path))),
    }
}

pub(crate) fn hostname() -> String {
    sysinfo::System::host_name().unwrap_or_else(|_| "unknown".to_owned())
}
