//! How many files this process may open: as many as the machine allows, instead of the 1,024 that shells hand out.
//!
//! A controller has a socket for each worker and each client. The soft limit exists for programs that use `select`; none
//! of this does.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Fewer than this are too few for a fleet worth the name; who has less is told before sockets run out.
const FEW: u64 = 4_096;

/// Raises the soft limit to the hard one. Where that is refused the process starts all the same, with what it has.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(current = ?limit.current, "the limit of open files cannot be raised: {error}");
    }
    if let Some(few) = getrlimit(Resource::Nofile).current.filter(|current| *current < FEW) {
        tracing::warn!(
            "this process may open {few} files, and needs one for each worker and client; raise the hard limit (ulimit -Hn, \
             or LimitNOFILE= of a systemd unit)"
        );
    }
}
