//! `cargo xtask fuzz`: the tests of the decoders that a seed repeats, for as long as asked.

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
