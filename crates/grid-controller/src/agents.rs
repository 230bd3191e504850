//! Serves plain HTTP agents, which poll for leases and post results, without a stream or a journal (W10).
//!
//! ```text
//!   POST /v1/leases --> admit (registers who is new) --> look --> HandOut, through the log --> answer
//!                                                        ^   \
//!                                      bell, or a second passes  nothing due: wait
//! ```
//!
//! W10: the log records which leases an agent receives before the response is sent, so that a `once` lease is in one response
//! and never in a second.
//! W9: the answer names revoked leases, and the agent's result for one is its confirmation.
//! Asking is the heartbeat, for as long as the question is open.
//! Not here: bodies (`grid-api`), what may be given (`grid_core::HandOut`), what is due (`leader`).
//! An agent may go on in its node's session under a new leader: it has no stream that could carry offers of the old one,
//! and every hand-out and result is checked in the log.

mod admit;
mod hand_out;
mod results;

use std::future::Future;
use std::time::Duration;

use grid_types::api::LeasesDoc;
use grid_types::{Code, NodeOrd, SessionId};
use tokio::time::Instant;

use crate::control::{AgentPoll, Permit, Refusal};
use crate::controller::Controller;
use crate::leader::AgentAsks;
use crate::shared::OpenPoll;

/// How often, at least, an open question counts as a heartbeat and looks at what only time brings.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// An agent as the log knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Admitted {
    node: NodeOrd,
    session: SessionId,
}

impl Controller {
    /// Answers when there is work or something to stop, when `poll.wait` is over, or when `stop` resolves.
    pub(crate) async fn serve_agent(
        &self,
        permit: Permit,
        poll: AgentPoll,
        stop: impl Future + Send,
    ) -> Result<LeasesDoc, Refusal> {
        let _place = self.shared.leading.polls.place()?;
        let (asked_mono_ms, until) = (self.shared.clock.mono_ms(), Instant::now() + poll.wait);
        let heartbeat = HEARTBEAT.min(Duration::from_millis(self.shared.settings.heartbeat_ms));
        let mut term = self.shared.tenure.term.clone();
        let mut stop = std::pin::pin!(stop);
        let mut stopped = false;
        let mut open = None;
        loop {
            let Some(current) = self.shared.open_term() else {
                return Err(Refusal::new(Code::NotLeader, ""));
            };
            let admitted = self.admit_agent(permit, &poll).await?;
            let place = self.shared.leading.polls.of_node(admitted.node);
            // Before looking, so that what comes meanwhile rings.
            let rung = place.bell.notified();
            let mut rung = std::pin::pin!(rung);
            rung.as_mut().enable();
            open = Some(OpenPoll::keep(&self.shared, open.take(), admitted.node, current.epoch));
            self.hear_agent(admitted);
            let asks = AgentAsks {
                node: admitted.node,
                session: admitted.session,
                asked_mono_ms,
                outstanding: &poll.outstanding,
            };
            let answer = self.hand_out(permit, asks, &place).await?;
            let says_something = !answer.leases.is_empty() || !answer.revoked.is_empty();
            if says_something || stopped || Instant::now() >= until {
                return Ok(answer);
            }
            tokio::select! {
                () = rung => {}
                // An ended channel is a controller that ends; so does the role.
                _ = term.changed() => {}
                () = tokio::time::sleep_until(until.min(Instant::now() + heartbeat)) => {}
                _ = &mut stop, if !stopped => stopped = true,
            }
        }
    }

    fn hear_agent(&self, Admitted { node, session }: Admitted) {
        self.shared.lead(|leader, now| leader.on_agent_heard(now, node, session));
    }
}
