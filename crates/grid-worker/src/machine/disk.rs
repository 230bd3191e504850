//! Reads and writes the real files under the journal, and files that are written whole or not at all.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::space::{give_up_reserve, is_full, with_reserve};
use crate::seams::{Disk, Survives, SyncFile};

impl SyncFile for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Real files: `journal` and, beside it, `journal.len`.
pub struct FileDisk {
    path: PathBuf,
    file: Option<Arc<File>>,
    extent: Option<File>,
}

impl FileDisk {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, extent: None }
    }

    fn extent_path(&self) -> PathBuf {
        self.path.with_extension("len")
    }

    fn file(&self) -> io::Result<&Arc<File>> {
        self.file.as_ref().ok_or_else(|| io::Error::other("the journal is not open"))
    }
}

impl Disk for FileDisk {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut file = match grid_folder::append(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        self.file = Some(Arc::new(file));
        Ok(Some(bytes))
    }

    /// On a full disk the reserve is given up for it; what was written of `bytes` by then stays where it is.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file()?.as_ref();
        let mut rest = bytes;
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) && give_up_reserve(folder_of(&self.path)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn truncate(&mut self, len_bytes: u64) -> io::Result<()> {
        let file = self.file()?;
        file.set_len(len_bytes)?;
        file.sync_all()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_whole(&self.path, bytes)?;
        self.file = Some(Arc::new(grid_folder::append(&self.path)?));
        Ok(())
    }

    fn sync_file(&self) -> io::Result<Arc<dyn SyncFile>> {
        Ok(Arc::<File>::clone(self.file()?))
    }

    fn read_extent(&mut self) -> io::Result<Vec<u8>> {
        Ok(grid_folder::read_if_there(&self.extent_path())?.unwrap_or_default())
    }

    fn write_extent(&mut self, bytes: &[u8], survives: Survives) -> io::Result<()> {
        let path = self.extent_path();
        let file = match &mut self.extent {
            Some(file) => file,
            none => none.insert(grid_folder::update(&path)?),
        };
        with_reserve(folder_of(&path), || file.write_all_at(bytes, 0))?;
        if survives == Survives::PowerCut {
            file.set_len(bytes.len() as u64)?;
            file.sync_all()?;
            sync_folder_of(&path)?;
        }
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<()> {
        // The journal first: without it the rest means nothing.
        if_there(std::fs::rename(&self.path, self.path.with_extension("old")))?;
        if_there(std::fs::remove_file(self.extent_path()))?;
        sync_folder_of(&self.path)
    }
}

/// Writes a file so that a power cut leaves the old or the new one, never a part. On a full disk the reserve is given up for
/// it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let written = with_reserve(folder_of(path), || {
        let mut file = grid_folder::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Part of a file that nobody reads would only take up the space that is missing.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    std::fs::rename(&temporary, path)?;
    sync_folder_of(path)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
