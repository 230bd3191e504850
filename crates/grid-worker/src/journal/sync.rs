//! The thread that syncs: everything asked for while one fsync runs is covered by the next.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::journal::disk::SyncFile;

const STACK_BYTES: usize = 128 * 1024;

struct Request {
    number: u64,
    file: Arc<dyn SyncFile>,
}

/// Ends when it is dropped. Unbounded, but each request stands for records already held in memory.
pub(super) struct SyncThread {
    requests: Sender<Request>,
}

impl SyncThread {
    pub(super) fn start(synced: impl Fn(io::Result<u64>) + Send + 'static) -> io::Result<Self> {
        let (requests, queue) = channel();
        let thread = std::thread::Builder::new().name("grid-journal".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || run(&queue, synced))?;
        Ok(Self { requests })
    }

    pub(super) fn request(&self, number: u64, file: Arc<dyn SyncFile>) {
        // The thread ends only after a failed sync, which it has reported.
        let _ = self.requests.send(Request { number, file });
    }
}

fn run(queue: &Receiver<Request>, synced: impl Fn(io::Result<u64>)) {
    while let Ok(first) = queue.recv() {
        let last = queue.try_iter().last().unwrap_or(first);
        match last.file.sync() {
            Ok(()) => synced(Ok(last.number)),
            Err(error) => return synced(Err(error)),
        }
    }
}
