//! E8: opens the gate of dispatch when the log has that the worker on this machine is gone.
//!
//! The controller leaves in the worker's place, because a worker that is told to end just when its leader has died has no leader to
//! say it to, and jobs would wait for it until it counts as dead.
//! Not here: the gate itself (`shared::gate`).

use std::sync::Arc;

use grid_core::{Command, LeaveNode};
use tracing::{info, warn};

use crate::leader::{CloseReason, Leader, is_gone};
use crate::shared::{LocalWorker, Shared, Wish};

/// Runs until the member ends.
pub async fn follow(shared: Arc<Shared>) {
    let (mut wishes, mut terms) = (shared.tenure.gate.wishes(), shared.tenure.term.clone());
    loop {
        let wish = wishes.borrow_and_update().clone();
        let leads = terms.borrow_and_update().is_some();
        match wish {
            Wish::Held(_) if leads => info!("{}", shared.pause_reason()),
            Wish::Held(_) => {}
            Wish::Open(gone) => {
                if let Some(gone) = gone.filter(|_| leads) {
                    leave(&shared, &gone).await;
                }
                if shared.tenure.gate.open() && leads {
                    give_out(&shared);
                }
            }
        }
        tokio::select! {
            changed = wishes.changed() => if changed.is_err() { break },
            changed = terms.changed() => if changed.is_err() { break },
        }
    }
}

/// Says in the log that the worker is gone, if the state does not know yet.
async fn leave(shared: &Shared, gone: &LocalWorker) {
    let known = shared.state().node_by_id(&gone.node).map(|node| (node.ord, node.session, node.status));
    let Some((node, session, status)) = known else { return };
    if is_gone(status) {
        return;
    }
    let command = Command::LeaveNode(LeaveNode { node, session, holds_nothing: gone.holds_nothing });
    match shared.log.proposer.propose(&command).await {
        Ok(_) => drop(shared.lead(|leader, _| leader.on_gone(session, CloseReason::StaleSession))),
        // Another leader finds out by the node's silence.
        Err(why) => warn!(node = %gone.node, "it has ended, and that is not in the log: {why}"),
    }
}

/// What was decided while the gate was held goes out now; the ticker gives it its time from now on (E8).
fn give_out(shared: &Shared) {
    info!("the worker on this machine has ended: work is given out");
    shared.lead(Leader::on_resumed);
}
