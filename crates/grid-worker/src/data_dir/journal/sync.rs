//! Syncs the journal on a thread of its own: everything asked for while one fsync runs is covered by the next.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::seams::SyncFile;

const STACK_BYTES: usize = 128 * 1024;

struct Request {
    number: u64,
    file: Arc<dyn SyncFile>,
}

/// The newest request: it covers those before it.
#[derive(Default)]
struct Slot {
    request: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    newest: Option<Request>,
    is_closed: bool,
}

/// Ends when it is dropped, without being waited for: an fsync on a disk that hangs must not keep the worker from ending. The channel
/// behind `synced` closes with the thread, which the worker watches (`worker::inbox`).
pub(super) struct SyncThread {
    slot: Arc<Slot>,
    _thread: JoinHandle<()>,
}

impl SyncThread {
    pub(super) fn start(synced: impl Fn(io::Result<u64>) + Send + 'static) -> io::Result<Self> {
        let slot = Arc::new(Slot::default());
        let own = Arc::clone(&slot);
        let thread = std::thread::Builder::new().name("grid-journal".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || run(&own, synced))?;
        Ok(Self { slot, _thread: thread })
    }

    pub(super) fn request(&self, number: u64, file: Arc<dyn SyncFile>) {
        self.slot.lock().newest = Some(Request { number, file });
        self.slot.changed.notify_one();
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.slot.lock().is_closed = true;
        self.slot.changed.notify_one();
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: nobody asks any more.
    fn next(&self) -> Option<Request> {
        let waiting = |state: &mut State| state.newest.is_none() && !state.is_closed;
        let state = self.changed.wait_while(self.lock(), waiting);
        state.unwrap_or_else(PoisonError::into_inner).newest.take()
    }
}

fn run(slot: &Slot, synced: impl Fn(io::Result<u64>)) {
    while let Some(Request { number, file }) = slot.next() {
        match file.sync() {
            Ok(()) => synced(Ok(number)),
            Err(error) => return synced(Err(error)),
        }
    }
}
