//! Opens and creates files in a data folder: never through a link, never anything but a regular file, readable by the owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

pub(crate) const FILE_MODE: u32 = 0o600;
pub(crate) const FOLDER_MODE: u32 = 0o700;

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true), path, false)
}

/// Reads a whole file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file; `None` if there is none.
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Opens an empty file for writing: a new one, or an existing one that is truncated.
pub fn create(path: &Path) -> io::Result<File> {
    // Truncated only after it is known to be a regular file with one name.
    let file = opened(OpenOptions::new().read(true).write(true).create(true).truncate(false), path, true)?;
    file.set_len(0)?;
    Ok(file)
}

/// Creates a file that does not exist, for reading and writing.
pub fn create_new(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true).write(true).create_new(true), path, true)
}

/// Opens a file for reading and writing with its content; creates it if it does not exist.
pub fn update(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true).write(true).create(true).truncate(false), path, true)
}

/// Opens an existing file for reading, appending and truncating.
pub fn append(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true).append(true), path, true)
}

/// Copies `from`, wherever it is, to a new file `to`.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let mut source = File::open(from)?;
    io::copy(&mut source, &mut create_new(to)?)
}

/// Creates a folder and its missing parents. An existing one must be a folder and not a link.
pub fn make_dir(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(found) if found.is_symlink() => return Err(link(path)),
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is not a folder", path.display())));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && !parent.exists()
    {
        make_dir(parent)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        // Another thread created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_folder(path) => return Ok(()),
        made => made?,
    }
    fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// O_NONBLOCK: opening a pipe in place of a file must not block before its type is known.
fn opened(options: &mut OpenOptions, path: &Path, writes: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let opened = options.mode(FILE_MODE).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::LOOP.raw_os_error() => link(path),
        Some(code) if code == Errno::NXIO.raw_os_error() => special(path),
        _ => error,
    })?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(special(path));
    }
    if writes {
        if std::os::unix::fs::MetadataExt::nlink(&found) > 1 {
            let problem = "has a second name (a hard link), so that writing to it would change that file too";
            return Err(io::Error::other(format!("{} {problem}", path.display())));
        }
        if found.permissions().mode() & 0o777 != FILE_MODE {
            file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        }
    }
    Ok(file)
}

fn link(path: &Path) -> io::Error {
    io::Error::other(format!("{} is a symbolic link, which is not followed", path.display()))
}

fn special(path: &Path) -> io::Error {
    io::Error::other(format!("{} is not a regular file", path.display()))
}
