//! Starts, finds and signals the processes of this machine: `tokio` starts them, `/proc` lists them.

mod launch;
mod procfs;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, kill_process, kill_process_group, test_kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::locate;
use crate::engine::record::Group;
use crate::seams::{Exit, MARK, Processes, Program, Signal, Spawned};
use launch::{stop_ignoring_signals, with_task_umask};
use procfs::Stat;

#[derive(Debug, Clone, Copy)]
pub struct SystemProcesses {
    machine_boot: u64,
}

impl SystemProcesses {
    #[must_use]
    pub fn new() -> Self {
        // Without a runtime nothing is started through it.
        if tokio::runtime::Handle::try_current().is_ok() {
            stop_ignoring_signals();
        }
        Self { machine_boot: procfs::machine_boot() }
    }
}

impl Default for SystemProcesses {
    fn default() -> Self {
        Self::new()
    }
}

impl Processes for SystemProcesses {
    fn machine_boot(&self) -> u64 {
        self.machine_boot
    }

    fn spawn(&self, program: &Program) -> io::Result<Spawned> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(found(program)?);
        command
            .args(&program.args)
            .env_clear()
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .env(MARK, &program.mark)
            .current_dir(&program.folder)
            .stdin(input(program.stdin.as_deref())?)
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        let runtime = tokio::runtime::Handle::current();
        let spawned = with_task_umask(|| {
            let _entered = runtime.enter();
            command.spawn()
        });
        let mut child = spawned.map_err(|_| io::Error::other("starting it panicked; see the worker's log"))??;
        // The command holds the writing ends; the reader sees the end only when all of them are gone.
        drop(command);
        let pgid = child.id().ok_or_else(|| io::Error::other("the process ended before it had an id"))?;
        let start_ticks = procfs::stat(pgid).map_or(0, |stat| stat.start_ticks);
        let output = Box::pin(pipe::Receiver::from_owned_fd(reader.into())?);
        // Reaped even if nobody waits, so that a stopped lease leaves no zombie.
        let waiting = tokio::spawn(async move { child.wait().await });
        let exit = Box::pin(async move { waiting.await.map_err(io::Error::other)?.map(exit_of) });
        Ok(Spawned { group: Group { pgid, start_ticks, machine_boot: self.machine_boot }, output, exit })
    }

    fn signal(&self, group: Group, mark: Option<&str>, signal: Signal) {
        let signal = system_signal(signal);
        if let Some(pgid) = raw(group.pgid).filter(|_| !is_anothers(group)) {
            // The only expected error is that nobody is left, which is what is wanted.
            let _ = kill_process_group(pgid, signal);
        }
        for stray in marked(&mark.into_iter().collect()).iter().filter(|stat| stat.pgid != group.pgid) {
            kill(stray, signal);
        }
    }

    fn is_alive(&self, group: Group, mark: Option<&str>) -> bool {
        // A zombie answers a signal, too, hence the second look. One that this user may not signal (`sudo`) is there as well.
        let answers =
            raw(group.pgid).is_some_and(|pgid| test_kill_process_group(pgid).is_ok()) || self.is_foreign(group);
        (answers && !is_anothers(group) && group_lives(group.pgid)) || !marked(&mark.into_iter().collect()).is_empty()
    }

    fn is_foreign(&self, group: Group) -> bool {
        raw(group.pgid).is_some_and(|pgid| test_kill_process_group(pgid) == Err(Errno::PERM))
    }

    fn kill_left_over(&self, groups: &[Group], is_left_over: &dyn Fn(&str) -> bool) -> usize {
        // A worker that a lease started carries its mark, too.
        let own = std::process::id();
        let mut left: Vec<Stat> = carriers(is_left_over).into_iter().filter(|stat| stat.pid != own).collect();
        let living = procfs::living();
        for group in groups.iter().filter(|group| group.machine_boot == self.machine_boot) {
            // Another first process with this number: the old group is gone.
            let same = living.iter().any(|stat| stat.pid == group.pgid && stat.start_ticks == group.start_ticks);
            left.extend(living.iter().filter(|stat| same && stat.pgid == group.pgid));
            if let (true, Some(pgid)) = (same, raw(group.pgid)) {
                // As a group, so that no fork slips through.
                let _ = kill_process_group(pgid, rustix::process::Signal::KILL);
            }
        }
        for stat in &left {
            kill(stat, rustix::process::Signal::KILL);
        }
        left.len()
    }
}

/// In a file without a name: nothing has to write while the program reads, and nothing is left behind.
fn input(text: Option<&str>) -> io::Result<Stdio> {
    let Some(text) = text else { return Ok(Stdio::null()) };
    let mut file = File::from(memfd_create("grid-stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// By its path: looked for in the `PATH` that it gets, not in the worker's.
fn found(program: &Program) -> io::Result<PathBuf> {
    if program.program.contains('/') {
        return Ok(PathBuf::from(&program.program));
    }
    let path = program.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
    let path = path.unwrap_or_default();
    locate(&program.program, path, &[])
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("it is in none of {}", path.display())))
}

fn marked(marks: &BTreeSet<&str>) -> Vec<Stat> {
    if marks.is_empty() {
        return Vec::new();
    }
    carriers(|mark| marks.contains(mark))
}

/// Processes whose mark is wanted.
fn carriers(is_wanted: impl Fn(&str) -> bool) -> Vec<Stat> {
    let is_marked = |stat: &Stat| procfs::env_value(stat, MARK).is_some_and(|mark| is_wanted(&mark));
    procfs::living().into_iter().filter(is_marked).collect()
}

/// Whether the number has been given to somebody else since: a lease may last much longer than the group of one of its
/// calls, and its number is free once nobody is left in it.
fn is_anothers(group: Group) -> bool {
    // 0: it was gone before it could be looked at.
    group.start_ticks != 0 && procfs::stat(group.pgid).is_some_and(|stat| stat.start_ticks != group.start_ticks)
}

fn group_lives(pgid: u32) -> bool {
    let first = procfs::stat(pgid).is_some_and(|stat| stat.pgid == pgid && !stat.zombie);
    first || procfs::living().iter().any(|stat| stat.pgid == pgid)
}

fn kill(stat: &Stat, signal: rustix::process::Signal) {
    if let Some(pid) = stat.raw_pid() {
        let _ = kill_process(pid, signal);
    }
}

fn raw(pgid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pgid).ok()?)
}

fn system_signal(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    }
}

fn exit_of(status: std::process::ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match status.code() {
        Some(code) => Exit::Code(code),
        None => Exit::Signal(status.signal().unwrap_or(0)),
    }
}
