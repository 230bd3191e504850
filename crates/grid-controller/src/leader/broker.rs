//! What a leader does while its broker is down, and when it is back (N5).
//!
//! The silence of a worker counts only while it could be heard: that of one with a connection of its own goes on, every other clock stands
//! still, as a new leader does not know yet how its workers will come. Afterwards everyone gets a fresh grace period (V1), and each session
//! of the broker is asked for its list: questions, offers and answers of the time in between may be lost.

use super::{Leader, Now, Out};

impl Leader {
    pub fn on_broker_down(&mut self) -> Vec<Out> {
        self.broker_is_down = true;
        Vec::new()
    }

    pub fn on_broker_up(&mut self, now: &Now<'_>) -> Vec<Out> {
        if !std::mem::take(&mut self.broker_is_down) {
            return Vec::new();
        }
        self.liveness.grant_grace();
        let mut outs = Vec::new();
        for (id, session) in self.sessions.iter_mut().filter(|(_, session)| session.has_broker) {
            session.asked = None;
            outs.extend(session.ask_outstanding(*id, now.mono_ms));
        }
        self.stamped(outs)
    }
}

#[cfg(test)]
mod tests {
    use grid_types::node::NodeStatus;

    use super::super::Leader;
    use super::super::tests::world::World;

    #[test]
    fn n5_silence_does_not_count_while_the_broker_is_down_and_then_grants_grace() {
        let mut world = World::new(&["broker", "direct"]);
        world.open_by_subject("broker");
        world.lead(|leader, _| leader.on_broker_down());
        world.pass_silently(120_000);
        assert_eq!(world.status("broker"), NodeStatus::Ready);
        assert_eq!(world.status("direct"), NodeStatus::Dead, "it has a connection of its own");
        world.lead(Leader::on_broker_up);
        world.pass_silently(14_000);
        assert_eq!(world.status("broker"), NodeStatus::Ready, "a fresh grace period");
        world.pass_silently(120_000);
        assert_eq!(world.status("broker"), NodeStatus::Dead);
    }

    #[test]
    fn n5_each_session_of_the_broker_is_asked_for_its_list_when_it_is_back() {
        let mut world = World::new(&["broker", "direct"]);
        world.open_by_subject("broker");
        assert!(world.lead(Leader::on_broker_up).is_empty(), "it never was down");
        world.lead(|leader, _| leader.on_broker_down());
        assert_eq!(world.lead(Leader::on_broker_up).len(), 1);
    }
}
