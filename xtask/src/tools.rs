//! Installs what tests need besides Rust programs: tools from PyPI, once, in the user's cache folder, and a browser.
//!
//! Every version is pinned (`openapi-requirements.txt`), and an installation keeps a copy of the pins: other pins, or an
//! incomplete installation, cause a new installation. `GRID_TEST_PYTHON` names a Python that has them already.
//! The browser is the system's Chromium: root installs it from the distribution where it is missing; `GRID_TEST_CHROMIUM` names
//! another one. Nothing is skipped where it cannot be installed: the run fails and names what is missing.
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
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        .and_then(|()| {
            run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements))
        })
        .context("GRID_TEST_PYTHON=FILE names a Python that has openapi-requirements.txt")?;
    std::fs::write(&pins, PINS).with_context(|| format!("cannot write {}", pins.display()))?;
    Ok(python)
}

/// A browser for the tests of web pages.
pub fn chromium() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("GRID_TEST_CHROMIUM") {
        return Ok(given.into());
    }
    if let Some(found) = in_path("chromium") {
        return Ok(found);
    }
    let install = || {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--yes", "--quiet", "--no-install-recommends", "chromium"]);
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        run(&mut apt)
    };
    // The list of packages may be old or missing.
    let installed = install().or_else(|_| {
        run(Command::new("apt-get").args(["update", "--quiet"]))?;
        install()
    });
    match in_path("chromium") {
        Some(found) => Ok(found),
        None => installed.and(Err(anyhow::anyhow!("apt-get installed no program chromium"))).context(
            "the tests of web pages need Chromium: install the package chromium as root, or name one with GRID_TEST_CHROMIUM=FILE",
        ),
    }
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
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
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}
