//! Drops what this process inherited from its parent: open descriptors and the umask.
//!
//! A descriptor that a shell or a supervisor left open would be inherited by every task of a worker, and keep a foreign file or
//! socket in use. Not here: what tasks inherit (`grid_worker`).

use rustix::fs::Mode;
use rustix::process::umask;

/// stdin, stdout and stderr.
const KEPT: i32 = 2;

/// Closes every descriptor except the three standard ones. Called first, while nothing else is open.
pub fn close_descriptors() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let inherited: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in inherited.into_iter().filter(|descriptor| *descriptor > KEPT) {
        // The descriptor of the listing itself is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

/// Sets the umask so that files which libraries create (the log, SQLite's companion files) are readable by this user alone.
pub fn close_new_files() {
    umask(Mode::RWXG | Mode::RWXO);
}
