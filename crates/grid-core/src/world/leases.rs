//! Leases of a test's world: what is out, and what workers report of it.

use grid_types::{Outcome, SessionId};

use super::{Lease, World};
use crate::commands::{BeginLease, Command, ConfirmRevoke, ExpireLease, RecordResult, Rejection, Reply};
use crate::effect::{Effect, pending_effects};

impl World {
    /// W3: the worker asks to start a lease.
    pub fn begin_as(&mut self, (node, lease): Lease, session: u64) -> Result<Reply, Rejection> {
        self.one(Command::BeginLease(BeginLease { node, session: SessionId(session), lease }))
    }

    pub fn begin(&mut self, lease: Lease) -> Result<Reply, Rejection> {
        self.begin_as(lease, self.session(lease.0.0))
    }

    /// Every `once` lease that is out has begun.
    pub fn begin_all(&mut self) {
        for lease in self.offered() {
            self.begin(lease).unwrap();
        }
    }

    /// Leases that are to be given back.
    pub fn revoked(&self) -> Vec<Lease> {
        let effects = pending_effects(&self.state).into_iter().filter_map(|effect| match effect {
            Effect::Revoke { node, lease } => Some((node, lease)),
            _ => None,
        });
        effects.collect()
    }

    /// Leases that are out and not revoked, by node.
    pub fn offered(&self) -> Vec<Lease> {
        let offers = pending_effects(&self.state).into_iter().filter_map(|effect| match effect {
            Effect::Offer(offer) => Some((offer.node, offer.lease)),
            _ => None,
        });
        offers.collect()
    }

    pub fn result_command(&self, (node, lease): Lease, session: u64, outcome: Outcome) -> Command {
        Command::RecordResult(RecordResult {
            node,
            session: SessionId(session),
            lease,
            outcome,
            error: outcome.is_failure().then(|| "boom".to_owned()),
            output_tail: b"out".to_vec(),
            output_bytes: 3,
            output_truncated: false,
            detail: None,
            duration_ms: 42,
            started_wall_ms: 7,
        })
    }

    pub fn report_as(&mut self, lease: Lease, session: u64, outcome: Outcome) -> Result<Reply, Rejection> {
        let command = self.result_command(lease, session, outcome);
        self.one(command)
    }

    pub fn report(&mut self, lease: Lease, outcome: Outcome) -> Result<Reply, Rejection> {
        self.report_as(lease, self.session(lease.0.0), outcome)
    }

    pub fn succeed(&mut self, lease: Lease) {
        self.report(lease, Outcome::Success).unwrap();
    }

    pub fn fail(&mut self, lease: Lease) {
        self.report(lease, Outcome::Failed).unwrap();
    }

    pub fn succeed_all_offered(&mut self) {
        for lease in self.offered() {
            self.succeed(lease);
        }
    }

    /// Succeeds whatever is offered until nothing is.
    pub fn finish_all(&mut self) {
        for _ in 0..10_000 {
            if self.offered().is_empty() {
                return;
            }
            self.succeed_all_offered();
        }
        panic!("it never ends");
    }

    pub fn confirm_revoked(&mut self, lease: Lease) -> Result<Reply, Rejection> {
        self.confirm_ended(lease, Some(Outcome::Cancelled))
    }

    pub fn confirm_ended(&mut self, (node, lease): Lease, ended: Option<Outcome>) -> Result<Reply, Rejection> {
        let session = SessionId(self.session(node.0));
        self.one(Command::ConfirmRevoke(ConfirmRevoke {
            node,
            session,
            lease,
            ended,
            duration_ms: 1,
            started_wall_ms: 2,
            output_tail: Vec::new(),
            output_bytes: 0,
            error: None,
        }))
    }

    pub fn expire(&mut self, (node, lease): Lease) -> Vec<Effect> {
        let begun = self.state.jobs.get(&lease.job).is_some_and(|job| job.begun(node).is_some());
        self.apply(vec![Command::ExpireLease(ExpireLease { node, lease, begun })]).effects
    }
}
