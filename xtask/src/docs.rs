//! `cargo xtask docs`: writes the generated pages of `docs/` anew.
//!
//! The tests that check a page also write it, if told to: so what is written and what is checked cannot differ, and a
//! chore does not have to compile what it documents.

use anyhow::Result;

use crate::shell::cargo;

/// (package, test target) of every generated page.
const PAGES: &[(&str, &str)] = &[("grid-types", "reference"), ("grid-types", "job_file"), ("gridc", "reference")];

pub fn run() -> Result<()> {
    for (package, test) in PAGES {
        cargo(&["test", "--locked", "--quiet", "-p", package, "--test", test], &[("GRID_DOCS", "write")])?;
    }
    Ok(())
}
