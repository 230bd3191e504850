//! Tools from PyPI that tests run, installed once into the user's cache folder.
//!
//! Every version is pinned (`openapi-requirements.txt`), and what is installed carries a copy of the pins: other pins, or an
//! installation that broke off, are installed anew. `GRID_TEST_PYTHON` names a Python that has them already.
//! Not in `target`: a clean build should not fetch from the network, and several checkouts share one installation.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::package_root;

const PINS: &str = include_str!("../openapi-requirements.txt");

/// A Python with the validator and the fuzzer of OpenAPI documents.
pub fn openapi_python() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("GRID_TEST_PYTHON") {
        return Ok(given.into());
    }
    let folder = cache()?.join("openapi");
    let (python, pins) = (folder.join("bin/python"), folder.join("pins"));
    if std::fs::read_to_string(&pins).is_ok_and(|installed| installed == PINS) {
        return Ok(python);
    }
    let requirements = package_root().join("openapi-requirements.txt");
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements))?;
    std::fs::write(&pins, PINS).with_context(|| format!("cannot write {}", pins.display()))?;
    Ok(python)
}

fn cache() -> Result<PathBuf> {
    let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = xdg.or(home).context("no cache folder: set HOME or XDG_CACHE_HOME")?;
    Ok(folder.join("grid-tools"))
}

fn run(command: &mut Command) -> Result<()> {
    eprintln!("xtask: {command:?}");
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    if !status.success() {
        bail!("{command:?} failed ({status}); GRID_TEST_PYTHON=FILE names a Python that has openapi-requirements.txt");
    }
    Ok(())
}
