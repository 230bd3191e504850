//! Checks which files a caller may read and write, and opens them by descriptors, one part of a path at a time.
//!
//! ```text
//!   /srv/app/etc/x.conf  --longest rule--> /srv/app (opened as the operator wrote it) --etc, no link--> folder --x.conf, no link--> file
//! ```
//!
//! A rule is a folder that the operator trusts, links in its own path included. Below it no link is ever followed and `..` does not
//! exist, so that nobody who can write there leads a call out of it, also not by swapping a folder for a link meanwhile: every part is
//! opened relative to the descriptor of the one before.
//! The descriptors are `O_PATH`: looking at a device, a pipe or a socket has no effect on it. What is read is opened again through
//! the descriptor that was looked at.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, open, openat};
use rustix::io::Errno;

/// How a folder is opened on the way to a file.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What a caller wants of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
}

/// One entry of `--allow-path`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    folder: PathBuf,
    access: Access,
}

/// The list of folders.
#[derive(Debug, Clone)]
pub struct Paths {
    rules: Vec<Rule>,
    /// The worker's data folder, in which no caller may name files. It may not exist yet.
    own: Option<PathBuf>,
}

/// A file, or where one would be: a name in a folder.
#[derive(Debug)]
pub struct Place {
    pub folder: OwnedFd,
    pub name: std::ffi::OsString,
    /// As the caller wrote it.
    pub path: PathBuf,
}

/// How a walk along a path ended.
enum Way {
    Open(Place),
    /// This folder is missing.
    Missing(PathBuf),
}

/// Reads one entry: `DIR` (read and write), `DIR:ro` or `DIR:rw`.
///
/// # Errors
/// It is no absolute path without `.` and `..`.
fn rule(entry: &str) -> Result<Rule, String> {
    let (folder, access) = match entry.rsplit_once(':') {
        Some((folder, "ro")) => (folder, Access::Read),
        Some((folder, "rw")) => (folder, Access::Write),
        _ => (entry, Access::Write),
    };
    let trimmed = if folder == "/" { folder } else { folder.strip_suffix('/').unwrap_or(folder) };
    if parts(Path::new(trimmed)).is_none() || trimmed.contains(char::is_control) {
        return Err(format!("{entry:?} is no folder: a path from / without . and .., with :ro or :rw behind it"));
    }
    Ok(Rule { folder: PathBuf::from(trimmed), access })
}

/// Whether an entry of `--allow-path` can be one.
///
/// # Errors
/// Why not.
pub fn check_path(entry: &str) -> Result<(), String> {
    rule(entry).map(drop)
}

impl Paths {
    /// # Errors
    /// An entry that is none.
    pub fn new(entries: &[String]) -> Result<Self, String> {
        Ok(Self { rules: entries.iter().map(|entry| rule(entry)).collect::<Result<_, _>>()?, own: None })
    }

    /// Without the worker's data folder, whatever the rules say: its journal decides what ran.
    #[must_use]
    pub fn without(self, data_dir: &Path) -> Self {
        Self { own: Some(data_dir.to_owned()), ..self }
    }

    fn check_folder(&self, folder: &OwnedFd, path: &Path) -> Result<(), String> {
        let Some(own) = self.own.as_ref().and_then(|own| rustix::fs::stat(own).ok()) else { return Ok(()) };
        let stat = fstat(folder).map_err(|error| format!("{}: {error}", path.display()))?;
        if is_same(&stat, &own) {
            return Err(refused(path, "is the data folder of this worker, which no list can allow"));
        }
        Ok(())
    }

    /// Refuses the folder of a rule that is somewhere in the worker's data folder, whatever links lead there.
    fn check_above(&self, folder: &OwnedFd, path: &Path) -> Result<(), String> {
        let Some(own) = self.own.as_ref().and_then(|own| rustix::fs::stat(own).ok()) else { return Ok(()) };
        let unreadable = |error: Errno| format!("{}: the folders above it: {error}", path.display());
        let up = |folder: &OwnedFd| openat(folder, "..", FOLDER, Mode::empty()).map_err(unreadable);
        let (mut stat, mut above) = (fstat(folder).map_err(unreadable)?, up(folder)?);
        loop {
            let next = fstat(&above).map_err(unreadable)?;
            if is_same(&next, &own) {
                return Err(refused(path, "is in the data folder of this worker, which no list can allow"));
            }
            // Only the root is its own parent.
            if is_same(&next, &stat) {
                return Ok(());
            }
            (stat, above) = (next, up(&above)?);
        }
    }

    /// The folder and name of `path`. May block.
    ///
    /// # Errors
    /// It is not allowed, and then which setting would allow it; or a folder on the way is missing or a link.
    pub fn place(&self, path: &str, access: Access) -> Result<Place, String> {
        match self.walk(Path::new(path), access)? {
            Way::Open(place) => Ok(place),
            Way::Missing(folder) => Err(format!("{path}: there is no folder {} on this node", folder.display())),
        }
    }

    /// Whether anything is there. May block.
    ///
    /// # Errors
    /// It is not allowed to look.
    pub fn exists(&self, path: &str) -> Result<bool, String> {
        match self.walk(Path::new(path), Access::Read)? {
            Way::Open(place) => Ok(place.look()?.is_some()),
            Way::Missing(_) => Ok(false),
        }
    }

    fn walk(&self, path: &Path, access: Access) -> Result<Way, String> {
        let Some(all) = parts(path).filter(|parts| !parts.is_empty()) else {
            return Err(refused(path, "is not a path from / without . and .."));
        };
        let rule = self.rule_of(path, access)?;
        let below = &all[parts(&rule.folder).map_or(0, |parts| parts.len())..];
        let Some((name, folders)) = below.split_last() else {
            return Err(refused(path, "is an allowed folder itself; only files in it can be named"));
        };
        let mut folder = match open(&rule.folder, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Way::Missing(rule.folder.clone())),
            opened => opened.map_err(|error| format!("{}: {error}", rule.folder.display()))?,
        };
        let mut so_far = rule.folder.clone();
        self.check_folder(&folder, &so_far)?;
        self.check_above(&folder, &so_far)?;
        for part in folders {
            so_far.push(part);
            folder = match openat(&folder, *part, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) => return Ok(Way::Missing(so_far)),
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    return Err(refused(&so_far, "is a symbolic link or no folder; links are not followed"));
                }
                opened => opened.map_err(|error| format!("{}: {error}", so_far.display()))?,
            };
            self.check_folder(&folder, &so_far)?;
        }
        Ok(Way::Open(Place { folder, name: (*name).to_owned(), path: path.to_owned() }))
    }

    /// The longest rule decides, so that a folder within another can have less, or more.
    fn rule_of(&self, path: &Path, access: Access) -> Result<&Rule, String> {
        let within = self.rules.iter().filter(|rule| path.starts_with(&rule.folder));
        let rule = within.max_by_key(|rule| (rule.folder.as_os_str().len(), rule.access));
        let folder = path.parent().unwrap_or(path).display();
        match (rule, access) {
            (Some(rule), access) if rule.access >= access => Ok(rule),
            (Some(rule), _) => {
                let known = rule.folder.display();
                Err(refused(
                    path,
                    &format!("may only be read on this worker ({known}:ro): start it with --allow-path {folder}:rw"),
                ))
            }
            (None, Access::Read) => Err(refused(
                path,
                &format!("is in no folder that this worker allows: start it with --allow-path {folder}:ro"),
            )),
            (None, Access::Write) => Err(refused(
                path,
                &format!("is in no folder that this worker allows: start it with --allow-path {folder}:rw"),
            )),
        }
    }
}

impl Place {
    /// What is there, without any effect on it; none if there is nothing.
    pub fn look(&self) -> Result<Option<(OwnedFd, Stat)>, String> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(&self.folder, &self.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(|error| self.fault(error))?,
        };
        let stat = fstat(&found).map_err(|error| self.fault(error))?;
        Ok(Some((found, stat)))
    }

    /// The regular file that is there; none if there is nothing.
    ///
    /// # Errors
    /// Something else is there.
    pub fn file(&self) -> Result<Option<(File, Stat)>, String> {
        let Some((found, stat)) = self.look()? else { return Ok(None) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused(&self.path, &format!("is {}, not a regular file", kind(&stat))));
        }
        // The same file, whatever has its name by now.
        let again = format!("/proc/self/fd/{}", found.as_raw_fd());
        let opened = openat(CWD, again, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty());
        Ok(Some((File::from(opened.map_err(|error| self.fault(error))?), stat)))
    }

    pub fn fault(&self, error: impl std::fmt::Display) -> String {
        format!("{}: {error}", self.path.display())
    }
}

/// What an entry of a folder is, for an operator.
#[must_use]
pub fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn refused(path: &Path, why: &str) -> String {
    format!("refused by this worker: {} {why}", path.display())
}

/// The parts of a path from the root; none if it is anything else, or spelled in a way that means more than it says.
fn parts(path: &Path) -> Option<Vec<&OsStr>> {
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) {
        return None;
    }
    let parts: Option<Vec<&OsStr>> =
        parts.map(|part| if let Component::Normal(part) = part { Some(part) } else { None }).collect();
    // `components` passes over `.` and `//` in silence.
    let written = path.as_os_str().as_bytes();
    let plain =
        written == b"/" || written[1..].split(|byte| *byte == b'/').all(|part| !part.is_empty() && part != b".");
    parts.filter(|_| plain)
}

#[cfg(test)]
mod tests;
