//! `cargo xtask fuzz`: runs the seeded tests of the decoders, for the given number of seconds.

use anyhow::{Context as _, Result};

use crate::shell::cargo;

const SECONDS: &str = "600";

pub fn run(seconds: Option<&str>) -> Result<()> {
    let seconds = seconds.unwrap_or(SECONDS);
    seconds.parse::<u32>().with_context(|| format!("`{seconds}` is not a number of seconds"))?;
    for package in ["grid-raft", "grid-controller"] {
        let test = ["test", "--locked", "-p", package, "--lib", "fuzz", "--", "--nocapture"];
        cargo(&test, &[("GRID_FUZZ_SECONDS", seconds)])?;
    }
    Ok(())
}
