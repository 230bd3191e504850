//! Removes a folder and its content: follows no link and does not touch what is mounted there.
//!
//! A task that runs as root may leave a bind mount in its folder; the mounted files do not belong to the worker. Such a mount
//! may be of the same file system and have its device number, so the kernel is asked to stop at mounts (`RESOLVE_NO_XDEV`).
//! Where it cannot, device numbers are compared.
//! Sub-folders are moved up into the folder itself and emptied there one by one: a tree of any depth needs three descriptors
//! and no recursion.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, chmodat, fchmod, fstat, open, openat, openat2, renameat,
    unlinkat,
};
use rustix::io::Errno;

use crate::files::FOLDER_MODE;

/// How often a folder is listed again because a listing left something out.
const AGAIN: u32 = 1000;

/// Removes a folder with its content, or a file of that name. A missing one is not an error. Blocks, for a long time if it has
/// many files or a file system does not answer.
///
/// # Errors
/// Names the first entry that is left; the rest was removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let name = CString::new(name.as_bytes())?;
    let parent = match open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        parent => parent?,
    };
    let root = match enter(&parent, &name) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlinkat(&parent, &name, AtFlags::empty())?),
        root => root.map_err(|errno| left(&name, errno))?,
    };
    let mut removal = Removal { root, moved: 0, again: AGAIN, problem: None };
    removal.run()?;
    match (unlinkat(&parent, &name, AtFlags::REMOVEDIR), removal.problem) {
        (Ok(()) | Err(Errno::NOENT), _) => Ok(()),
        (Err(_), Some(problem)) => Err(problem),
        (Err(errno), None) => Err(left(&name, errno)),
    }
}

struct Removal {
    root: OwnedFd,
    /// Numbers the names of folders that were moved up.
    moved: u64,
    again: u32,
    /// The first entry that could not be removed.
    problem: Option<io::Error>,
}

impl Removal {
    fn run(&mut self) -> io::Result<()> {
        let root = self.root.try_clone()?;
        let mut waiting = self.sweep(&root)?;
        while let Some(name) = waiting.pop() {
            let folder = match enter(&root, &name) {
                Err(Errno::NOENT) => continue,
                Err(errno) => {
                    self.note(&name, errno);
                    continue;
                }
                Ok(folder) => folder,
            };
            let mut is_stuck = false;
            for inner in self.sweep(&folder)? {
                match self.move_up(&folder, &inner) {
                    Ok(name) => waiting.push(name),
                    Err(Errno::NOENT) => {}
                    Err(errno) => {
                        is_stuck = true;
                        self.note(&inner, errno);
                    }
                }
            }
            match unlinkat(&root, &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY) if !is_stuck && self.problem.is_none() && self.again > 0 => {
                    self.again -= 1;
                    waiting.push(name);
                }
                Err(errno) => self.note(&name, errno),
            }
        }
        Ok(())
    }

    /// Removes every entry of a folder except folders, and returns the names of those.
    fn sweep(&mut self, folder: &OwnedFd) -> io::Result<Vec<CString>> {
        let mut folders = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                folders.push(name.to_owned());
                continue;
            }
            match unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // The file system does not report the type of an entry.
                Err(Errno::ISDIR) => folders.push(name.to_owned()),
                Err(errno) => self.note(name, errno),
            }
        }
        Ok(folders)
    }

    /// Its name in the root.
    fn move_up(&mut self, folder: &OwnedFd, name: &CStr) -> Result<CString, Errno> {
        let mut is_opened = false;
        loop {
            self.moved += 1;
            let fresh = CString::new(format!(".removed-{}", self.moved)).map_err(|_| Errno::INVAL)?;
            match renameat(folder, name, &self.root, &fresh) {
                Ok(()) => return Ok(fresh),
                // Left by an earlier removal that did not finish.
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                // A folder that its owner may not write to cannot be moved.
                Err(Errno::ACCESS) if !is_opened => {
                    fchmod(enter(folder, name)?, Mode::from_raw_mode(FOLDER_MODE))?;
                    is_opened = true;
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    fn note(&mut self, name: &CStr, errno: Errno) {
        self.problem.get_or_insert_with(|| left(name, errno));
    }
}

/// Opens a folder unless something is mounted there.
fn enter(parent: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    match open_within(&parent, name) {
        // The owner may change that. A mount was refused before its mode was read.
        Err(Errno::ACCESS) => {
            chmodat(&parent, name, Mode::from_raw_mode(FOLDER_MODE), AtFlags::empty())?;
            open_within(&parent, name)
        }
        opened => opened,
    }
}

fn open_within(parent: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(&parent, name, flags, Mode::empty(), within) {
        // Not every kernel and container has the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    let folder = openat(&parent, name, flags, Mode::empty())?;
    if fstat(&folder)?.st_dev != fstat(&parent)?.st_dev {
        return Err(Errno::XDEV);
    }
    Ok(folder)
}

fn left(name: &CStr, errno: Errno) -> io::Error {
    let name = name.to_string_lossy();
    match errno {
        Errno::XDEV | Errno::BUSY => io::Error::other(format!("something is mounted at {name:?}: unmount it (umount)")),
        errno => {
            let error = io::Error::from(errno);
            io::Error::new(error.kind(), format!("{name:?} cannot be removed: {error}"))
        }
    }
}
