//! Locks a folder: one process at a time.
//!
//! The file is never truncated: a process that opens it does not have the lock yet, and may not own the content. The owner of
//! the lock writes its process id over the content, padded to a fixed width.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::files::update;

const WIDTH: usize = 19;

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{}", held(.holder))]
    Held { holder: Option<u32> },
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn held(holder: &Option<u32>) -> String {
    holder.map_or_else(|| "another process holds it".to_owned(), |pid| format!("process {pid} holds it"))
}

/// Takes the lock; the kernel frees it when the file is closed, however the process ends.
pub fn lock(path: &Path) -> Result<File, LockError> {
    let mut file = update(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LockError::Held { holder: holder(&mut file) }),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let line = format!("{:<WIDTH$}\n", std::process::id());
    // For operators only: a full disk must not stop the process.
    if let Err(error) = file.write_all_at(line.as_bytes(), 0) {
        tracing::warn!("{}: the process id cannot be written: {error}", path.display());
    }
    Ok(file)
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(WIDTH as u64 + 1).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
