//! Processes of leases: started from an argv array in a group of their own, and ended as a group.
//!
//! Every process carries a mark in its environment, which its descendants inherit: with it those are found that left
//! the group (`setsid`), and those whose fork was not journalled before the worker was killed.
//! A process gets nothing of the worker's but what is given to it: environment, folder, umask and input are its own,
//! signals are as for any new process (`machine::processes`), and every descriptor of the worker is closed by `exec`.
//! Not here: when to stop (`run::executor`), the list of variables (`run::environment`). A parent-death signal would need `unsafe` code between fork and exec, and would end
//! the first process only; the next start of the worker ends them all instead (`kill_left_over`).

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use tokio::io::AsyncRead;

use crate::engine::record::Group;

/// The environment variable that holds the mark.
pub const MARK: &str = "GRID_LEASE";

/// Name and value of an environment variable.
pub type Variable = (OsString, OsString);

/// What to run. Never a shell string: arguments reach the program as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub program: String,
    pub args: Vec<String>,
    /// All of its environment but the mark; the last of several values counts.
    pub env: Vec<Variable>,
    /// Where it works.
    pub folder: PathBuf,
    /// What it reads; without it, nothing.
    pub stdin: Option<String>,
    pub mark: String,
}

/// How a first process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// A process that was started.
pub struct Spawned {
    pub group: Group,
    /// Both its outputs, in the order in which they were written.
    pub output: Pin<Box<dyn AsyncRead + Send>>,
    /// Resolves when the first process has ended and was reaped; may be dropped.
    pub exit: Pin<Box<dyn Future<Output = io::Result<Exit>> + Send>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Term,
    Kill,
}

pub trait Processes: Send + Sync + 'static {
    /// A number that is another one after each boot of the machine.
    fn machine_boot(&self) -> u64;

    /// Called inside a tokio runtime.
    fn spawn(&self, program: &Program) -> io::Result<Spawned>;

    /// To everything in the group and, with a mark, to everything that carries it.
    fn signal(&self, group: Group, mark: Option<&str>, signal: Signal);

    /// Whether anything in the group, or anything that carries the mark, still runs. May block for some milliseconds.
    fn is_alive(&self, group: Group, mark: Option<&str>) -> bool;

    /// Whether the group has processes, and this user may signal none of them: a program changed its user (`sudo`).
    fn is_foreign(&self, group: Group) -> bool;

    /// Kills everything in these groups of an earlier process of this worker, and everything whose mark is a left-over one.
    /// Returns how many were still there; zero: all gone.
    fn kill_left_over(&self, groups: &[Group], is_left_over: &dyn Fn(&str) -> bool) -> usize;
}
