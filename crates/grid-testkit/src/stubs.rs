//! Replaces programs that a test must not run for real (`systemctl`, `apt-get`) by stubs, found first in `PATH`.
//!
//! A stub records its arguments, one line per call, and then runs its body. Everything around it is real: the lookup, the
//! process, its exit code and its output.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder of stubs.
#[derive(Debug, Clone)]
pub struct Stubs {
    folder: PathBuf,
}

impl Stubs {
    /// # Panics
    /// When the folder cannot be made.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        fs::create_dir_all(&folder).expect("a folder for stubs");
        Self { folder }
    }

    /// A program whose `body` is a shell script, run after the call was recorded.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn program(self, name: &str, body: &str) -> Self {
        // One printf is one write: parallel calls do not mix.
        let log = r#"line="${0##*/}"; for word in "$@"; do line="$line $word"; done; printf '%s\n' "$line" >>"$calls""#;
        let calls = self.calls_file();
        let script = format!("#!/bin/sh\ncalls='{}'\n{log}\n{body}\n", calls.display());
        let file = self.folder.join(name);
        fs::write(&file, script).expect("a stub");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a stub that can be run");
        self
    }

    /// `PATH` with the stubs before everything else.
    pub fn path(&self) -> OsString {
        let mut path = OsString::from(&self.folder);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    /// Every call so far, in order.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.calls_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn calls_file(&self) -> PathBuf {
        self.folder.join("calls.log")
    }
}
