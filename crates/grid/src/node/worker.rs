//! Keeps the worker of a node: on while the controller beside it is STANDBY, off while it leads.
//!
//! ```text
//!   off --STANDBY for a second--> hold the controller's dispatch --it follows, and does not lead--> on
//!    ^                                                                                         |
//!    '-- say that it is gone <-- end what it left <-- ended <-- drain, stop, SIGKILL <-- LEADER, or told to stop
//! ```
//!
//! E8: between `hold` and `gone` the controller gives nothing out, so that a machine never works for itself, however late this
//! supervisor hears of a promotion. A worker that fails is started again with backoff; one whose controller
//! is down goes on, for the leader elsewhere.
//! A second of STANDBY first: a leader that loses its majority for a moment should not start and end a worker.

use std::path::PathBuf;
use std::time::Duration;

use grid_types::NodeId;
use grid_worker::LeftOver;
use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::child::{Child, Next};
use super::controller::Local;
use crate::cli::WorkerLine;
use crate::say;
use crate::supervised::{Saying, Word};

const SETTLED: Duration = Duration::from_secs(1);
/// A worker that is told twice stops its processes (5 s), reports them (5 s) and leaves.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub struct WorkerKeeper {
    /// None: this node runs no worker.
    pub line: Option<WorkerLine>,
    pub node_id: NodeId,
    pub data_dir: PathBuf,
    /// How long running leases may take to finish.
    pub drain_limit: Duration,
    pub word: watch::Sender<Word>,
    pub local: watch::Receiver<Option<Local>>,
    /// Of the controller beside it, when it last served.
    pub api: String,
    /// How often the supervisor was asked to end.
    pub asked: watch::Receiver<u32>,
}

impl WorkerKeeper {
    /// Returns when it was told to stop and no worker is left.
    pub async fn keep(mut self) {
        self.gone().await;
        while self.is_wanted().await {
            if self.hold().await {
                self.run().await;
            }
            self.gone().await;
        }
    }

    fn is_stopping(&self) -> bool {
        *self.asked.borrow() > 0
    }

    fn must_end(&self) -> bool {
        self.is_stopping() || self.local.borrow().as_ref().is_some_and(Local::leads)
    }

    /// Resolves when [`Self::must_end`] may have changed.
    async fn news(&mut self) {
        tokio::select! {
            Ok(()) = self.asked.changed() => {}
            Ok(()) = self.local.changed() => {}
            else => std::future::pending().await,
        }
    }

    /// False: told to stop.
    async fn is_wanted(&mut self) -> bool {
        while !self.is_stopping() {
            let api = self.local.borrow().as_ref().filter(|local| !local.leads()).and_then(|local| local.api.clone());
            let Some(api) = api.filter(|_| self.line.is_some()) else {
                self.news().await;
                continue;
            };
            self.api = api;
            let settled = Instant::now() + SETTLED;
            let disturbed = async {
                loop {
                    self.news().await;
                    if self.must_end() || self.local.borrow().is_none() {
                        return;
                    }
                }
            };
            if tokio::time::timeout_at(settled, disturbed).await.is_err() {
                return true;
            }
        }
        false
    }

    fn say(&self, saying: Saying) -> u64 {
        self.word.send_modify(|word| *word = Word { number: word.number + 1, saying });
        self.word.borrow().number
    }

    /// Whether the controller holds its dispatch, and does not lead.
    async fn hold(&mut self) -> bool {
        let word = self.say(Saying::Hold { problem: None });
        loop {
            if self.must_end() {
                return false;
            }
            if self.local.borrow().as_ref().is_some_and(|local| local.has_followed(word)) {
                return true;
            }
            self.news().await;
        }
    }

    /// Until it must end, and has.
    async fn run(&mut self) {
        let mut backoff = Backoff::default();
        while !self.must_end() {
            let Some(line) = &self.line else { return };
            let began = Instant::now();
            let ended = match Child::spawn("worker", &line.words(&self.api)) {
                Ok(mut child) => match self.attend(&mut child).await {
                    Some(ended) => ended,
                    None => return self.stop(child).await,
                },
                Err(error) => format!("{error:#}"),
            };
            let pause = backoff.after(began.elapsed());
            tracing::warn!("the worker ended ({ended}); it starts again in {pause:?}");
            let until = Instant::now() + pause;
            while !self.must_end() && tokio::time::timeout_at(until, self.news()).await.is_ok() {}
        }
    }

    /// How it ended by itself; `None`: it must end.
    async fn attend(&mut self, child: &mut Child) -> Option<String> {
        while !self.must_end() {
            tokio::select! {
                next = child.next() => match next {
                    Next::Line(line) => say::out(line),
                    Next::Ended(Ok(status)) => return Some(status.to_string()),
                    Next::Ended(Err(error)) => return Some(error.to_string()),
                },
                () = self.news() => {}
            }
        }
        None
    }

    /// It finishes what it has, or is made to.
    async fn stop(&mut self, mut child: Child) {
        tracing::info!("the worker ends: what it runs has {:?} to finish", self.drain_limit);
        child.terminate();
        let mut asked = self.asked.clone();
        tokio::select! {
            () = child.ended() => return,
            () = tokio::time::sleep(self.drain_limit) => tracing::warn!("the worker still runs something: it is stopped"),
            // Asked twice: somebody is in a hurry.
            Ok(_) = asked.wait_for(|asked| *asked > 1) => {}
        }
        child.terminate();
        child.end_within(STOP_LIMIT).await;
    }

    /// Notifies the controller that no worker lives here, as soon as that is certain.
    async fn gone(&mut self) {
        let mut logged = String::new();
        let holds_nothing = loop {
            let problem = match grid_worker::end_left_over(&self.data_dir).await {
                Ok(LeftOver::Gone { holds_nothing }) => break holds_nothing,
                Ok(LeftOver::InUse | LeftOver::NotKnown { .. }) if self.is_stopping() => return,
                Ok(LeftOver::InUse) => None,
                Ok(LeftOver::NotKnown { problem }) => Some(problem),
                // No worker lives there; what it held is not known.
                Err(error) => {
                    tracing::warn!("{error}");
                    break false;
                }
            };
            let line = match &problem {
                None => "another worker still lives in it; waiting for its end".to_owned(),
                Some(problem) => format!("it is refused, and dispatch stays paused until it is mended: {problem}"),
            };
            if logged != line {
                tracing::warn!("{}: {line}", self.data_dir.display());
                self.say(Saying::Hold { problem });
                logged = line;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        };
        self.say(Saying::Gone { node: self.node_id.clone(), holds_nothing });
    }
}
