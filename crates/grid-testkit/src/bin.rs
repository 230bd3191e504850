//! Finds the binaries under test.
//!
//! Cargo puts a test executable into `target/<profile>/deps/` and binaries one
//! folder up, so the profile of the test is the profile of what it tests.
//! `GRID_BIN_DIR` points elsewhere, for instance at an installed release.

use std::path::PathBuf;
use std::process::Command;

/// The path of the binary `name`.
///
/// # Panics
/// When it has not been built, with the command that builds it.
pub fn bin(name: &str) -> PathBuf {
    let dir = match std::env::var_os("GRID_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => beside_the_test(),
    };
    let path = dir.join(name);
    assert!(
        path.is_file(),
        "binary `{name}` is not in {}: run the tests with `cargo xtask test`, which builds it first \
         (or `cargo build -p grid -p gridc`; GRID_BIN_DIR=DIR if it is elsewhere)",
        dir.display()
    );
    path
}

/// The binary `name` without the caller's `GRID_*` variables, which would change what is tested.
pub fn command(name: &str) -> Command {
    clean(Command::new(bin(name)))
}

/// The same in a network namespace.
pub(crate) fn command_in(namespace: &str, name: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(bin(name));
    clean(command)
}

/// A command without the caller's `GRID_*` variables.
pub fn clean(mut command: Command) -> Command {
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("GRID_") {
            command.env_remove(variable);
        }
    }
    command
}

/// The same command, started by a shell after `prelude`: with another umask, ignored signals, open descriptors.
pub(crate) fn after(prelude: &str, command: Command) -> Command {
    if prelude.is_empty() {
        return command;
    }
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("{prelude}\nexec \"$0\" \"$@\"")).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        shell.current_dir(dir);
    }
    shell
}

fn beside_the_test() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let mut dir = test.parent().expect("an executable is in a folder");
    if dir.ends_with("deps") {
        dir = dir.parent().expect("deps is in the profile's folder");
    }
    dir.to_owned()
}
