//! `cargo xtask proto`: writes the messages and services that the .proto files describe.
//!
//! The test that compares them also writes them, if an environment variable asks for it.

use anyhow::Result;

use crate::shell::cargo;

pub fn run() -> Result<()> {
    cargo(&["test", "--locked", "--quiet", "-p", "grid-proto", "--test", "generated"], &[("GRID_PROTO", "write")])
}
