//! Gives up what this process inherited from the one that started it: open descriptors, and the umask.
//!
//! A descriptor that a shell or a supervisor left open would reach every task of a worker, and keep a file or a socket of somebody
//! else's in use. Not here: what tasks get instead (`grid_worker`).

use rustix::fs::Mode;
use rustix::process::umask;

/// stdin, stdout and stderr.
const KEPT: i32 = 2;

/// Closes every descriptor but the three standard ones. Called first, while nothing else is open.
pub fn close_descriptors() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let inherited: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in inherited.into_iter().filter(|descriptor| *descriptor > KEPT) {
        // The one through which they were listed is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

/// Files that libraries create are readable by this user alone: the log, SQLite's companions.
pub fn close_new_files() {
    umask(Mode::RWXG | Mode::RWXO);
}
