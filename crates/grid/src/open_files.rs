//! Raises the limit of open files to what the machine allows, instead of the 1,024 that shells set, and divides it between
//! listeners.
//!
//! A controller has a socket for each worker and each client. The soft limit exists for programs that use `select`, which Grid
//! does not use.
//! The log, the store, snapshots and connections to other controllers keep a reserve that clients cannot use: without it the
//! next snapshot or the next write would fail.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this limit a fleet of ordinary size does not fit; a warning at start says so before sockets run out.
const FEW: u64 = 4_096;
/// The log, the store with its readers, two snapshots and a backup at once, other controllers, and the runtime.
const RESERVE: u64 = 128;
const MOST_CLIENTS: u64 = 8_192;
const MOST_CONTROLLERS: u64 = 256;
/// Where the machine sets no limit.
const UNLIMITED: u64 = 1 << 20;

/// How many connections each listener may have at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    pub clients: usize,
    pub workers: usize,
    pub controllers: usize,
}

/// Raises the soft limit to the hard one. If that is refused the process starts with the limit that it has.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(current = ?limit.current, "cannot raise the limit of open files: {error}");
    }
    if let Some(few) = getrlimit(Resource::Nofile).current.filter(|current| *current < FEW) {
        tracing::warn!(
            "this process may open {few} files, and needs one for each worker and client; raise the hard limit (ulimit -Hn, \
             or LimitNOFILE= of a systemd unit)"
        );
    }
}

/// The number of files left for connections when other parts of this process use `others`.
pub fn connections(others: u64) -> Connections {
    share(getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED), others)
}

fn share(limit: u64, others: u64) -> Connections {
    let reserve = RESERVE.min(limit / 2).saturating_add(others);
    let left = limit.saturating_sub(reserve).max(16);
    let controllers = (left / 8).clamp(4, MOST_CONTROLLERS);
    let clients = (left / 4).clamp(4, MOST_CLIENTS);
    let workers = left.saturating_sub(controllers + clients).max(4);
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Connections { clients: number(clients), workers: number(workers), controllers: number(controllers) }
}

#[cfg(test)]
mod tests {
    use super::{Connections, RESERVE, share};

    #[test]
    fn issue13_connections_leave_a_reserve_of_open_files() {
        for limit in [64, 256, 1_024, 4_096, 20_000, 1 << 20] {
            let Connections { clients, workers, controllers } = share(limit, 0);
            let taken = (clients + workers + controllers) as u64;
            assert!(taken + RESERVE.min(limit / 2) <= limit, "{limit}: {taken}");
        }
        assert!(share(16_384, 0).workers >= 10_000, "a fleet of ten thousand fits where it is allowed to");
        assert_eq!(share(1 << 20, 0).clients, 8_192);
        assert!(share(1_024, 800).workers >= 4, "whatever else is in use, some connections are accepted");
    }
}
