//! `cargo xtask fixtures`: writes what this version's entries, data folders and journals look like, for the tests of later ones.
//!
//! The tests that read the fixtures also write them, if told to, and only for a feature level that has none: what an old
//! version wrote is never written again.

use anyhow::Result;

use crate::shell::cargo;

/// What `cargo test` is told, for every kind of fixture.
const TESTS: &[&[&str]] = &[
    &["-p", "grid-core", "--test", "fixtures"],
    &["-p", "grid-controller", "--lib", "fixtures::"],
    &["-p", "grid-worker", "--lib", "fixtures::"],
];

pub fn run() -> Result<()> {
    for test in TESTS {
        let words: Vec<&str> = ["test", "--locked", "--quiet"].iter().chain(test.iter()).copied().collect();
        cargo(&words, &[("GRID_FIXTURES", "write")])?;
    }
    Ok(())
}
