//! Decides whether a folder may be used, and closes it to other users.
//!
//! | found | done |
//! |---|---|
//! | another owner, of the folder or of anything in it | refused, with `chown` |
//! | others may write to the folder, or reach and write to something in it | refused, with `chmod` |
//! | a symbolic link, a file with a second name, a pipe, socket or device in it | refused, by name |
//! | a folder above it that every user may change (not sticky), a link of another user in its path | refused |
//! | only files that Grid does not create | refused: it is probably another folder, named by mistake |
//! | others may read | closed to them, with a line in the log |
//!
//! Nothing is changed when it is refused. The folder's own path may lead through links: the operator named it.
//! The content of [`TASKS`] folders belongs to tasks, which may leave anything there: it is removed without following links,
//! and is not checked here.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::files::make_dir;
use crate::mount;
use crate::shell::quoted;

/// The folder, at any depth, whose content is not checked: the working folders of tasks.
pub const TASKS: &str = "work";
/// Created by the file system itself, where the folder is a mount point.
pub const FILE_SYSTEM: &str = "lost+found";
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
const GROUP_WRITES: u32 = 0o020;
const EVERYBODY_WRITES: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The names that a folder of one kind contains: they distinguish it from a folder that was named by mistake and must not be
/// closed to its users.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The kind in messages, as in "not a worker's folder".
    pub name: &'static str,
    /// Any of these names identifies the folder.
    pub marks: &'static [&'static str],
    /// Further names begin with these; they identify nothing by themselves.
    pub others: &'static [&'static str],
}

impl Kind {
    pub const WORKER: Self = Self {
        name: "a worker's",
        marks: &["identity"],
        others: &["lock", "journal", "output", "reserve", "rke2", TASKS],
    };
    pub const CONTROLLER: Self = Self {
        name: "a controller's",
        marks: &["node-id", "raft"],
        others: &["state.sqlite", "backup.part", "restoring"],
    };
    pub const NODE: Self = Self { name: "grid node's", marks: &["controller", "worker"], others: &[] };
    pub const DEV: Self = Self { name: "grid dev's", marks: &["controller", "workers"], others: &[] };

    /// Whether the folder is empty or of this kind; otherwise a name that does not belong to it.
    fn check(self, folder: &Path) -> Result<(), Refused> {
        let mut foreign = None;
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let text = name.to_string_lossy();
            if self.marks.iter().any(|mark| *mark == text) {
                return Ok(());
            }
            let begins = |known: &&&str| text.starts_with(**known);
            if text != FILE_SYSTEM && !self.marks.iter().chain(self.others).any(|known| begins(&known)) {
                foreign = Some(name);
            }
        }
        let Some(name) = foreign else { return Ok(()) };
        Err(Refused::Unsafe(format!("is not empty (it has {name:?}) and not {} folder; give an empty one", self.name)))
    }
}

/// Why a folder is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The problem, and the command that fixes it.
    #[error("{0}")]
    Unsafe(String),
}

/// Creates the folder if it does not exist, refuses it if another user could have changed its content, and closes it to others.
///
/// # Errors
/// [`Refused::Unsafe`] names the problem and the command that fixes it; nothing was changed then.
pub fn enter(folder: &Path, kind: Kind) -> Result<(), Refused> {
    if !folder.exists() {
        check_way(folder)?;
        make_dir(folder)?;
    }
    check(folder, kind)?;
    warn_of_neighbours(folder);
    Ok(())
}

/// Like [`enter`], but does not create the folder: a missing one is not an error.
pub fn check(folder: &Path, kind: Kind) -> Result<(), Refused> {
    check_way(folder)?;
    let found = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.is_dir() {
        return Err(Refused::Io(io::ErrorKind::NotADirectory.into()));
    }
    // Otherwise a link in the last component would itself be checked, not its target.
    let folder = folder.canonicalize()?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(Refused::Unsafe(of_another(&folder, found.uid(), own)));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        let mode = found.mode() & 0o7777;
        return Err(Refused::Unsafe(format!(
            "users other than its owner may write to it (mode {mode:04o}), so its content may be theirs; check it, \
             then run: chmod -R go-rwx {}{}",
            quoted(&folder),
            mount::advice(&folder, mode)
        )));
    }
    kind.check(&folder)?;
    let open = Survey { own, is_closed: found.mode() & OTHERS == 0, loose: Vec::new() }.walk(&folder, &found)?;
    close(&folder, open)
}

/// The result of a walk through a folder.
struct Survey {
    own: u32,
    /// No other user could reach its content.
    is_closed: bool,
    /// What other users may read, the folder itself first.
    loose: Vec<(PathBuf, u32)>,
}

impl Survey {
    fn walk(mut self, folder: &Path, found: &Metadata) -> Result<Vec<(PathBuf, u32)>, Refused> {
        self.note(folder, found);
        let mut left = vec![folder.to_owned()];
        while let Some(at) = left.pop() {
            // A worker that still uses the folder may remove anything below it meanwhile.
            let entries = match fs::read_dir(&at) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && at != folder => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = match entry {
                    Err(error) if error.kind() == io::ErrorKind::NotFound && at != folder => break,
                    entry => entry?,
                };
                let found = match entry.metadata() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    found => found?,
                };
                let path = entry.path();
                if at == folder && entry.file_name() == FILE_SYSTEM && found.is_dir() {
                    continue;
                }
                self.judge(&path, &found)?;
                if found.is_dir() && entry.file_name() != TASKS {
                    left.push(path);
                }
            }
        }
        Ok(self.loose)
    }

    fn judge(&mut self, path: &Path, found: &Metadata) -> Result<(), Refused> {
        let refused = |problem: String| Err(Refused::Unsafe(problem));
        let (shown, named) = (path.display(), quoted(path));
        if found.is_symlink() {
            return refused(format!("{shown} is a symbolic link, which is not followed; remove it: rm {named}"));
        }
        if !found.is_file() && !found.is_dir() {
            return refused(format!("{shown} is neither a file nor a folder; remove it: rm {named}"));
        }
        check_owner(path, found, self.own)?;
        if found.is_file() && found.nlink() > 1 {
            let problem = "has a second name (a hard link), so that writing to it would change that file too";
            return refused(format!(
                "{shown} {problem}; replace it by a copy: cp -p {named} {named}.copy && mv {named}.copy {named}"
            ));
        }
        if found.mode() & OTHERS_WRITE != 0 && !self.is_closed {
            return refused(format!(
                "other users may write to {shown} (mode {:04o}), so its content may be theirs; check it, then run: \
                 chmod go-rwx {named}{}",
                found.mode() & 0o7777,
                mount::advice(path, 0)
            ));
        }
        self.note(path, found);
        Ok(())
    }

    fn note(&mut self, path: &Path, found: &Metadata) {
        if found.mode() & OTHERS != 0 {
            self.loose.push((path.to_owned(), found.mode() & 0o7777 & !OTHERS));
        }
    }
}

/// The folder first: from then on no other user can reach the rest.
pub(crate) fn close(folder: &Path, loose: Vec<(PathBuf, u32)>) -> Result<(), Refused> {
    let count = loose.len();
    for (path, mode) in loose {
        let closed =
            fs::set_permissions(&path, Permissions::from_mode(mode)).and_then(|()| fs::symlink_metadata(&path));
        let problem = match closed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => error.to_string(),
            // Some file systems accept a mode and do not keep it.
            Ok(found) if found.mode() & OTHERS != 0 => "chmod had no effect".to_owned(),
            Ok(_) => continue,
        };
        let (shown, elsewhere) = (path.display(), mount::elsewhere(&path));
        return Err(Refused::Unsafe(format!(
            "other users may read {shown}, which cannot be changed ({problem}); {elsewhere}"
        )));
    }
    if count > 0 {
        tracing::warn!("{}: other users could read {count} files and folders; they cannot any more", folder.display());
    }
    Ok(())
}

fn check_owner(path: &Path, found: &Metadata, own: u32) -> Result<(), Refused> {
    let owner = found.uid();
    if owner == own {
        return Ok(());
    }
    Err(Refused::Unsafe(format!(
        "{} belongs to user {owner}, and this process runs as user {own}; if you trust its content, run: chown -hR {own} {}",
        path.display(),
        quoted(path)
    )))
}

/// The advice for the folder itself: most often it belongs to a service, and an operator runs a command as root.
fn of_another(folder: &Path, owner: u32, own: u32) -> String {
    format!(
        "{} belongs to user {owner}, and this process runs as user {own}; run it as that user: sudo -u '#{owner}' grid …; or, if \
         nothing else uses it and you trust its content, run: chown -hR {own} {}",
        folder.display(),
        quoted(folder)
    )
}

/// Whether another user could replace the folder.
fn check_way(folder: &Path) -> Result<(), Refused> {
    let own = rustix::process::geteuid().as_raw();
    let given = std::path::absolute(folder)?;
    for step in given.ancestors() {
        let Ok(found) = fs::symlink_metadata(step) else { continue };
        if found.is_symlink() && ![0, own].contains(&found.uid()) {
            return Err(Refused::Unsafe(format!(
                "{} is a symbolic link of user {}, who may point it elsewhere; name the folder itself",
                step.display(),
                found.uid()
            )));
        }
    }
    let Some(there) = given.ancestors().find_map(|step| step.canonicalize().ok()) else { return Ok(()) };
    // For an existing folder its parents count, otherwise all that exist.
    let skipped = usize::from(folder.exists());
    for above in there.ancestors().skip(skipped) {
        let found = fs::metadata(above)?;
        let mode = found.mode();
        if mode & EVERYBODY_WRITES != 0 && mode & STICKY == 0 {
            let owner = found.uid();
            let who = if [0, owner].contains(&own) { String::new() } else { format!(" as user {owner}") };
            return Err(Refused::Unsafe(format!(
                "every user may replace what is in {} (mode {:04o}), this folder included; run{who}: chmod +t {}{}",
                above.display(),
                mode & 0o7777,
                quoted(above),
                mount::without_modes(above)
            )));
        }
    }
    Ok(())
}

/// Users who own a parent of this folder, or whose group may write to it, could replace it too. They are the operator's choice:
/// a home folder, the group of administrators.
fn warn_of_neighbours(folder: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let Ok(folder) = folder.canonicalize() else { return };
    for above in folder.ancestors().skip(1) {
        let Ok(found) = fs::metadata(above) else { continue };
        let is_sticky = found.mode() & STICKY != 0;
        let who = match found.uid() {
            owner if ![0, own].contains(&owner) => format!("user {owner}"),
            _ if found.mode() & GROUP_WRITES != 0 && !is_sticky => format!("group {}", found.gid()),
            _ => continue,
        };
        tracing::warn!("{}: {who} may change {}, and so replace this data folder", folder.display(), above.display());
    }
}
