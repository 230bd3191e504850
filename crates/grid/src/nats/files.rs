//! Writes the files of a configuration: secrets for their owner alone, every file whole or not at all.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    Owner,
    Everyone,
}

/// A folder that only its owner may enter.
pub fn folder(path: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create {}", path.display()))
}

/// Replaces the file.
pub fn write(path: &Path, readers: Readers, text: &str) -> anyhow::Result<()> {
    let doing = || format!("cannot write {}", path.display());
    let beside = beside(path);
    // Left behind by a run that was killed.
    let _ = fs::remove_file(&beside);
    let mode = if readers == Readers::Owner { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside).with_context(doing)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(doing)?;
    fs::rename(&beside, path).with_context(doing)
}

/// `None`: there is no such file.
pub fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}
