//! Plain HTTP agents: leases by asking, results by telling, no session and no journal (W10).
//!
//! ```text
//!   POST /v1/leases --> admit (registers who is new) --> look --> HandOut, through the log --> answer
//!                                                        ^   \
//!                                      bell, or a second passes  nothing due: wait
//! ```
//!
//! W10: what an agent is given is in the log before the answer goes out, so that a `once` lease is given in one answer,
//! never twice. What may run again is given again (W5) if the agent does not say that it holds it: after
//! [`GIVE_AGAIN_MS`], at once after a change of leader.
//! W9: the answer names revoked leases, and the agent's result for one is its confirmation.
//! Asking is the heartbeat, for as long as the question is open.
//! Not here: bodies (`grid-api`), what may be given (`grid_core::HandOut`), soft state (`seats`).
//! An agent may go on in its node's session under a new leader: it has no stream that could carry offers of the old one,
//! and every hand-out and result is checked in the log.

mod admit;
mod hand_out;
mod results;
mod seats;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use grid_types::api::LeasesDoc;
use grid_types::{Code, LeaseId, Name, NodeId, NodeOrd, Outcome, SessionId};
use tokio::time::Instant;

use crate::control::Refusal;
use crate::controller::Controller;

pub use seats::Seats;

/// W5: what an agent does not hold is given again after this long.
const GIVE_AGAIN_MS: u64 = 3_000;
/// How often, at least, an open question counts as a heartbeat and looks at what only time brings.
const BEAT: Duration = Duration::from_secs(1);

/// What an agent says of itself. What it leaves out stays as it was said last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFacts {
    pub hostname: Option<String>,
    pub groups: Option<BTreeSet<Name>>,
    pub labels: Option<BTreeMap<String, String>>,
    /// Backend and actions.
    pub backends: Option<BTreeMap<String, BTreeSet<String>>>,
    pub slots: Option<u32>,
}

/// An agent asks for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPoll {
    pub agent: NodeId,
    /// Tells one process of an agent from another; all that name none count as one.
    pub instance: Option<String>,
    pub facts: AgentFacts,
    /// What it works on, or has the result of.
    pub held: BTreeSet<LeaseId>,
    pub wait: Duration,
}

/// An agent tells how a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentResult {
    pub agent: NodeId,
    pub lease: LeaseId,
    pub outcome: Outcome,
    pub output: String,
    pub error: Option<String>,
    pub duration_ms: u64,
}

/// An agent as the log knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Admitted {
    node: NodeOrd,
    session: SessionId,
}

impl Controller {
    /// Answers when there is something to tell, when `poll.wait` is over, or when `stop` is.
    pub(crate) async fn serve_agent(&self, poll: AgentPoll, stop: impl Future + Send) -> Result<LeasesDoc, Refusal> {
        let _place = self.shared.agents.place()?;
        let (asked_mono_ms, until) = (self.shared.clock.mono_ms(), Instant::now() + poll.wait);
        let beat = BEAT.min(Duration::from_millis(self.shared.settings.heartbeat_ms));
        let mut term = self.shared.term.clone();
        let mut stop = std::pin::pin!(stop);
        let mut stopped = false;
        let mut seated = None;
        loop {
            let Some(current) = self.shared.open_term() else {
                return Err(Refusal::new(Code::NotLeader, ""));
            };
            let admitted = self.admit_agent(&poll).await?;
            let seat = self.shared.agents.seat(admitted.node, current.epoch);
            // Before looking, so that what comes meanwhile rings.
            let rung = seat.bell.notified();
            let mut rung = std::pin::pin!(rung);
            rung.as_mut().enable();
            seated = Some(seat.sit(seated.take()));
            self.hear_agent(admitted);
            let answer = self.hand_out(&poll, admitted, &seat, asked_mono_ms).await?;
            let says_something = !answer.leases.is_empty() || !answer.revoked.is_empty();
            if says_something || stopped || Instant::now() >= until {
                return Ok(answer);
            }
            tokio::select! {
                () = rung => {}
                // An ended channel is a controller that ends; so does the role.
                _ = term.changed() => {}
                () = tokio::time::sleep_until(until.min(Instant::now() + beat)) => {}
                _ = &mut stop, if !stopped => stopped = true,
            }
        }
    }

    fn hear_agent(&self, Admitted { node, session }: Admitted) {
        let Some(term) = self.shared.current_term() else { return };
        let (mono_ms, wall_ms) = (self.shared.clock.mono_ms(), self.shared.clock.wall_ms());
        {
            let mut sessions = self.shared.sessions();
            if sessions.get_mut(session).is_none() {
                sessions.begin(session, node, term.epoch.wire(), mono_ms, wall_ms);
            }
            if let Some(known) = sessions.get_mut(session) {
                (known.heard_mono_ms, known.heard_wall_ms) = (mono_ms, wall_ms);
            }
        }
        self.shared.agents.seat(node, term.epoch).heard(mono_ms);
        self.shared.soft().liveness.heard(node, session);
    }
}
