//! `cargo xtask fixtures`: writes the entries, data folders and journals of this version, for the tests of later versions.
//!
//! The tests that read the fixtures also write them, if an environment variable asks for it, and only for a feature level that
//! has none: the fixtures of an old version are never rewritten.

use anyhow::Result;

use crate::shell::cargo;

/// The arguments of `cargo test` for every kind of fixture.
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
