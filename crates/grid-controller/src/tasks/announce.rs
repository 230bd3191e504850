//! Sends workers the list of controllers whenever it changes: the one that they were configured with may be gone one day.
//!
//! Level-triggered: each session remembers which list it has, so a session that opens while members change misses nothing. A
//! controller that is alone and always was has no list to send.
//! A change of the members, a new session and a new term each wake this task; [`PAUSE`] bounds how often it looks at all sessions.

use std::sync::Arc;
use std::time::Duration;

use crate::shared::Shared;

const PAUSE: Duration = Duration::from_millis(500);
/// Sessions that get the list in one round, so that thousands of them are not woken at once.
const AT_ONCE: usize = 1_000;

/// Runs until the member ends.
pub async fn announce(shared: Arc<Shared>) {
    let mut term = shared.tenure.term.clone();
    let (mut controllers, mut list, mut several) = (Vec::new(), 0, false);
    while term.wait_for(Option::is_some).await.is_ok() {
        let roster = shared.log.raft.roster();
        let now = shared.controllers();
        if now != controllers {
            (controllers, list) = (now, list + 1);
        }
        several |= controllers.len() > 1;
        let sent = if several { send(&shared, &controllers, list) } else { 0 };
        tokio::time::sleep(PAUSE).await;
        if sent == AT_ONCE {
            continue;
        }
        tokio::select! {
            () = shared.log.raft.roster_changed(&roster) => {}
            () = shared.leading.opened.notified() => {}
            changed = term.changed() => if changed.is_err() { return },
        }
    }
}

/// Returns how many sessions got it.
fn send(shared: &Shared, controllers: &[String], list: u64) -> usize {
    let sent = shared.lead_with(|leader, _| {
        let outs = leader.on_controllers(controllers, list, AT_ONCE);
        (outs.len(), outs)
    });
    sent.map_or(0, |(sent, _)| sent)
}
