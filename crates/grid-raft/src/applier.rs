//! The thread on which the machine lives.
//!
//! ```text
//!   openraft's tasks --Job--> channel --> machine thread --answer--> oneshot
//! ```
//!
//! L2: the first error or panic of the machine ends its thread; whoever asks
//! later is told why. L3: an answer to `apply` follows its transaction.
//! Dropping the last [`Applier`] waits for the machine to be dropped, so that
//! the folder lock outlives every write.
//! Not here: what a snapshot is made of (`snapshots`).
//! A thread of its own rather than `block_in_place`: it works on any kind of
//! runtime, keeps SQLite's I/O off the threads that serve everything else,
//! asks for no `Sync`, and contains a panic. It costs two thread switches a
//! batch, which is little beside an fsync.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::folder::FolderLock;
use crate::group::Answer;
use crate::machine::{Committed, Machine, MachineError, MachinePosition};

type Reply<T> = oneshot::Sender<Result<T, MachineError>>;

enum Job {
    Position(Reply<MachinePosition>),
    Apply(Vec<Committed>, Reply<Vec<Answer>>),
    WriteSnapshot(PathBuf, Reply<MachinePosition>),
    InstallSnapshot(PathBuf, MachinePosition, Reply<()>),
}

/// Hands work to the machine's thread. Clones share it.
#[derive(Clone)]
pub struct Applier(Arc<Thread>);

struct Thread {
    /// `None` only while dropping: closing it ends the thread.
    jobs: Option<mpsc::Sender<Job>>,
    handle: Option<JoinHandle<()>>,
    _lock: Arc<FolderLock>,
}

impl Applier {
    pub fn start<M: Machine>(machine: M, lock: Arc<FolderLock>) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let handle = std::thread::Builder::new().name("raft-apply".into()).spawn(move || run(machine, &queue))?;
        Ok(Self(Arc::new(Thread { jobs: Some(jobs), handle: Some(handle), _lock: lock })))
    }

    pub async fn position(&self) -> Result<MachinePosition, MachineError> {
        self.ask(Job::Position).await
    }

    /// One answer per entry, in order.
    pub async fn apply(&self, batch: Vec<Committed>) -> Result<Vec<Answer>, MachineError> {
        self.ask(|reply| Job::Apply(batch, reply)).await
    }

    /// Writes the machine's data to `path` and returns where it stood.
    pub async fn write_snapshot(&self, path: PathBuf) -> Result<MachinePosition, MachineError> {
        self.ask(|reply| Job::WriteSnapshot(path, reply)).await
    }

    pub async fn install_snapshot(&self, path: PathBuf, position: MachinePosition) -> Result<(), MachineError> {
        self.ask(|reply| Job::InstallSnapshot(path, position, reply)).await
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, MachineError> {
        let (reply, answer) = oneshot::channel();
        if let Some(jobs) = &self.0.jobs {
            // A closed queue drops the reply, which is seen below.
            let _ = jobs.send(job(reply));
        }
        answer.await.unwrap_or_else(|_| Err(MachineError::new("the state machine has ended")))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(handle) = self.handle.take()
            && handle.join().is_err()
        {
            tracing::error!("the state machine panicked while it was dropped");
        }
    }
}

fn run<M: Machine>(mut machine: M, queue: &mpsc::Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        let goes_on = match job {
            Job::Position(reply) => answer(reply, || Ok(machine.position())),
            Job::Apply(batch, reply) => answer(reply, || apply(&mut machine, batch)),
            Job::WriteSnapshot(path, reply) => answer(reply, || {
                machine.write_snapshot(&path)?;
                Ok(machine.position())
            }),
            Job::InstallSnapshot(path, position, reply) => answer(reply, || machine.install_snapshot(&path, position)),
        };
        if !goes_on {
            return;
        }
    }
}

fn answer<T>(reply: Reply<T>, work: impl FnOnce() -> Result<T, MachineError>) -> bool {
    let result =
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(MachineError::new(panic_text(panic.as_ref()))));
    let goes_on = result.is_ok();
    // Nobody waits any more if the runtime was shut down meanwhile.
    let _ = reply.send(result);
    goes_on
}

fn apply<M: Machine>(machine: &mut M, batch: Vec<Committed>) -> Result<Vec<Answer>, MachineError> {
    let expected: Vec<bool> = batch.iter().map(|entry| entry.payload.is_some()).collect();
    let replies = machine.apply(batch)?;
    if !replies.iter().map(Option::is_some).eq(expected) {
        // A waiter would get the reply of another entry, or none at all.
        return Err(MachineError::new("the state machine must return one reply for each payload, in order"));
    }
    let erase = |reply| Box::new(reply) as Box<dyn Any + Send>;
    Ok(replies.into_iter().map(|reply| Answer::new(reply.map(erase))).collect())
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the state machine panicked: {}", text.unwrap_or("no message"))
}
