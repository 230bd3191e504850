//! Keeps the worker of a node running while the local controller is STANDBY, and stopped while it leads.
//!
//! ```text
//!   off --STANDBY for a second--> pause the controller's dispatch --confirmed, and not leader--> on
//!    ^                                                                                         |
//!    '-- report that it is gone <-- end its processes <-- ended <-- drain, stop, SIGKILL <-- LEADER, or asked to end
//! ```
//!
//! E8: between `Pause` and `WorkerGone` the controller dispatches nothing, so that a machine never works for itself, however
//! late the supervisor learns of a promotion. A worker that fails is restarted with backoff; one whose local controller is down
//! continues to work for the leader on another machine.
//! The worker starts after a second of STANDBY: a leader that loses its majority for a moment should not start and stop a
//! worker.

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
use crate::supervised::{Instruction, Order};

const SETTLED: Duration = Duration::from_secs(1);
/// After the second signal a worker stops its processes (5 s), reports them (5 s) and leaves.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub struct WorkerKeeper {
    /// None: this node runs no worker.
    pub line: Option<WorkerLine>,
    pub node_id: NodeId,
    pub data_dir: PathBuf,
    /// How long running leases may take to finish.
    pub drain_limit: Duration,
    pub order: watch::Sender<Order>,
    pub local: watch::Receiver<Option<Local>>,
    /// Address of the local controller when it last served.
    pub api: String,
    /// How often the supervisor was asked to end.
    pub asked: watch::Receiver<u32>,
}

impl WorkerKeeper {
    /// Returns when the supervisor was asked to end and no worker is left.
    pub async fn keep(mut self) {
        self.gone().await;
        while self.is_wanted().await {
            if self.pause_dispatch().await {
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

    /// Waits until a worker should run; false if the supervisor was asked to end.
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

    fn order(&self, instruction: Instruction) -> u64 {
        self.order.send_modify(|order| *order = Order { number: order.number + 1, instruction });
        self.order.borrow().number
    }

    /// Pauses the controller's dispatch. Returns whether it confirmed that while it is not the leader.
    async fn pause_dispatch(&mut self) -> bool {
        let order = self.order(Instruction::Pause { problem: None });
        loop {
            if self.must_end() {
                return false;
            }
            if self.local.borrow().as_ref().is_some_and(|local| local.has_confirmed(order)) {
                return true;
            }
            self.news().await;
        }
    }

    /// Runs the worker until it must end, and has ended.
    async fn run(&mut self) {
        let mut backoff = Backoff::default();
        while !self.must_end() {
            let Some(line) = &self.line else { return };
            let began = Instant::now();
            let ended = match Child::spawn("worker", &line.arguments(&self.api)) {
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

    /// Returns how the worker ended by itself; `None` if it must end.
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

    /// Lets the worker finish its leases within the limit, then stops it.
    async fn stop(&mut self, mut child: Child) {
        tracing::info!("stopping the worker: its running leases have {:?} to finish", self.drain_limit);
        child.terminate();
        let mut asked = self.asked.clone();
        tokio::select! {
            () = child.ended() => return,
            () = tokio::time::sleep(self.drain_limit) => tracing::warn!("the worker still runs leases: stopping them"),
            // The second signal asks for a quick end.
            Ok(_) = asked.wait_for(|asked| *asked > 1) => {}
        }
        child.terminate();
        child.end_within(STOP_LIMIT).await;
    }

    /// Notifies the controller that no worker runs here, as soon as that is certain.
    async fn gone(&mut self) {
        let mut logged = String::new();
        let nothing_outstanding = loop {
            let problem = match grid_worker::end_left_over(&self.data_dir).await {
                Ok(LeftOver::Gone { nothing_outstanding }) => break nothing_outstanding,
                Ok(LeftOver::InUse | LeftOver::NotKnown { .. }) if self.is_stopping() => return,
                Ok(LeftOver::InUse) => None,
                Ok(LeftOver::NotKnown { problem }) => Some(problem),
                // No worker runs there; whether it left leases is not known.
                Err(error) => {
                    tracing::warn!("{error}");
                    break false;
                }
            };
            let line = match &problem {
                None => "another worker still uses this folder; waiting for its end".to_owned(),
                Some(problem) => {
                    format!("the folder is refused, and dispatch stays paused until this is fixed: {problem}")
                }
            };
            if logged != line {
                tracing::warn!("{}: {line}", self.data_dir.display());
                self.order(Instruction::Pause { problem });
                logged = line;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        };
        self.order(Instruction::WorkerGone { node: self.node_id.clone(), nothing_outstanding });
    }
}
