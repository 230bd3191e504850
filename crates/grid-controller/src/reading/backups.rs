//! Writes backups under the data folder and sends them piece by piece.
//!
//! The file has lost its name before its first byte goes out, so that it is gone when its reader is, however that ends. One
//! at a time: each needs the room of the whole state on disk. A slow reader holds up only the next backup: at most
//! [`AHEAD`] pieces are ready for it.
//! Not here: what a backup is (`grid-store`), what can be made of it (`restore`).

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use grid_store::Reader;
use grid_tasks::Tasks;
use grid_types::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::control::{Backup, Refusal};
use crate::time::time_text;

const PIECE_BYTES: usize = 256 * 1024;
const AHEAD: usize = 4;
const FILE: &str = "backup.part";

/// Where backups are made.
pub struct Backups {
    path: PathBuf,
    /// One at a time.
    place: Arc<Semaphore>,
    tasks: Tasks,
}

impl Backups {
    pub fn new(data_dir: &std::path::Path, tasks: Tasks) -> Self {
        Self { path: data_dir.join(FILE), place: Arc::new(Semaphore::new(1)), tasks }
    }

    /// `current_wall_ms`: the time up to which everything acknowledged is applied here; none: it is stale, and says so.
    pub async fn take(&self, reader: Reader, current_wall_ms: Option<u64>) -> Result<Backup, Refusal> {
        let Ok(place) = Arc::clone(&self.place).try_acquire_owned() else {
            return Err(Refusal::new(Code::Conflict, "another backup is being taken; try again when it is done"));
        };
        let path = self.path.clone();
        let failed = |e: &dyn std::fmt::Display| Refusal::new(Code::Internal, format!("cannot take a backup: {e}"));
        // It continues if the client has left, and keeps its place until then: two backups would delete each other's files.
        let work = move || (make(&path, &reader, current_wall_ms), place);
        let (made, place) = tokio::task::spawn_blocking(work).await.map_err(|e| failed(&e))?;
        let (file, written) = made.map_err(|e| failed(&e))?;
        let (pieces, taken) = mpsc::channel(AHEAD);
        self.tasks.start_blocking_request("backup", move || hand_out(file, &pieces, place));
        Ok(Backup {
            bytes: written.file_bytes,
            blake3: written.file_blake3,
            index: written.info.applied.index,
            leader_epoch: written.info.epoch.wire(),
            jobs: written.info.jobs,
            stale: written.info.stale,
            taken_at: time_text(written.info.taken_wall_ms),
            pieces: taken,
        })
    }
}

fn make(
    path: &std::path::Path,
    reader: &Reader,
    current_wall_ms: Option<u64>,
) -> Result<(File, grid_store::WrittenBackup), Box<dyn std::error::Error + Send + Sync>> {
    // Of a process that was killed in the middle.
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    let written = reader.write_backup(path, current_wall_ms)?;
    let file = grid_folder::open(path)?;
    std::fs::remove_file(path)?;
    Ok((file, written))
}

/// What cannot be read ends the stream too early, and the receiver sees that by its length.
fn hand_out(mut file: File, pieces: &mpsc::Sender<Bytes>, _place: OwnedSemaphorePermit) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let length = match file.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => length,
            Err(e) => {
                tracing::error!("a backup breaks off: {e}");
                return;
            }
        };
        piece.truncate(length);
        if pieces.blocking_send(Bytes::from(piece)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use grid_store::Store;
    use grid_tasks::Tasks;
    use grid_types::Code;

    use super::Backups;

    #[test]
    fn a_backup_whose_reader_has_left_keeps_its_place_until_it_is_done() {
        // One thread for blocking work, and that is taken: the backup has begun, and does not get on.
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let dir = tempfile::TempDir::new().unwrap();
        let (store, _) = Store::open(&dir.path().join("state.sqlite")).unwrap();
        let backups = Backups::new(dir.path(), Tasks::default());
        runtime.block_on(async {
            let (go, waits) = std::sync::mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || waits.recv());
            {
                let mut left = pin!(backups.take(store.reader(), Some(0)));
                tokio::select! {
                    biased;
                    _ = &mut left => panic!("it cannot be done yet"),
                    () = std::future::ready(()) => {}
                }
            }
            let second = backups.take(store.reader(), Some(0)).await.map(drop);
            assert_eq!(second.map_err(|refusal| refusal.code), Err(Code::Conflict));
            go.send(()).unwrap();
            drop(backups.place.acquire().await.expect("free again"));
        });
    }
}
