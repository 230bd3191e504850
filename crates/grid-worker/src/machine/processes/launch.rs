//! Sets what a program gets from the worker's process beside its arguments: a umask of 022, and no ignored signals.
//!
//! Both are inherited over `exec`, and nothing in safe code changes them between `fork` and `exec`. So they are arranged
//! before: the umask in a thread that has one of its own (`unshare(CLONE_FS)`), because the worker's own files want 077; and a
//! signal that this process ignores gets a handler that does nothing, which the kernel resets for a program where it
//! would keep "ignored". The standard library does the same for SIGPIPE and the signal mask.

use std::sync::Mutex;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::Mode;
use rustix::process::umask;
use tokio::signal::unix::{SignalKind, signal};

/// What packages and their scripts expect.
const UMASK: u32 = 0o022;

/// Calls `launch`, which starts a process, so that this process has the umask of tasks.
pub(super) fn with_task_umask<T: Send>(launch: impl FnOnce() -> T + Send) -> std::thread::Result<T> {
    std::thread::scope(|scope| scope.spawn(|| in_own_thread(launch)).join())
}

fn in_own_thread<T>(launch: impl FnOnce() -> T) -> T {
    if unshare(CloneFlags::CLONE_FS).is_ok() {
        umask(Mode::from_raw_mode(UMASK));
        return launch();
    }
    with_umask_of_all_threads(launch)
}

/// Where a container does not allow `unshare`: a file that a library creates at this moment is readable for others, in a folder that
/// they cannot enter, until the next start.
fn with_umask_of_all_threads<T>(launch: impl FnOnce() -> T) -> T {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let own = umask(Mode::from_raw_mode(UMASK));
    let launched = launch();
    umask(own);
    launched
}

/// Signals that this process was started to ignore (`nohup`, a shell's background job) end the programs of leases as usual.
/// Called inside a tokio runtime.
pub(super) fn stop_ignoring_signals() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for number in ignored(&status) {
        // Refused for those that no handler can have.
        if let Err(error) = signal(SignalKind::from_raw(number)) {
            tracing::debug!(number, "programs of leases ignore this signal: {error}");
        }
    }
}

/// Standard signals only, without SIGPIPE.
fn ignored(status: &str) -> Vec<i32> {
    const SIGPIPE: i32 = 13;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    (1..32).filter(|number| *number != SIGPIPE && mask >> (number - 1) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::{ignored, with_task_umask, with_umask_of_all_threads};

    fn umask_now() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap().trim().to_owned()
    }

    #[test]
    fn issue14_8_the_umask_of_tasks_is_not_the_workers() {
        let own = umask_now();
        assert_eq!(with_task_umask(umask_now).unwrap(), "0022");
        assert_eq!(with_umask_of_all_threads(umask_now), "0022");
        assert_eq!(umask_now(), own);
    }

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        assert_eq!(ignored("Name:\tgrid\nSigIgn:\t0000000000001007\n"), [1, 2, 3]);
        assert_eq!(ignored("SigIgn:\t0000000000000000\n"), [] as [i32; 0]);
        assert_eq!(ignored(""), [] as [i32; 0]);
    }
}
