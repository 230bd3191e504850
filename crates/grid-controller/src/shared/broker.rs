//! Whether this controller reaches the broker that carries sessions of workers (N5).
//!
//! While it does not, the silence of these workers says nothing about them, and their messages are lost. When it is back the leader asks
//! each of them what it has.

use super::Shared;
use crate::leader::Leader;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broker {
    /// All workers have connections of their own.
    None,
    Up,
    Down,
}

impl Shared {
    pub fn broker_is_up(&self, is_up: bool) {
        let now = if is_up { Broker::Up } else { Broker::Down };
        let changed = self.tenure.broker.send_if_modified(|broker| std::mem::replace(broker, now) != now);
        if changed {
            self.lead(|leader, now| if is_up { leader.on_broker_up(now) } else { Leader::on_broker_down(leader) });
        }
    }
}
