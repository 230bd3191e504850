//! Reads what `/proc` shows of other processes.

use std::fs;

use rustix::process::Pid;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: u32,
    pub(super) pgid: u32,
    pub(super) start_ticks: u64,
    /// A zombie runs nothing; whether somebody reaps it is up to its parent.
    pub(super) zombie: bool,
    /// The kernel shows it like a zombie, but its other threads run.
    pub(super) first_thread_exited: bool,
}

impl Stat {
    pub(super) fn raw_pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.pid).ok()?)
    }
}

pub(super) fn stat(pid: u32) -> Option<Stat> {
    // A process may give itself a name that is no text.
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&bytes))
}

/// Every living process.
pub(super) fn living() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).filter(|stat| !stat.zombie).collect()
}

/// The value of a variable in the environment a process was started with.
pub(super) fn env_value(stat: &Stat, name: &str) -> Option<String> {
    let Stat { pid, first_thread_exited, .. } = *stat;
    let environ =
        if first_thread_exited { environ_of_threads(pid) } else { fs::read(format!("/proc/{pid}/environ")).ok() };
    let environ = environ?;
    let mut variables = environ.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

/// A thread that has exited has no environment any more, the others have.
fn environ_of_threads(pid: u32) -> Option<Vec<u8>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads.filter_map(|thread| fs::read(thread.ok()?.path().join("environ")).ok()).find(|environ| !environ.is_empty())
}

/// A number that is another one after each boot of the machine.
pub(super) fn machine_boot() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// `pid (command) state ppid pgrp …`, the number of threads is field 20, start time 22; a command may contain anything, `)` too.
fn parse(pid: u32, text: &str) -> Option<Stat> {
    let (_, tail) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let (state, threads): (_, u64) = (*fields.first()?, fields.get(17)?.parse().ok()?);
    let has_exited = matches!(state, "Z" | "X");
    Some(Stat {
        pid,
        pgid: fields.get(2)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
        zombie: has_exited && threads <= 1,
        first_thread_exited: has_exited && threads > 1,
    })
}

#[cfg(test)]
mod tests {
    use super::{parse, stat};

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let text = "12 (a) b) Z 7 34 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let parsed = parse(12, text).unwrap();
        assert_eq!((parsed.pgid, parsed.start_ticks, parsed.zombie), (34, 4242, true));
        assert!(!stat(std::process::id()).unwrap().zombie);
        let first_thread_exited = text.replace(" 1 0 4242", " 2 0 4242");
        let parsed = parse(12, &first_thread_exited).unwrap();
        assert_eq!((parsed.zombie, parsed.first_thread_exited), (false, true));
    }
}
