//! Defines the store's errors, with messages for the operator who has to act on them.
//!
//! The cause is part of the message and not a `source`: it is printed as one line.

use std::path::{Path, PathBuf};

use grid_core::BadLevel;
use rusqlite::ErrorCode;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error(
        "{} is not a store of grid, and was left as it is: name another data folder; or, if the log beside it is \
         this controller's, move it away and start again: it is rebuilt from the newest snapshot and the log",
        .path.display()
    )]
    Foreign { path: PathBuf },
    #[error(
        "{} was written by a newer grid (store version {found}, this one knows {known}), and was left as it is: \
         start that grid on this folder; if none ever ran here it is damaged: move it away and start again, it is rebuilt \
         from the newest snapshot and the log", .path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "{} was written by an older grid (store version {found}, this one reads {known}) and cannot be read: if others of its \
         cluster run, start in an empty folder with --join URL --replace; otherwise start the older grid on this folder",
        .path.display()
    )]
    Older { path: PathBuf, found: u32, known: u32 },
    #[error("{}: {problem}", .path.display())]
    Level { path: PathBuf, problem: BadLevel },
    #[error(
        "{0} is damaged ({problem}): move it and {0}-wal away and start again; \
         it is rebuilt from the newest snapshot and the log", .path.display()
    )]
    Damaged { path: PathBuf, problem: String },
    #[error("cannot restore from {}: {problem}; nothing was created", .path.display())]
    BadBackup { path: PathBuf, problem: String },
    #[error("cannot {doing} {}: the disk is full; free some space and start again", .path.display())]
    Full { path: PathBuf, doing: &'static str },
    #[error(
        "cannot {doing} {}: {problem}; see that its folder is there, writable and on a sound disk",
        .path.display()
    )]
    Failed { path: PathBuf, doing: &'static str, problem: String },
    #[error("{0}; this is a fault of grid, please report it")]
    Contradiction(String),
}

impl StoreError {
    pub(crate) fn damaged_backup(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self::BadBackup { path: path.to_owned(), problem: format!("it is damaged ({problem}), take another backup") }
    }
}

/// An error on its way to where the file's name is known.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Io(std::io::Error),
    /// A stored value that cannot be read back.
    Value(String),
    Contradiction(String),
}

impl Fault {
    pub fn at(self, path: &Path, doing: &'static str) -> StoreError {
        let path = path.to_owned();
        let code = match &self {
            Self::Sql(e) => e.sqlite_error_code(),
            _ => None,
        };
        match (self, code) {
            (Self::Sql(e), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) => {
                StoreError::Damaged { path, problem: e.to_string() }
            }
            (Self::Sql(_), Some(ErrorCode::DiskFull)) => StoreError::Full { path, doing },
            (Self::Io(e), _) if e.kind() == std::io::ErrorKind::StorageFull => StoreError::Full { path, doing },
            // The schema is ours and fixed: a row that is missing or of another type is damage, too.
            (
                Self::Sql(
                    e @ (rusqlite::Error::QueryReturnedNoRows
                    | rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)),
                ),
                _,
            ) => StoreError::Damaged { path, problem: e.to_string() },
            (Self::Sql(e), _) => StoreError::Failed { path, doing, problem: e.to_string() },
            (Self::Io(e), _) => StoreError::Failed { path, doing, problem: e.to_string() },
            (Self::Value(problem), _) => StoreError::Damaged { path, problem },
            (Self::Contradiction(what), _) => StoreError::Contradiction(what),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(e: rusqlite::Error) -> Self {
        Self::Sql(e)
    }
}

impl From<std::io::Error> for Fault {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<minicbor::decode::Error> for Fault {
    fn from(e: minicbor::decode::Error) -> Self {
        Self::Value(format!("a stored value cannot be read: {e}"))
    }
}
