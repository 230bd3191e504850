//! The file under the journal, as a seam: a simulator puts a disk here that loses what was not synced.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub trait Disk: Send + 'static {
    /// Everything in the file; nothing if there is none.
    fn read(&mut self) -> io::Result<Vec<u8>>;
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn truncate(&mut self, len_bytes: u64) -> io::Result<()>;
    /// Replaces the file; after this the new content, and only that, survives a power cut.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Syncs what was appended before this call, from any thread.
    fn sync_file(&self) -> io::Result<Arc<dyn SyncFile>>;
}

pub trait SyncFile: Send + Sync {
    fn sync(&self) -> io::Result<()>;
}

impl SyncFile for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A real file.
pub struct FileDisk {
    path: PathBuf,
    file: Option<Arc<File>>,
}

impl FileDisk {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    fn file(&self) -> io::Result<&Arc<File>> {
        self.file.as_ref().ok_or_else(|| io::Error::other("the journal is not open"))
    }
}

impl Disk for FileDisk {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut file = match OpenOptions::new().read(true).append(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        self.file = Some(Arc::new(file));
        Ok(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.as_ref().write_all(bytes)
    }

    fn truncate(&mut self, len_bytes: u64) -> io::Result<()> {
        let file = self.file()?;
        file.set_len(len_bytes)?;
        file.sync_all()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_whole(&self.path, bytes)?;
        self.file = Some(Arc::new(OpenOptions::new().read(true).append(true).open(&self.path)?));
        Ok(())
    }

    fn sync_file(&self) -> io::Result<Arc<dyn SyncFile>> {
        Ok(Arc::<File>::clone(self.file()?))
    }
}

/// Writes a file so that a power cut leaves the old or the new one, never a part.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
