//! `cargo xtask docs`: rewrites the generated pages of `docs/`.
//!
//! The tests that check a page also write it, if an environment variable asks for it: so the written and the checked text
//! cannot differ, and xtask does not have to compile what it documents.

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
