//! Secures data folders on a machine with other users: ownership, permissions, and how files in them are opened.
//!
//! ```text
//!   start: enter(folder) --refused: another owner, writable by others, a link or a foreign file in it
//!             |
//!             '--> folders 0700, files 0600 --> files are opened by this crate: O_NOFOLLOW, mode 0600, regular files only
//! ```
//!
//! After [`enter`] no other user can reach anything in the folder, so nothing can be planted while the process runs. The flags
//! at each open are a second line of defence: they hold when a caller forgot to enter, and against processes of the same user.
//! Not here: the content of the files. Locks between the processes of one folder are here, because a lock must not truncate a
//! file through a link.
//! Modes are set explicitly at creation (`open` with a mode, then `fchmod`), so that they do not depend on the umask. Files that
//! libraries create (the log, SQLite's companions) do depend on it: `grid` sets 077 for itself at its start.

mod files;
mod guard;
mod lock;
mod mount;
mod removal;
mod shell;
#[cfg(test)]
mod tests;

pub use files::{append, copy, create, create_new, make_dir, open, read, read_if_there, update};
pub use guard::{FILE_SYSTEM, Kind, Refused, TASKS, check, enter};
pub use lock::{LockError, lock};
pub use removal::remove_tree;
