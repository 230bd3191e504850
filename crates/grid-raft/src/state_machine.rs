//! openraft's state machine over a [`Machine`](crate::Machine).
//!
//! L3: `apply` returns after the machine's transaction. L5: a snapshot is
//! published, fsynced, before openraft hears of it and purges; a received one
//! is published before the machine installs it, so that a crash between the
//! two is repaired at the next start (`start`).
//! A snapshot that cannot be taken or kept is tried again (`snapshots::persistence`): only the log and the state itself are worth the end of
//! the process (L2).
//! Not here: the machine's thread (`applier`), the files (`snapshots`).
//! Building a snapshot holds up `apply` only while the machine pins what
//! it will copy: writing, hashing and fsync run beside it.

pub mod applier;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{AnyError, Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder};

use crate::group::{
    Answer, Group, SnapshotMeta, StorageError, StorageIoError, StoredMembership, log_id_of, position_of,
};
use crate::log::record::{decode_membership, encode_membership};
use crate::machine::{Committed, MachineError, MachinePosition};
use crate::snapshots::persistence::Persistence;
use crate::snapshots::{Snapshot, Snapshots};
use crate::state_machine::applier::Applier;

#[derive(Clone)]
pub struct StateMachine {
    pub applier: Applier,
    pub snapshots: Snapshots,
    pub persistence: Persistence,
}

impl StateMachine {
    /// Lets the machine take a copy that was checked.
    pub async fn install(&self, snapshot: &Snapshot) -> Result<(), InstallError> {
        Ok(self.applier.install_snapshot(snapshot.path.clone(), snapshot.position()?).await?)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Snapshot(#[from] io::Error),
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl RaftStateMachine<Group> for StateMachine {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId<u64>>, StoredMembership), StorageError> {
        let position = self.applier.position().await.map_err(read_failed)?;
        let membership = membership_of(&position).map_err(read_failed)?;
        Ok((position.applied.map(log_id_of), membership))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Answer>, StorageError>
    where
        I: IntoIterator<Item = Entry<Group>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let batch: io::Result<Vec<Committed>> = entries.into_iter().map(committed).collect();
        let batch = batch.map_err(write_failed)?;
        let Some(last) = batch.last().map(|entry| entry.position) else {
            return Ok(Vec::new());
        };
        let answers = self.applier.apply(batch).await;
        answers.map_err(|e| write_failed(format!("up to entry {last}: {e}")))
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<tokio::fs::File>, StorageError> {
        let file = self.snapshots.receiving().map_err(snapshot_write_failed)?;
        Ok(Box::new(tokio::fs::File::from_std(file)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<tokio::fs::File>,
    ) -> Result<(), StorageError> {
        let received = Arc::new(snapshot.into_std().await);
        let adopt = || {
            let (snapshots, meta, received) = (self.snapshots.clone(), meta.clone(), Arc::clone(&received));
            on_blocking_thread(move || snapshots.adopt(&received, &meta))
        };
        let adopted = self.persistence.until_done("a received snapshot cannot be kept", adopt).await;
        let adopted = adopted.map_err(snapshot_write_failed)?;
        self.install(&adopted).await.map_err(write_failed)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<openraft::Snapshot<Group>>, StorageError> {
        let newest = || {
            let snapshots = self.snapshots.clone();
            on_blocking_thread(move || snapshots.newest())
        };
        let newest = self.persistence.until_done("the newest snapshot cannot be read", newest).await;
        let newest = newest.map_err(snapshot_read_failed)?;
        Ok(newest.map(|(snapshot, file)| opened(&snapshot, file)))
    }
}

impl RaftSnapshotBuilder<Group> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<openraft::Snapshot<Group>, StorageError> {
        let built = self.persistence.until_done("no snapshot can be taken", || self.build()).await;
        let (snapshot, file) = built.map_err(snapshot_write_failed)?;
        Ok(opened(&snapshot, file))
    }
}

impl StateMachine {
    async fn build(&self) -> io::Result<(Snapshot, File)> {
        let path: PathBuf = self.snapshots.unfinished()?;
        let position = self.applier.write_snapshot(path.clone()).await.map_err(io::Error::other)?;
        let membership = membership_of(&position)?;
        let snapshots = self.snapshots.clone();
        on_blocking_thread(move || snapshots.publish(&path, position.applied, membership)).await
    }
}

fn opened(snapshot: &Snapshot, file: File) -> openraft::Snapshot<Group> {
    openraft::Snapshot { meta: snapshot.meta(), snapshot: Box::new(tokio::fs::File::from_std(file)) }
}

fn committed(entry: Entry<Group>) -> io::Result<Committed> {
    let position = position_of(&entry.log_id);
    let (payload, membership) = match entry.payload {
        EntryPayload::Blank => (None, None),
        EntryPayload::Normal(proposal) => (Some(proposal.payload), None),
        EntryPayload::Membership(membership) => (None, Some(encode_membership(Some(position), &membership)?)),
    };
    Ok(Committed { position, payload, membership })
}

fn membership_of(position: &MachinePosition) -> io::Result<StoredMembership> {
    match &position.membership {
        Some(bytes) => decode_membership(bytes),
        None => Ok(StoredMembership::default()),
    }
}

async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|e| Err(io::Error::other(e)))
}

fn read_failed(e: impl std::fmt::Display) -> StorageError {
    StorageIoError::read_state_machine(AnyError::error(e)).into()
}

fn write_failed(e: impl std::fmt::Display) -> StorageError {
    StorageIoError::write_state_machine(AnyError::error(e)).into()
}

fn snapshot_read_failed(e: impl std::fmt::Display) -> StorageError {
    StorageIoError::read_snapshot(None, AnyError::error(e)).into()
}

fn snapshot_write_failed(e: impl std::fmt::Display) -> StorageError {
    StorageIoError::write_snapshot(None, AnyError::error(e)).into()
}
