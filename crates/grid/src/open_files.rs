//! How many files this process may open: as many as the machine allows, instead of the 1,024 that shells hand out.
//!
//! A controller has a socket for each worker and each client. The soft limit exists for programs that use `select`; none
//! of this does.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. Where that is refused the process starts all the same, with what it has.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(current = ?limit.current, "the limit of open files cannot be raised: {error}");
    }
}
