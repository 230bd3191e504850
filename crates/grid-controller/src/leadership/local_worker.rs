//! E8: opens the gate of dispatch when the log has that the worker on this machine is gone.
//!
//! The controller leaves in the worker's place, because a worker that is asked to end just when its leader has died has no leader to
//! report to, and jobs would wait for it until it counts as dead.
//! Not here: the gate itself (`shared::gate`).

use std::sync::Arc;

use grid_core::{Command, LeaveNode};
use grid_fabric::CloseReason;
use tracing::{info, warn};

use crate::leader::Leader;
use crate::shared::{LocalWorker, Shared, Wish};

/// Runs until the member ends.
pub async fn follow(shared: Arc<Shared>) {
    let (mut wishes, mut terms) = (shared.tenure.gate.wishes(), shared.tenure.term.clone());
    loop {
        let wish = wishes.borrow_and_update().clone();
        let leads = terms.borrow_and_update().is_some();
        match wish {
            Wish::Paused(_) if leads => info!("{}", shared.pause_reason()),
            Wish::Paused(_) => {}
            Wish::Open(gone) => {
                if let Some(gone) = gone.filter(|_| leads) {
                    leave(&shared, &gone).await;
                }
                if shared.tenure.gate.open() && leads {
                    resume_dispatch(&shared);
                }
            }
        }
        tokio::select! {
            changed = wishes.changed() => if changed.is_err() { break },
            changed = terms.changed() => if changed.is_err() { break },
        }
    }
}

/// Records in the log that the worker is gone, if the state does not know yet.
async fn leave(shared: &Shared, gone: &LocalWorker) {
    let known = shared.state().node_by_id(&gone.node).map(|node| (node.ord, node.session, node.status));
    let Some((node, session, status)) = known else { return };
    if status.is_gone() {
        return;
    }
    let command = Command::LeaveNode(LeaveNode { node, session, nothing_outstanding: gone.nothing_outstanding });
    match shared.log.proposer.propose(&command).await {
        Ok(_) => drop(shared.lead(|leader, _| leader.on_gone(session, CloseReason::StaleSession))),
        // Another leader finds out by the node's silence.
        Err(why) => warn!(node = %gone.node, "the worker has ended, but this could not be recorded in the log: {why}"),
    }
}

/// What was decided while dispatch was paused is sent now, and its time begins now (E8).
fn resume_dispatch(shared: &Shared) {
    info!("the worker on this machine has ended: dispatch resumes");
    shared.lead(Leader::on_resumed);
}
