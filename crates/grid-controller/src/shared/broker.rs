//! Tracks whether this controller reaches the broker that carries sessions of workers (N5).
//!
//! N8: what it could not carry is refused before it is stored, because a lease that can never be offered would end unknown.
//! While it does not, the silence of these workers says nothing about them, and their messages are lost. When it is back the leader asks
//! each of them what it has.

use std::sync::atomic::Ordering;

use grid_types::Code;
use grid_types::job::JobSpec;

use super::Shared;
use crate::control::Refusal;
use crate::leader::{Leader, offer_bytes};

/// What is around an offer in a message.
const ENVELOPE_BYTES: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broker {
    /// All workers have connections of their own.
    None,
    Up,
    Down,
}

impl Shared {
    pub fn broker_carries(&self, most_bytes: usize) {
        self.tenure.broker_carries.store(most_bytes, Ordering::Relaxed);
    }

    /// Refuses a job with a step that no message to a worker could hold.
    pub fn check_carried(&self, spec: &JobSpec) -> Result<(), Refusal> {
        let most = self.tenure.broker_carries.load(Ordering::Relaxed);
        for (step, (_, task)) in spec.steps().enumerate() {
            let bytes = offer_bytes(task) + ENVELOPE_BYTES;
            if bytes > most {
                let (backend, action) = (&task.backend, &task.action);
                let why = format!(
                    "step {step} ({backend} {action}) takes {bytes} bytes, and NATS carries at most {most}: give it less text, or raise \
                     max_payload of the nats-servers"
                );
                return Err(Refusal::new(Code::TooLarge, why));
            }
        }
        Ok(())
    }

    pub fn broker_is_up(&self, is_up: bool) {
        let now = if is_up { Broker::Up } else { Broker::Down };
        let changed = self.tenure.broker.send_if_modified(|broker| std::mem::replace(broker, now) != now);
        if changed {
            self.lead(|leader, now| if is_up { leader.on_broker_up(now) } else { Leader::on_broker_down(leader) });
        }
    }
}
