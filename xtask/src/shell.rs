//! Runs cargo for the chores.
//!
//! Not here: pipes between programs or a shell: every chore stays readable as one command line.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder of this package, in the clone that cargo was called from: two clones that share a target folder share this
/// binary, and the compiled-in path may be that of the other one.
pub fn package_root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into()
}

/// The folder of the workspace's Cargo.toml.
pub fn workspace_root() -> PathBuf {
    let mut root = package_root();
    root.pop();
    root
}

/// Runs cargo with its output on this terminal; an error names the command line.
pub fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let line = command_line(args);
    eprintln!("xtask: {line}");
    let status =
        cargo_command(args).envs(env.iter().copied()).status().with_context(|| format!("`{line}` did not start"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs cargo and returns what it wrote to stdout.
pub fn cargo_stdout(args: &[&str]) -> Result<String> {
    let line = command_line(args);
    let out = cargo_command(args).output().with_context(|| format!("`{line}` did not start"))?;
    if !out.status.success() {
        let stderr = String::from_utf8_lossy(&out.stderr);
        bail!("`{line}` failed ({})\n{}", out.status, stderr.trim_end());
    }
    String::from_utf8(out.stdout).with_context(|| format!("`{line}` printed something not UTF-8"))
}

fn cargo_command(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(workspace_root());
    command
}

fn command_line(args: &[&str]) -> String {
    format!("cargo {}", args.join(" "))
}
