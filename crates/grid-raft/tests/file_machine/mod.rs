//! A machine whose data is one JSON file, replaced as a whole by every batch:
//! slow, and as durable as a transaction while the machine stays powered.
//!
//! Also starts members the way the tests need them: each in a runtime of its
//! own, which can be dropped without a shutdown, as a killed process would.

#![allow(dead_code)] // each test binary uses a part of it

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use grid_raft::{
    Committed, Config, LogPosition, Machine, MachineError, MachinePosition, OpenError, Raft, Start, WriteCopy,
};
use serde::{Deserialize, Serialize};

/// Payloads that make the machine misbehave.
pub const FAIL: &str = "fail";
pub const PANIC: &str = "panic";

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    pub applied: Option<LogPosition>,
    pub membership: Option<Vec<u8>>,
    pub payloads: Vec<String>,
    /// How often this copy came out of a snapshot.
    pub installs: u32,
}

/// Deliberately neither `Clone` nor serialisable.
#[derive(Debug, PartialEq)]
pub struct Receipt {
    pub index: u64,
    pub count: usize,
}

pub struct FileMachine {
    path: PathBuf,
    content: Content,
}

impl FileMachine {
    pub fn open(path: &Path) -> Self {
        let content = if path.exists() { content(path) } else { Content::default() };
        Self { path: path.to_path_buf(), content }
    }

    fn save(&self) -> Result<(), MachineError> {
        let tmp = self.path.with_extension("tmp");
        let text = serde_json::to_vec(&self.content).map_err(MachineError::new)?;
        fs::write(&tmp, text).map_err(MachineError::new)?;
        fs::rename(&tmp, &self.path).map_err(MachineError::new)
    }
}

impl Machine for FileMachine {
    type Reply = Receipt;

    fn position(&self) -> MachinePosition {
        MachinePosition { applied: self.content.applied, membership: self.content.membership.clone() }
    }

    fn apply(&mut self, batch: Vec<Committed>) -> Result<Vec<Option<Receipt>>, MachineError> {
        let mut replies = Vec::new();
        for entry in batch {
            self.content.applied = Some(entry.position);
            if entry.membership.is_some() {
                self.content.membership = entry.membership;
            }
            let payload = entry.payload.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            match payload.as_deref() {
                Some(FAIL) => return Err(MachineError::new("the disk is full")),
                Some(PANIC) => panic!("index out of bounds"),
                _ => {}
            }
            replies.push(payload.map(|payload| {
                self.content.payloads.push(payload);
                Receipt { index: entry.position.index, count: self.content.payloads.len() }
            }));
        }
        self.save()?;
        Ok(replies)
    }

    fn pin(&mut self) -> Result<WriteCopy, MachineError> {
        let text = serde_json::to_vec(&self.content).map_err(MachineError::new)?;
        Ok(Box::new(move |path| fs::write(path, text).map_err(MachineError::new)))
    }

    fn install_snapshot(&mut self, path: &Path, position: MachinePosition) -> Result<(), MachineError> {
        self.content = content(path);
        self.content.applied = position.applied;
        self.content.membership = position.membership;
        self.content.installs += 1;
        self.save()
    }
}

pub fn content(path: &Path) -> Content {
    serde_json::from_slice(&fs::read(path).expect("machine file")).expect("machine JSON")
}

/// A data folder and the file of the machine in it.
pub struct Home {
    pub dir: tempfile::TempDir,
    pub config: Config,
    pub machine: PathBuf,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        Self { config: Config::new(1, "127.0.0.1:8766", dir.path()), machine: dir.path().join("machine.json"), dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn content(&self) -> Content {
        content(&self.machine)
    }

    pub async fn open(&self, start: Start) -> Result<Raft<Receipt>, OpenError> {
        Raft::open(self.config.clone(), start, FileMachine::open(&self.machine)).await
    }

    /// Runs `work` on a started member, then drops everything without a word.
    pub fn run<T>(&self, start: Start, work: impl AsyncFnOnce(Raft<Receipt>) -> T) -> T {
        block_on(async {
            let raft = self.open_when_free(start).await;
            work(raft).await
        })
    }

    /// The run before was dropped without a word: the thread of its machine, or a child that another test is just
    /// starting, may hold the folder's lock a moment longer.
    async fn open_when_free(&self, start: Start) -> Raft<Receipt> {
        let begun = std::time::Instant::now();
        loop {
            match self.open(start).await {
                Err(OpenError::Locked { .. }) if begun.elapsed().as_secs() < 60 => {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                opened => return opened.expect("starts"),
            }
        }
    }

    /// The error of a start that must be refused.
    pub fn refusal(&self, start: Start) -> OpenError {
        block_on(async {
            match self.open(start).await {
                Ok(_) => panic!("the start was not refused"),
                Err(e) => e,
            }
        })
    }
}

/// Runs on a runtime that is dropped at the end, with all that is still running.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), work).await.expect("done in time") })
}

/// Waits for leadership and proposes: a member that has just started does not
/// lead yet.
pub async fn propose(raft: &Raft<Receipt>, payload: impl Into<Bytes>) -> Receipt {
    lead(raft).await;
    raft.propose(payload.into()).await.expect("accepted")
}

/// Waits until this member leads and returns its term.
pub async fn lead(raft: &Raft<Receipt>) -> u64 {
    let mut leadership = raft.leadership();
    let leading = leadership.wait_for(|l| l.is_leader).await;
    leading.expect("still runs").term
}
