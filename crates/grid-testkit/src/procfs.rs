//! Lists living processes from `/proc`.
//!
//! A process is (pid, start time), so that a reused pid is never taken for the watched process. A zombie counts as dead: it
//! runs nothing, and when it is reaped depends on the machine's init.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// One process, as seen once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub pid: u32,
    /// Clock ticks from the machine's boot to this process's start.
    pub started_ticks: u64,
    pub command: String,
}

impl Seen {
    /// Whether this same process still runs.
    pub fn alive(&self) -> bool {
        stat(self.pid).is_some_and(|s| s.started_ticks == self.started_ticks && !s.zombie)
    }

    /// Its command line; empty when it is gone.
    pub fn arguments(&self) -> Vec<String> {
        let words = fs::read_to_string(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        words.split_terminator('\0').map(str::to_owned).collect()
    }

    /// SIGKILL, if it is still the same process.
    pub fn kill9(&self) {
        if self.alive() {
            signal(self.pid, Signal::KILL);
        }
    }
}

/// Every living process below `pid`, children of children included, itself not.
pub fn descendants(pid: u32) -> Vec<Seen> {
    let all = everybody();
    let mut below: Vec<u32> = vec![pid];
    let mut found = Vec::new();
    let mut at = 0;
    while at < below.len() {
        let parent = below[at];
        at += 1;
        for (seen, ppid) in &all {
            if *ppid == parent && !below.contains(&seen.pid) {
                below.push(seen.pid);
                found.push(seen.clone());
            }
        }
    }
    found
}

/// Every living process whose command line, environment, working folder or open
/// files name `marker`: typically a test's own temp folder. The caller's process
/// is left out.
pub fn marked(marker: &str) -> Vec<Seen> {
    let own = std::process::id();
    let mut found: Vec<Seen> = everybody().into_iter().map(|(seen, _)| seen).collect();
    found.retain(|seen| seen.pid != own && names(seen.pid, marker));
    found
}

/// Those of `watched` that still run.
pub fn survivors(watched: &[Seen]) -> Vec<Seen> {
    watched.iter().filter(|seen| seen.alive()).cloned().collect()
}

/// The peak memory of a process: `VmHWM`.
///
/// # Panics
/// When there is no such process.
pub fn peak_memory_kib(pid: u32) -> u64 {
    memory(pid, "VmHWM:").unwrap_or_else(|| panic!("process {pid} shows no memory"))
}

/// The current memory of a process; `None` when it has ended.
pub fn memory_kib(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

fn memory(pid: u32, row: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(row))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// SIGTERM to a process that the test started itself.
pub fn terminate(pid: u32) {
    signal(pid, Signal::TERM);
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The only remaining error is that the process has ended, which is what callers want.
        let _ = kill_process(pid, signal);
    }
}

struct Stat {
    command: String,
    zombie: bool,
    ppid: u32,
    started_ticks: u64,
}

/// `pid (command) state ppid …`, start time is field 22; a command may contain anything, `)` too.
fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    Some(Stat {
        command: head.split_once('(')?.1.to_owned(),
        zombie: matches!(*fields.first()?, "Z" | "X"),
        ppid: fields.get(1)?.parse().ok()?,
        started_ticks: fields.get(19)?.parse().ok()?,
    })
}

fn everybody() -> Vec<(Seen, u32)> {
    let entries = fs::read_dir("/proc").expect("end-to-end tests need /proc");
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = stat(pid).filter(|s| !s.zombie)?;
        let seen = Seen { pid, started_ticks: stat.started_ticks, command: stat.command };
        Some((seen, stat.ppid))
    })
    .collect()
}

fn names(pid: u32, marker: &str) -> bool {
    let dir = format!("/proc/{pid}");
    let dir = Path::new(&dir);
    let in_file = |name: &str| fs::read(dir.join(name)).is_ok_and(|b| String::from_utf8_lossy(&b).contains(marker));
    let in_link = |path: &Path| fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains(marker));
    in_file("cmdline")
        || in_file("environ")
        || in_link(&dir.join("cwd"))
        || fs::read_dir(dir.join("fd")).is_ok_and(|fds| fds.flatten().any(|fd| in_link(&fd.path())))
}

#[cfg(test)]
mod tests {
    use super::{descendants, marked, parse_stat, survivors};
    use crate::wait::{LIMIT, ensure, wait_until};
    use std::process::Command;

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let text = "12 (a) b) S 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let stat = parse_stat(text).expect("parses");
        assert_eq!((stat.ppid, stat.started_ticks), (7, 4242));
        assert_eq!(stat.command, "a) b");
    }

    #[test]
    fn a_child_is_seen_until_it_is_killed() {
        let marker = format!("seen-by-{}", std::process::id());
        let mut child = Command::new("sleep").arg("600").env("MARKER", &marker).spawn().expect("sleep starts");
        wait_until("the child in /proc", LIMIT, || ensure(marked(&marker).len() == 1, "not there"));
        let below = descendants(std::process::id());
        let watched: Vec<_> = below.into_iter().filter(|s| s.pid == child.id()).collect();
        assert_eq!(survivors(&watched).len(), 1);
        watched[0].kill9();
        wait_until("the child's death", LIMIT, || ensure(survivors(&watched).is_empty(), "alive"));
        child.wait().expect("reaped");
    }
}
