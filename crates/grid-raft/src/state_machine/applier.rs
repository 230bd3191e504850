//! Runs the thread that owns the machine.
//!
//! ```text
//!   openraft's tasks --Job--> channel --> machine thread --answer--> oneshot
//! ```
//!
//! L2: the first error or panic of the machine ends its thread; a later
//! caller gets the reason. L3: an answer to `apply` follows its transaction. L5: a
//! copy is of the data as it was between two batches, and written on another
//! thread, beside the next ones.
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
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::data_dir::folder::FolderLock;
use crate::group::Answer;
use crate::machine::{Committed, Machine, MachineError, MachinePosition};

/// Jobs that wait for the machine; openraft asks for one thing after the other.
const WAITING: usize = 16;

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
        let (jobs, queue) = mpsc::channel(WAITING);
        let handle = std::thread::Builder::new().name("raft-apply".into()).spawn(move || run(machine, queue))?;
        Ok(Self(Arc::new(Thread { jobs: Some(jobs), handle: Some(handle), _lock: lock })))
    }

    pub async fn position(&self) -> Result<MachinePosition, MachineError> {
        self.ask(Job::Position).await
    }

    /// One answer per entry, in order.
    pub async fn apply(&self, batch: Vec<Committed>) -> Result<Vec<Answer>, MachineError> {
        self.ask(|reply| Job::Apply(batch, reply)).await
    }

    /// Writes the machine's data to `path`, while it goes on applying, and returns where it stood.
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
            let _ = jobs.send(job(reply)).await;
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

fn run<M: Machine>(mut machine: M, mut queue: mpsc::Receiver<Job>) {
    // Ends after the last copy, so that the machine and the folder's lock outlive it.
    std::thread::scope(|scope| serve(&mut machine, &mut queue, scope));
}

fn serve<'s, M: Machine>(machine: &mut M, queue: &mut mpsc::Receiver<Job>, copies: &'s std::thread::Scope<'s, '_>) {
    while let Some(job) = queue.blocking_recv() {
        let goes_on = match job {
            Job::Position(reply) => answer(reply, || Ok(machine.position())),
            Job::Apply(batch, reply) => answer(reply, || apply(machine, batch)),
            Job::WriteSnapshot(path, reply) => {
                match caught(|| Ok(machine.pin().map(|pinned| (pinned, machine.position())))) {
                    Ok(Ok((pinned, position))) => {
                        copies.spawn(move || answer(reply, || pinned(&path).map(|()| position)));
                        true
                    }
                    // Nothing was changed: the machine goes on, and the task that wanted the copy asks again.
                    Ok(Err(e)) => {
                        let _ = reply.send(Err(e));
                        true
                    }
                    Err(panicked) => answer(reply, || Err(panicked)),
                }
            }
            Job::InstallSnapshot(path, position, reply) => answer(reply, || machine.install_snapshot(&path, position)),
        };
        if !goes_on {
            return;
        }
    }
}

fn answer<T>(reply: Reply<T>, work: impl FnOnce() -> Result<T, MachineError>) -> bool {
    let result = caught(work);
    let goes_on = result.is_ok();
    // Nobody waits any more if the runtime was shut down meanwhile.
    let _ = reply.send(result);
    goes_on
}

fn caught<T>(work: impl FnOnce() -> Result<T, MachineError>) -> Result<T, MachineError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(MachineError::new(panic_text(panic.as_ref()))))
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::Applier;
    use crate::data_dir::folder::Folder;
    use crate::machine::{Committed, LogPosition, Machine, MachineError, MachinePosition, WriteCopy};

    /// Its copy is written when somebody says so.
    struct Slow {
        at: MachinePosition,
        go: Option<mpsc::Receiver<()>>,
    }

    impl Machine for Slow {
        type Reply = ();

        fn position(&self) -> MachinePosition {
            self.at.clone()
        }

        fn apply(&mut self, batch: Vec<Committed>) -> Result<Vec<Option<()>>, MachineError> {
            self.at.applied = batch.last().map(|entry| entry.position);
            Ok(batch.iter().map(|_| None).collect())
        }

        fn pin(&mut self) -> Result<WriteCopy, MachineError> {
            let go = self.go.take().ok_or(MachineError::new("pinned twice"))?;
            Ok(Box::new(move |_| go.recv().map_err(MachineError::new)))
        }

        fn install_snapshot(&mut self, _: &Path, _: MachinePosition) -> Result<(), MachineError> {
            Ok(())
        }
    }

    fn entry(index: u64) -> Committed {
        Committed { position: LogPosition { term: 1, index }, payload: None, membership: None }
    }

    #[tokio::test]
    async fn l5_a_copy_is_of_one_moment_and_entries_are_applied_while_it_is_written() {
        let dir = tempfile::tempdir().expect("dir");
        let lock = Arc::new(Folder::new(dir.path()).lock().expect("lock"));
        let (say, go) = mpsc::channel();
        let applier = Applier::start(Slow { at: MachinePosition::default(), go: Some(go) }, lock).expect("thread");
        applier.apply(vec![entry(1)]).await.expect("applied");
        let copy = applier.write_snapshot("unused".into());
        let meanwhile = async {
            applier.apply(vec![entry(2)]).await.expect("applied");
            say.send(()).expect("the copy still waits");
        };
        // In this order they are asked for.
        let both = async { tokio::join!(copy, meanwhile) };
        let (copied, ()) =
            tokio::time::timeout(Duration::from_secs(60), both).await.expect("nobody waits for the copy");
        assert_eq!(copied.expect("copied").applied, Some(LogPosition { term: 1, index: 1 }));
        assert_eq!(applier.position().await.expect("runs").applied, Some(LogPosition { term: 1, index: 2 }));
    }
}
