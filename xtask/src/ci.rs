//! `cargo xtask ci`: runs the stages that every change passes, cheapest first.
//!
//! Stops at the first stage that fails and names it, so that the last line of a log is the answer. `size` only warns: whether a
//! long file must be split is the author's decision.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell::cargo;
use crate::{deny, deps, pages, rules, size, spawns, test};

type Stage = (&'static str, fn() -> Result<()>);

const STAGES: &[Stage] = &[
    ("fmt", || cargo(&["fmt", "--all", "--check"], &[])),
    ("clippy", clippy),
    ("deps", || deps::run(&[])),
    ("spawns", spawns::run),
    ("deny", deny::run),
    ("rules", || rules::run(&[])),
    ("pages", pages::run),
    ("size", size::run),
    ("doc", doc),
    ("test", || test::run(&[])),
];

pub fn run() -> Result<()> {
    for (name, stage) in STAGES {
        eprintln!("ci: {name} …");
        let begun = Instant::now();
        stage().with_context(|| format!("ci FAILED at stage `{name}`"))?;
        eprintln!("ci: {name} ok, {} s", begun.elapsed().as_secs());
    }
    let names: Vec<&str> = STAGES.iter().map(|(name, _)| *name).collect();
    eprintln!("ci: all green ({})", names.join(", "));
    Ok(())
}

fn clippy() -> Result<()> {
    let args = ["clippy", "--locked", "--workspace", "--all-targets"];
    cargo(&[&args[..], &["--", "-D", "warnings"]].concat(), &[])
}

/// Broken links and missing documentation are errors; the pages themselves are not kept.
fn doc() -> Result<()> {
    cargo(&["doc", "--locked", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}
