//! Starts, names and watches the background tasks of a process.
//!
//! ```text
//!   start(name, task) --> runs --ends or panics--> failed(): the process ends and names the task
//!                              \--after stopping()--> expected
//! ```
//!
//! A background task runs until the process is asked to end. A task that ends or panics earlier leaves a process that does half
//! of its work: for instance a leader that dispatches nothing. [`Tasks::failed`] reports the first such task, the program ends
//! with its name, and the supervisor restarts it.
//! A task that serves one request ([`Tasks::start_request`]) is owned and watched too, but its panic ends that request alone: otherwise
//! one bad request could end the process. The panic is logged with the name of the task.
//! Not here: the limit of parallel requests. The callers bound it.

mod planted;

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The background tasks of a process; clones share them.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Inner>);

#[derive(Default)]
struct Inner {
    running: Mutex<Vec<JoinHandle<()>>>,
    /// Tasks that serve one request each.
    requests: Mutex<JoinSet<()>>,
    failed: watch::Sender<Option<Failed>>,
    /// From here on the end of a task is expected.
    is_stopping: AtomicBool,
}

/// Why a process cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub task: &'static str,
    pub cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The task returned, with the reason if it has one.
    Ended(Option<String>),
    Panicked(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.task;
        match &self.cause {
            Cause::Ended(None) => write!(f, "task {task} ended unexpectedly"),
            Cause::Ended(Some(reason)) => write!(f, "task {task} ended: {reason}"),
            Cause::Panicked(text) => write!(f, "task {task} panicked: {text}"),
        }
    }
}

/// The result of a background task: nothing, or why it could not continue.
pub trait Ending {
    fn reason(self) -> Option<String>;
}

impl Ending for () {
    fn reason(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display> Ending for Result<(), E> {
    fn reason(self) -> Option<String> {
        self.err().map(|e| e.to_string())
    }
}

impl Tasks {
    /// Runs `task` on the current runtime until the process ends.
    pub fn start<T: Ending + 'static>(
        &self,
        name: &'static str,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Running {
        let inner = Arc::clone(&self.0);
        self.watch(async move {
            let cause = match caught(planted::or_panic(name, task)).await {
                Ok(ending) => Cause::Ended(ending.reason()),
                Err(panic) => Cause::Panicked(text_of(panic.as_ref())),
            };
            inner.report(Failed { task: name, cause });
        })
    }

    /// Runs a task that ends by itself when its work is done. Only its panic ends the process.
    pub fn start_finite(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Running {
        let inner = Arc::clone(&self.0);
        self.watch(async move {
            if let Err(panic) = caught(planted::or_panic(name, task)).await {
                inner.report(Failed { task: name, cause: Cause::Panicked(text_of(panic.as_ref())) });
            }
        })
    }

    /// Runs a task that serves one request; returns at once. [`Tasks::stop`] ends it, its panic is logged.
    pub fn start_request(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.requests().spawn(async move {
            if let Err(panic) = caught(task).await {
                log_request(name, panic.as_ref());
            }
        });
    }

    /// The same for a task that blocks its thread. It cannot be aborted: it ends when its reader is gone.
    pub fn start_blocking_request(&self, name: &'static str, work: impl FnOnce() + Send + 'static) {
        self.requests().spawn_blocking(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                log_request(name, panic.as_ref());
            }
        });
    }

    /// Removes ended tasks first, so that the set does not grow.
    fn requests(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        let mut requests = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner);
        while requests.try_join_next().is_some() {}
        requests
    }

    fn watch(&self, task: impl Future<Output = ()> + Send + 'static) -> Running {
        let (ended, end) = watch::channel(false);
        let handle = tokio::spawn(async move {
            task.await;
            drop(ended);
        });
        let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|task| !task.is_finished());
        running.push(handle);
        Running(end)
    }

    /// Resolves with the first task that ended before [`Tasks::stopping`], or with a panicked task as soon as there is one.
    pub async fn failed(&self) -> Failed {
        let mut failed = self.0.failed.subscribe();
        match failed.wait_for(Option::is_some).await.ok().and_then(|failed| failed.clone()) {
            Some(failed) => failed,
            // The sender is in `self`.
            None => std::future::pending().await,
        }
    }

    /// The process is about to end: tasks may end from here on.
    pub fn stopping(&self) {
        self.0.is_stopping.store(true, Ordering::Release);
    }

    /// Ends every task, the newest first; returns when all have ended.
    pub async fn stop(&self) {
        self.stopping();
        self.requests().abort_all();
        loop {
            let newest = self.0.running.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(task) = newest else { return };
            task.abort();
            // Its panic was caught and reported; the only remaining error is that it was aborted.
            let _ = task.await;
        }
    }
}

impl Inner {
    fn report(&self, failed: Failed) {
        if self.is_stopping.load(Ordering::Acquire) {
            return;
        }
        tracing::error!("{failed}");
        self.failed.send_if_modified(|cause| {
            // A task that panics closes its channels, and tasks that receive from them may end first.
            let ended = |cause: &Cause| matches!(cause, Cause::Ended(_));
            let is_cause = cause.as_ref().is_none_or(|known| ended(&known.cause) && !ended(&failed.cause));
            if is_cause {
                *cause = Some(failed);
            }
            is_cause
        });
    }
}

/// A task that was started.
pub struct Running(watch::Receiver<bool>);

impl Running {
    /// Resolves when the task has ended, in any way.
    pub async fn ended(&mut self) {
        // Nothing is ever sent: the end of the task closes the channel.
        let _ = self.0.wait_for(|ended| *ended).await;
    }
}

fn log_request(name: &'static str, panic: &(dyn Any + Send)) {
    tracing::error!("the task {name} of a request panicked: {}", text_of(panic));
}

/// Polls a future to its end, or to its panic.
async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        // It is not polled again.
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    })
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use super::{Cause, Failed, Tasks};

    #[tokio::test]
    async fn the_first_task_that_panics_is_named_with_its_text() {
        let tasks = Tasks::default();
        let mut running = tasks.start("steady", pending::<()>());
        tasks.start("dispatch", async { panic!("index {} out of bounds", 7) as () });
        let failed = tasks.failed().await;
        assert_eq!(failed.to_string(), "task dispatch panicked: index 7 out of bounds");
        tasks.start("later", async {});
        assert_eq!(tasks.failed().await.task, "dispatch", "the first one is the cause");
        tasks.stop().await;
        running.ended().await;
    }

    #[tokio::test]
    async fn a_panic_is_the_cause_even_if_another_task_ended_because_of_it_first() {
        let tasks = Tasks::default();
        tasks.start("gate", async {}).ended().await;
        assert_eq!(tasks.failed().await.task, "gate");
        tasks.start("leader", async { panic!("lost") as () }).ended().await;
        assert_eq!(tasks.failed().await.task, "leader");
    }

    #[tokio::test]
    async fn a_task_that_ends_is_reported_with_its_reason() {
        for (ending, text) in [(Err("no port"), "task peers ended: no port"), (Ok(()), "task peers ended unexpectedly")]
        {
            let tasks = Tasks::default();
            tasks.start("peers", async move { ending });
            assert_eq!(tasks.failed().await.to_string(), text);
        }
    }

    #[tokio::test]
    async fn a_finite_task_may_end_but_not_panic() {
        let tasks = Tasks::default();
        tasks.start_finite("mark", async {}).ended().await;
        tasks.start_finite("floor", async { panic!("no floor") });
        assert_eq!(tasks.failed().await.task, "floor");
    }

    #[tokio::test]
    async fn a_request_that_panics_ends_alone_and_stop_ends_the_others() {
        let tasks = Tasks::default();
        let (ended, mut end) = tokio::sync::mpsc::channel::<()>(1);
        let kept = ended.clone();
        tasks.start_request("bad", async move {
            let _ended = ended;
            panic!("a bad request");
        });
        tasks.start_blocking_request("bad", || panic!("a bad request"));
        let waits = kept.clone();
        tasks.start_request("long", async move {
            pending::<()>().await;
            drop(waits);
        });
        tokio::select! {
            biased;
            failed = tasks.failed() => panic!("{failed}"),
            () = tokio::task::yield_now() => {}
        }
        drop(kept);
        tasks.stop().await;
        assert_eq!(end.recv().await, None, "all of them have ended");
    }

    #[tokio::test]
    async fn requests_that_have_ended_are_let_go() {
        let tasks = Tasks::default();
        for _ in 0..100 {
            tasks.start_request("short", async {});
            tokio::task::yield_now().await;
        }
        assert!(tasks.requests().len() < 10);
    }

    #[tokio::test]
    async fn an_end_after_stopping_is_expected_and_stop_waits_for_all() {
        let tasks = Tasks::default();
        let alive = Arc::new(());
        for name in ["one", "two"] {
            let held = Arc::clone(&alive);
            tasks.start(name, async move {
                pending::<()>().await;
                drop(held);
            });
        }
        tasks.stopping();
        let mut over = tasks.start("over", async {});
        over.ended().await;
        tasks.stop().await;
        assert_eq!(Arc::strong_count(&alive), 1, "every task has ended");
        let failed = Failed { task: "over", cause: Cause::Ended(None) };
        tokio::select! {
            biased;
            reported = tasks.failed() => panic!("{reported:?} and {failed:?} were expected to end"),
            () = std::future::ready(()) => {}
        }
    }
}
