//! Snapshots on disk.
//!
//! ```text
//!   snapshots/TERM-INDEX-HASH.snap   the machine's copy
//!   snapshots/TERM-INDEX-HASH.json   length, hash, position, membership; its presence makes the snapshot one
//!   snapshots/*.tmp                  unfinished; removed at start, as all but the newest two snapshots are
//!   snapshots/*.damaged              was one, and is kept for an operator; nothing reads it
//! ```
//!
//! L5: [`Snapshots::publish`] returns after file, description and folder are
//! fsynced; only then may the log be purged. The one before stays, and so does the log behind it: a snapshot that turns
//! out damaged costs a longer replay, and nothing else.
//! Builds, received snapshots and readers of the newest work side by side: naming, removing and listing are one at a
//! time, a snapshot is opened before it can be removed, and unfinished files go at the start only, when nobody has one.
//! Not here: what makes a snapshot one (`description`), how the machine makes or takes a copy, how one travels.
//! A received snapshot is copied once more, from the anonymous file it arrived
//! in: a plain file handle is all that openraft passes on, and a second
//! sequential write is cheap beside the transfer.

mod description;
pub mod persistence;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::data_dir::folder::{Folder, sync_dir};
use crate::error::OpenError;
use crate::group::{SnapshotMeta, StoredMembership, position_of};
use crate::machine::LogPosition;

pub use description::Snapshot;
use description::{damaged, digest};

/// The current one and the one before.
const KEPT: usize = 2;

/// The snapshots of one member; the newest is current.
#[derive(Debug, Clone)]
pub struct Snapshots {
    dir: PathBuf,
    /// Held while names come, go or are listed; never while content is read or written.
    names: Arc<Mutex<()>>,
}

/// The snapshots in the folder of a member whose content is what it was, wherever they stand; nothing is changed.
pub fn sound_snapshots(data_dir: &Path) -> Vec<(PathBuf, Option<LogPosition>)> {
    let snapshots = Snapshots::new(Folder::new(data_dir).snapshots());
    let descriptions = snapshots.files().unwrap_or_default().into_iter().filter(|path| is(path, "json"));
    let sound = descriptions.filter_map(|path| Snapshot::read(&path).ok()).filter(|found| found.verify().is_ok());
    sound.map(|found| (found.path, found.last)).collect()
}

/// Compares a snapshot with its description, if that lies beside it.
pub fn check_snapshot(path: &Path) -> Result<(), OpenError> {
    let description = path.with_extension("json");
    if !description.exists() {
        return Ok(());
    }
    let checked = Snapshot::read(&description).and_then(|found| found.verify());
    checked.map_err(|e| OpenError::SnapshotDamaged { path: path.to_path_buf(), reason: e.to_string() })
}

impl Snapshots {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, names: Arc::default() }
    }

    /// Those that are what they were, newest first, and what is wrong with the others. Changes nothing.
    pub fn look_over(&self) -> io::Result<(Vec<Snapshot>, Vec<String>)> {
        let (mut sound, mut problems) = (Vec::new(), Vec::new());
        for path in self.files()?.into_iter().filter(|path| is(path, "json")) {
            match Snapshot::read(&path).and_then(|found| found.verify().map(|()| found)) {
                Ok(found) => sound.push(found),
                Err(e) => problems.push(e.to_string()),
            }
        }
        sound.sort_by_key(|found| std::cmp::Reverse(found.last));
        Ok((sound, problems))
    }

    /// Sets aside descriptions that are not those of `sound`, with their copies, and removes what a crash left
    /// unfinished and what is older than the newest two.
    pub fn tidy(&self, sound: &[Snapshot]) -> io::Result<()> {
        let _names = self.names();
        let is_sound = |path: &Path| sound.iter().any(|found| found.path.file_stem() == path.file_stem());
        for path in self.files()?.into_iter().filter(|path| is(path, "json") && !is_sound(path)) {
            tracing::error!("{}: the snapshot is damaged and was set aside", path.display());
            for damaged in [path.with_extension("snap"), path] {
                let aside = damaged.with_extension(match damaged.extension() {
                    Some(extension) => format!("{}.damaged", extension.display()),
                    None => "damaged".to_owned(),
                });
                match fs::rename(&damaged, aside) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
        }
        for unfinished in self.files()?.into_iter().filter(|path| is(path, "tmp")) {
            fs::remove_file(unfinished)?;
        }
        sync_dir(&self.dir)?;
        self.remove_all_but(&sound[..sound.len().min(KEPT)])
    }

    /// A path for the machine to write to; nothing is there.
    pub fn unfinished(&self) -> io::Result<PathBuf> {
        let path = self.dir.join("building.tmp");
        remove_if_there(&path)?;
        Ok(path)
    }

    /// An anonymous file for a snapshot that is being received.
    pub fn receiving(&self) -> io::Result<File> {
        let path = self.dir.join("receiving.tmp");
        remove_if_there(&path)?;
        let file = grid_folder::create_new(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    /// Makes the file at `unfinished` the current snapshot, and opens it: newer ones may remove it again at once.
    pub fn publish(
        &self,
        unfinished: &Path,
        last: Option<LogPosition>,
        membership: StoredMembership,
    ) -> io::Result<(Snapshot, File)> {
        let mut file = grid_folder::append(unfinished)?;
        let content = digest(&mut file, &mut io::sink())?;
        file.sync_all()?;
        file.rewind()?;
        let snapshot = Snapshot::new(&self.dir, last, membership, content);
        self.name(unfinished, &snapshot)?;
        Ok((snapshot, file))
    }

    /// Makes a received snapshot the current one, if it is what was sent.
    pub fn adopt(&self, mut received: &File, meta: &SnapshotMeta) -> io::Result<Snapshot> {
        received.rewind()?;
        // Not `unfinished`: a build may be under way.
        let unfinished = self.dir.join("adopting.tmp");
        let mut file = grid_folder::create(&unfinished)?;
        let content = digest(&mut received, &mut file)?;
        file.sync_all()?;
        let last = meta.last_log_id.as_ref().map(position_of);
        let snapshot = Snapshot::new(&self.dir, last, meta.last_membership.clone(), content);
        if snapshot.meta().snapshot_id != meta.snapshot_id {
            return Err(damaged(&unfinished, "received snapshot is not the one that was sent"));
        }
        self.name(&unfinished, &snapshot)?;
        Ok(snapshot)
    }

    /// The current snapshot, open. Its description is checked, its content is not.
    pub fn newest(&self) -> io::Result<Option<(Snapshot, File)>> {
        let _names = self.names();
        let Some(newest) = self.described()?.into_iter().next() else { return Ok(None) };
        let file = grid_folder::open(&newest.path)?;
        Ok(Some((newest, file)))
    }

    /// The snapshot before the current one.
    pub fn previous(&self) -> io::Result<Option<Snapshot>> {
        let _names = self.names();
        Ok(self.described()?.into_iter().nth(1))
    }

    fn names(&self) -> MutexGuard<'_, ()> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Newest first.
    fn described(&self) -> io::Result<Vec<Snapshot>> {
        let descriptions = self.files()?.into_iter().filter(|path| is(path, "json"));
        let mut found: Vec<Snapshot> = descriptions.map(|path| Snapshot::read(&path)).collect::<io::Result<_>>()?;
        found.sort_by_key(|found| std::cmp::Reverse(found.last));
        Ok(found)
    }

    fn name(&self, unfinished: &Path, snapshot: &Snapshot) -> io::Result<()> {
        let _names = self.names();
        fs::rename(unfinished, &snapshot.path)?;
        sync_dir(&self.dir)?;
        snapshot.describe()?;
        let kept: Vec<Snapshot> = self.described()?.into_iter().take(KEPT).collect();
        self.remove_all_but(&kept)
    }

    /// Descriptions go first, for good: a copy without one is an orphan, a
    /// description without its copy is damage.
    fn remove_all_but(&self, kept: &[Snapshot]) -> io::Result<()> {
        let mut others = self.files()?;
        others.retain(|path| !is(path, "tmp"));
        others.retain(|path| !kept.iter().any(|kept| path.file_stem() == kept.path.file_stem()));
        let (descriptions, copies): (Vec<_>, Vec<_>) = others.into_iter().partition(|path| is(path, "json"));
        for paths in [descriptions, copies] {
            for path in &paths {
                fs::remove_file(path)?;
            }
            if !paths.is_empty() {
                sync_dir(&self.dir)?;
            }
        }
        Ok(())
    }

    /// What this module made; other files are left alone.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if ["snap", "json", "tmp"].iter().any(|extension| is(&path, extension)) {
                files.push(path);
            }
        }
        Ok(files)
    }
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
