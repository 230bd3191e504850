//! Becomes another program, which the kernel kills when its parent ends: also when the parent is killed.
//!
//! The signal is set before the program replaces this process, and survives that.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::cli::NatsChildArgs;

pub fn run(args: &NatsChildArgs) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot ask for the end of the parent")?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    // It ended before the signal was set.
    if parent != i32::try_from(args.parent).ok() {
        return Ok(ExitCode::FAILURE);
    }
    let (program, arguments) = args.command.split_first().context("no program")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
