//! `cargo xtask hostile`: runs the suite `hostile` of the package `grid`, for the given number of seconds.

use anyhow::{Context as _, Result};

use crate::shell::cargo;

const SECONDS: &str = "300";

pub fn run(seconds: Option<&str>) -> Result<()> {
    let seconds = seconds.unwrap_or(SECONDS);
    seconds.parse::<u32>().with_context(|| format!("`{seconds}` is not a number of seconds"))?;
    cargo(&["build", "--locked", "--workspace", "--bins"], &[])?;
    let test = ["test", "--locked", "--workspace", "--test", "hostile", "--", "--nocapture"];
    cargo(&test, &[("GRID_HOSTILE_SECONDS", seconds)])
}
