//! Runs `grid dev`: controller and workers in one process.

use tempfile::TempDir;

use crate::api::Api;
use crate::bin::command;
use crate::process::{Process, field};

/// A running `grid dev`.
pub struct Dev {
    process: Process,
    url: String,
    dir: TempDir,
}

impl Dev {
    /// Starts it with `workers` workers on a free port and waits until it serves.
    pub fn start(workers: usize) -> Self {
        Self::start_in(workers, None, &[])
    }

    /// The same with further flags.
    pub fn start_with(workers: usize, flags: &[&str]) -> Self {
        Self::start_in(workers, None, flags)
    }

    /// The same with another `PATH`, such as that of [`crate::Stubs`]; its tasks inherit it.
    pub fn start_with_path(workers: usize, path: &std::ffi::OsStr) -> Self {
        Self::start_in(workers, Some(path), &[])
    }

    fn start_in(workers: usize, path: Option<&std::ffi::OsStr>, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut command = command("grid");
        command
            .args(["dev", "--workers", &workers.to_string()])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(["--api", "127.0.0.1:0"])
            .args(flags)
            .current_dir(dir.path())
            .envs(path.map(|path| ("PATH", path)));
        if path.is_some() {
            command.env("GRID_PASS_ENV", "PATH");
        }
        let mut process = Process::spawn("grid dev", command, &dir.path().join("dev.log"));
        let line = process.wait_line("grid ready ");
        let url = field(&line, "api");
        Self { process, url, dir }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn api(&self) -> Api {
        Api::new(&self.url)
    }

    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
