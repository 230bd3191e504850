//! Snapshots on disk.
//!
//! ```text
//!   snapshots/TERM-INDEX-HASH.snap   the machine's copy
//!   snapshots/TERM-INDEX-HASH.json   length, hash, position, membership; its presence makes the snapshot one
//!   snapshots/*.tmp                  unfinished; removed at start, as all but the newest two snapshots are
//!   snapshots/*.damaged              was one, and is kept for a person to look at; nothing reads it
//! ```
//!
//! L5: [`Snapshots::publish`] returns after file, description and folder are
//! fsynced; only then may the log be purged. The one before stays, and so does the log behind it: a snapshot that turns
//! out damaged costs a longer replay, and nothing else. A snapshot is used only if its length and BLAKE3 hash are right;
//! the hash is part of the id, so that a receiver checks what the sender wrote, and of the name, which shows a
//! description that was changed.
//! Not here: how the machine makes or takes a copy, how one travels.
//! A received snapshot is copied once more, from the anonymous file it arrived
//! in: a plain file handle is all that openraft passes on, and a second
//! sequential write is cheap beside the transfer.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::OpenError;
use crate::folder::{Folder, sync_dir, write_file};
use crate::group::{SnapshotMeta, StoredMembership, log_id_of, position_of};
use crate::machine::{LogPosition, MachinePosition};
use crate::record::{decode_membership, encode_stored};

const FORMAT: u32 = 1;
/// The current one and the one before.
const KEPT: usize = 2;

/// The snapshots of one member; the newest is current.
#[derive(Debug, Clone)]
pub struct Snapshots {
    dir: PathBuf,
}

/// The snapshots in the folder of a member whose content is what it was, wherever they stand; nothing is changed.
pub fn sound_snapshots(data_dir: &Path) -> Vec<(PathBuf, Option<LogPosition>)> {
    let snapshots = Snapshots { dir: Folder::new(data_dir).snapshots() };
    let descriptions = snapshots.files().unwrap_or_default().into_iter().filter(|path| is(path, "json"));
    let sound = descriptions.filter_map(|path| read_description(&path).ok()).filter(|found| found.verify().is_ok());
    sound.map(|found| (found.path, found.last)).collect()
}

/// Compares a snapshot with its description, if that lies beside it.
pub fn check_snapshot(path: &Path) -> Result<(), OpenError> {
    let description = path.with_extension("json");
    if !description.exists() {
        return Ok(());
    }
    let checked = read_description(&description).and_then(|found| found.verify());
    checked.map_err(|e| OpenError::SnapshotDamaged { path: path.to_path_buf(), reason: e.to_string() })
}

/// A snapshot that was published.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// `None` for the copy of a machine that had applied nothing.
    pub last: Option<LogPosition>,
    pub membership: StoredMembership,
    pub path: PathBuf,
    id: String,
    len: u64,
    hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: u32,
    last: Option<LogPosition>,
    len: u64,
    blake3: String,
    /// As a machine keeps it.
    membership: Option<Vec<u8>>,
    /// Of all of the above.
    check: String,
}

impl Description {
    fn sum(&self) -> io::Result<String> {
        let content = serde_json::to_vec(&(self.format, self.last, self.len, &self.blake3, &self.membership))?;
        Ok(blake3::hash(&content).to_hex().to_string())
    }
}

impl Snapshot {
    pub fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.last.map(log_id_of),
            last_membership: self.membership.clone(),
            snapshot_id: self.id.clone(),
        }
    }

    pub fn position(&self) -> io::Result<MachinePosition> {
        Ok(MachinePosition { applied: self.last, membership: encode_stored(&self.membership)? })
    }

    /// Reads the whole file and compares.
    pub fn verify(&self) -> io::Result<()> {
        let (len, hash) = digest(&mut File::open(&self.path)?, &mut io::sink())?;
        if len != self.len || hash != self.hash {
            return Err(damaged(&self.path, "content does not match its description"));
        }
        Ok(())
    }
}

impl Snapshots {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Those that are what they were, newest first, and what is wrong with the others. Changes nothing.
    pub fn look_over(&self) -> io::Result<(Vec<Snapshot>, Vec<String>)> {
        let (mut sound, mut problems) = (Vec::new(), Vec::new());
        for path in self.files()?.into_iter().filter(|path| is(path, "json")) {
            match read_description(&path).and_then(|found| found.verify().map(|()| found)) {
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
        sync_dir(&self.dir)?;
        self.remove_all_but(&sound[..sound.len().min(KEPT)])
    }

    /// The snapshot before the current one.
    pub fn previous(&self) -> io::Result<Option<Snapshot>> {
        Ok(self.described()?.into_iter().nth(1))
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
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    /// Makes the file at `unfinished` the current snapshot.
    pub fn publish(
        &self,
        unfinished: &Path,
        last: Option<LogPosition>,
        membership: StoredMembership,
    ) -> io::Result<Snapshot> {
        let mut file = File::options().read(true).write(true).open(unfinished)?;
        let (len, hash) = digest(&mut file, &mut io::sink())?;
        file.sync_all()?;
        self.name(unfinished, last, membership, len, hash)
    }

    /// Makes a received snapshot the current one, if it is what was sent.
    pub fn adopt(&self, mut received: File, meta: &SnapshotMeta) -> io::Result<Snapshot> {
        let last = meta.last_log_id.as_ref().map(position_of);
        received.rewind()?;
        // Not `unfinished`: a build may be under way.
        let unfinished = self.dir.join("adopting.tmp");
        let mut file = File::create(&unfinished)?;
        let (len, hash) = digest(&mut received, &mut file)?;
        file.sync_all()?;
        if id_of(last, &hash) != meta.snapshot_id {
            return Err(damaged(&unfinished, "received snapshot is not the one that was sent"));
        }
        self.name(&unfinished, last, meta.last_membership.clone(), len, hash)
    }

    /// The current snapshot. Its description is checked, its content is not.
    pub fn newest(&self) -> io::Result<Option<Snapshot>> {
        Ok(self.described()?.into_iter().next())
    }

    /// Newest first.
    fn described(&self) -> io::Result<Vec<Snapshot>> {
        let descriptions = self.files()?.into_iter().filter(|path| is(path, "json"));
        let mut found: Vec<Snapshot> = descriptions.map(|path| read_description(&path)).collect::<io::Result<_>>()?;
        found.sort_by_key(|found| std::cmp::Reverse(found.last));
        Ok(found)
    }

    fn name(
        &self,
        unfinished: &Path,
        last: Option<LogPosition>,
        membership: StoredMembership,
        len: u64,
        hash: String,
    ) -> io::Result<Snapshot> {
        let id = id_of(last, &hash);
        let path = self.dir.join(format!("{id}.snap"));
        fs::rename(unfinished, &path)?;
        sync_dir(&self.dir)?;
        let membership_bytes = encode_stored(&membership)?;
        let (blake3, check) = (hash.clone(), String::new());
        let mut description = Description { format: FORMAT, last, len, blake3, membership: membership_bytes, check };
        description.check = description.sum()?;
        write_file(&path.with_extension("json"), &serde_json::to_vec(&description)?)?;
        let snapshot = Snapshot { last, membership, path, id, len, hash };
        let kept: Vec<Snapshot> = self.described()?.into_iter().take(KEPT).collect();
        self.remove_all_but(&kept)?;
        Ok(snapshot)
    }

    /// Descriptions go first, for good: a copy without one is an orphan, a
    /// description without its copy is damage.
    fn remove_all_but(&self, kept: &[Snapshot]) -> io::Result<()> {
        let mut others = self.files()?;
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

    /// What this module made; a stranger's file is left alone.
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

fn read_description(path: &Path) -> io::Result<Snapshot> {
    let description: Description =
        serde_json::from_slice(&fs::read(path)?).map_err(|e| damaged(path, &format!("unreadable description: {e}")))?;
    if description.format != FORMAT {
        return Err(damaged(path, &format!("unknown format {}", description.format)));
    }
    if path.file_stem().is_none_or(|stem| stem != id_of(description.last, &description.blake3).as_str()) {
        return Err(damaged(path, "it is not the description of the snapshot it is named after"));
    }
    let membership = match &description.membership {
        Some(bytes) => decode_membership(bytes)?,
        None => StoredMembership::default(),
    };
    if description.check != description.sum()? {
        return Err(damaged(path, "its checksum is wrong"));
    }
    let copy = path.with_extension("snap");
    let len = fs::metadata(&copy).map_err(|e| damaged(&copy, &e.to_string()))?.len();
    if len != description.len {
        return Err(damaged(&copy, &format!("{len} bytes instead of {}", description.len)));
    }
    Ok(Snapshot {
        last: description.last,
        membership,
        path: copy,
        id: id_of(description.last, &description.blake3),
        len: description.len,
        hash: description.blake3,
    })
}

fn id_of(last: Option<LogPosition>, hash: &str) -> String {
    let LogPosition { term, index } = last.unwrap_or(LogPosition { term: 0, index: 0 });
    format!("{term}-{index}-{hash}")
}

fn digest(from: &mut File, to: &mut impl Write) -> io::Result<(u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut len = 0;
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return Ok((len, hasher.finalize().to_hex().to_string()));
        }
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n])?;
        len += n as u64;
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn damaged(path: &Path, reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Snapshot, Snapshots};
    use crate::group::StoredMembership;
    use crate::machine::LogPosition;

    fn publish(snapshots: &Snapshots, index: u64, content: &str) -> Snapshot {
        let path = snapshots.unfinished().expect("path");
        fs::write(&path, content).expect("written");
        let last = Some(LogPosition { term: 1, index });
        snapshots.publish(&path, last, StoredMembership::default()).expect("published")
    }

    fn copy_all(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).expect("folder") {
            let path = entry.expect("entry").path();
            fs::copy(&path, to.join(path.file_name().expect("name"))).expect("copied");
        }
    }

    #[test]
    fn what_a_crash_left_beside_the_newest_is_removed() {
        let (dir, aside) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let snapshots = Snapshots::new(dir.path().into());
        publish(&snapshots, 2, "oldest");
        copy_all(dir.path(), aside.path());
        let older = publish(&snapshots, 5, "older");
        let newest = publish(&snapshots, 10, "newer");
        // As if the crash came before the oldest one was removed.
        copy_all(aside.path(), dir.path());
        fs::write(dir.path().join("building.tmp"), "half").expect("written");

        for _ in 0..2 {
            let (sound, problems) = snapshots.look_over().expect("looked");
            assert_eq!((&sound[..2], problems.len()), (&[newest.clone(), older.clone()][..], 0));
            snapshots.tidy(&sound).expect("tidy");
            assert_eq!(snapshots.newest().expect("listed"), Some(newest.clone()));
            assert_eq!(snapshots.previous().expect("listed"), Some(older.clone()));
            assert_eq!(fs::read_dir(dir.path()).expect("folder").count(), 4);
        }
    }

    #[test]
    fn a_damaged_snapshot_is_set_aside_wherever_the_damage_is() {
        let dir = tempfile::tempdir().expect("dir");
        let snapshots = Snapshots::new(dir.path().into());
        let older = publish(&snapshots, 5, "older");
        let newest = publish(&snapshots, 10, "newer");
        for path in [newest.path.clone(), newest.path.with_extension("json")] {
            let whole = fs::read(&path).expect("read");
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                for bad in [&flipped[..], &whole[..at]] {
                    fs::write(&path, bad).expect("written");
                    let (sound, problems) = snapshots.look_over().expect("looked");
                    assert_eq!((&sound[..], problems.len()), (std::slice::from_ref(&older), 1), "{at}");
                    let name = path.file_stem().expect("name").display().to_string();
                    assert!(problems[0].contains(&name), "{}", problems[0]);
                }
            }
            fs::write(&path, &whole).expect("written");
        }
        fs::write(&newest.path, "not it").expect("written");
        let (sound, _) = snapshots.look_over().expect("looked");
        snapshots.tidy(&sound).expect("tidy");
        assert_eq!(snapshots.newest().expect("listed"), Some(older));
        assert_eq!(fs::read_dir(dir.path()).expect("folder").count(), 4, "nothing was removed");
    }

    #[test]
    fn a_received_snapshot_must_be_the_one_that_was_sent() {
        let (sender, receiver) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let sent = publish(&Snapshots::new(sender.path().into()), 5, "content");
        let snapshots = Snapshots::new(receiver.path().into());

        for (content, is_taken) in [("contenT", false), ("content", true)] {
            let received = snapshots.receiving().expect("file");
            std::io::Write::write_all(&mut &received, content.as_bytes()).expect("written");
            let adopted = snapshots.adopt(received, &sent.meta());
            assert_eq!(adopted.is_ok(), is_taken, "{adopted:?}");
        }
        let adopted = snapshots.newest().expect("listed").expect("there");
        assert_eq!(adopted.meta(), sent.meta());
    }
}
