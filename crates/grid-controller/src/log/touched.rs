//! Collects which jobs and nodes were changed by what was stored, for readers that copy them elsewhere.
//!
//! Bounded: beyond [`MOST`] it says that everything may have changed. It begins like that, too, so nothing is collected before the first
//! reader asks, and nothing at all on a controller without one.
//! One reader at a time: what was taken is not given again.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grid_core::Changes;
use grid_types::{JobId, NodeOrd};
use tokio::sync::watch;

const MOST: usize = 16_384;

#[derive(Debug)]
pub struct Touched {
    keys: Mutex<Keys>,
    /// The index up to which the store is.
    stored: watch::Sender<u64>,
}

/// What was changed since it was last taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Keys {
    pub jobs: BTreeSet<JobId>,
    pub nodes: BTreeSet<NodeOrd>,
    /// More jobs than were collected.
    pub all_jobs: bool,
    /// More nodes than were collected, or some that are gone.
    pub all_nodes: bool,
}

impl Default for Touched {
    fn default() -> Self {
        let keys = Keys { all_jobs: true, all_nodes: true, ..Keys::default() };
        Self { keys: Mutex::new(keys), stored: watch::Sender::new(0) }
    }
}

impl Touched {
    /// A batch was stored, up to `index`.
    pub fn note(&self, changes: &[Changes], index: u64) {
        {
            let mut keys = self.lock();
            for one in changes {
                keys.note(one);
            }
        }
        self.stored.send_replace(index);
    }

    /// The whole state was replaced.
    pub fn note_all(&self, index: u64) {
        *self.lock() = Keys { all_jobs: true, all_nodes: true, ..Keys::default() };
        self.stored.send_replace(index);
    }

    /// Resolves when there is something; everything at first.
    pub async fn take(&self) -> Keys {
        let mut stored = self.stored.subscribe();
        loop {
            stored.mark_unchanged();
            let keys = std::mem::take(&mut *self.lock());
            if keys != Keys::default() {
                return keys;
            }
            if stored.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The index up to which the store is, now and at every change.
    pub fn stored(&self) -> watch::Receiver<u64> {
        self.stored.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        // A half-noted batch is still a valid collection.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    fn note(&mut self, changes: &Changes) {
        if !self.all_jobs {
            self.jobs.extend(changes.jobs.iter().chain(&changes.submitted).chain(&changes.started));
            // In order: a batch has thousands of cells of a few jobs.
            let mut cells = changes.cells.iter().map(|(job, _)| *job).peekable();
            while let Some(job) = cells.next() {
                while cells.next_if_eq(&job).is_some() {}
                self.jobs.insert(job);
            }
            self.jobs.extend(changes.retired.iter().map(|job| job.head.id));
            self.jobs.extend(&changes.pruned);
            if self.jobs.len() > MOST {
                (self.all_jobs, self.jobs) = (true, BTreeSet::new());
            }
        }
        if !self.all_nodes {
            self.nodes.extend(&changes.nodes);
            // Their names are gone with them.
            if self.nodes.len() > MOST || !changes.reclaimed.is_empty() {
                (self.all_nodes, self.nodes) = (true, BTreeSet::new());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::{Keys, MOST, Touched};
    use grid_core::Changes;
    use grid_types::{JobId, NodeOrd};

    fn now(touched: &Touched) -> Option<Keys> {
        let taken = std::pin::pin!(touched.take());
        match taken.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(keys) => Some(keys),
            Poll::Pending => None,
        }
    }

    fn jobs(ids: impl IntoIterator<Item = u64>) -> Changes {
        Changes { jobs: ids.into_iter().map(JobId).collect(), ..Changes::default() }
    }

    #[test]
    fn a_reader_begins_with_everything_and_takes_each_change_once() {
        let touched = Touched::default();
        touched.note(&[jobs([1])], 7);
        let first = now(&touched).unwrap();
        assert_eq!((first.all_jobs, first.all_nodes, first.jobs.len()), (true, true, 0));
        assert_eq!(now(&touched), None);
        let cells =
            Changes { cells: [(JobId(3), 0), (JobId(3), 1)].into(), nodes: [NodeOrd(4)].into(), ..Changes::default() };
        touched.note(&[jobs([2]), cells], 8);
        let keys = Keys { jobs: [JobId(2), JobId(3)].into(), nodes: [NodeOrd(4)].into(), ..Keys::default() };
        assert_eq!((now(&touched), *touched.stored().borrow()), (Some(keys), 8));
        assert_eq!(now(&touched), None);
    }

    #[test]
    fn what_is_too_much_or_gone_becomes_everything() {
        let touched = Touched::default();
        now(&touched).unwrap();
        touched.note(&[jobs(0..=MOST as u64)], 1);
        let gone = Changes { reclaimed: vec![NodeOrd(1)], ..Changes::default() };
        touched.note(&[gone], 2);
        let keys = now(&touched).unwrap();
        assert_eq!((keys.all_jobs, keys.jobs.len(), keys.all_nodes), (true, 0, true));
        touched.note_all(3);
        assert!(now(&touched).is_some_and(|keys| keys.all_jobs && keys.all_nodes));
    }
}
