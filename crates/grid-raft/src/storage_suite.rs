//! openraft's own storage suite against the log store and the state machine.

use std::sync::Arc;

use openraft::testing::{StoreBuilder, Suite};
use tempfile::TempDir;

use crate::config::Config;
use crate::data_dir::folder::Folder;
use crate::file_machine::FileMachine;
use crate::group::{Group, StorageError};
use crate::log::mark::Mark;
use crate::log::store::LogStore;
use crate::snapshots::Snapshots;
use crate::snapshots::persistence::Persistence;
use crate::state_machine::StateMachine;
use crate::state_machine::applier::Applier;

struct Builder;

impl StoreBuilder<Group, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError> {
        let dir = tempfile::tempdir().expect("temp dir");
        let config = Config::new(1, "127.0.0.1:8766", dir.path());
        let folder = Folder::new(dir.path());
        folder.create().expect("folder");
        let lock = Arc::new(folder.lock().expect("lock"));
        let mark = Mark::open(&folder.mark()).expect("mark");
        let log = LogStore::open(&config, 1, &folder.log(), lock.clone(), mark).expect("log");
        let machine = FileMachine::open(&dir.path().join("machine.json"));
        let state_machine = StateMachine {
            applier: Applier::start(machine, lock).expect("thread"),
            snapshots: Snapshots::new(folder.snapshots()),
            persistence: Persistence::new(tokio::sync::watch::channel(false).1),
        };
        Ok((dir, log, state_machine))
    }
}

#[test]
fn openraft_storage_suite() {
    Suite::test_all(Builder).expect("the suite passes");
}
