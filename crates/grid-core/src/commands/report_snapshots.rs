//! `ReportSnapshots`: a controller's snapshots fail, or work again.
//!
//! A snapshot that fails is tried again and costs only a longer log, so nobody is stopped by it; but a disk that stays full
//! ends a controller one day, and an operator wants to know before. The state has which controllers were reported, so that
//! a problem is one event when it begins and one when it is over, however often it is tried and however often the leader changes.
//! Not here: who asks the controllers (`grid-controller::snapshots`).

use grid_types::limits::MAX_WORD_BYTES;
use grid_types::{Event, Name};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::jobs::cut;
use crate::turn::Turn;

/// Records that a controller's snapshots fail, or work again.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReportSnapshots {
    /// The controller that reports.
    #[n(0)]
    pub controller: Name,
    /// Why they fail; `None`: they work.
    #[n(1)]
    pub problem: Option<String>,
}

impl ReportSnapshots {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let (failing, controller) = (&mut turn.state.meta.failing_snapshots, self.controller.clone());
        match &self.problem {
            Some(problem) if failing.insert(controller.clone()) => {
                let problem = cut(problem.clone(), MAX_WORD_BYTES);
                turn.record_event(Event::SnapshotsFailed { controller, problem });
            }
            None if failing.remove(&controller) => turn.record_event(Event::SnapshotsRecovered { controller }),
            _ => {}
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use grid_types::Event;

    use super::ReportSnapshots;
    use crate::changes::History;
    use crate::commands::{Command, Reply};
    use crate::world::World;

    #[test]
    fn issue13_13_a_snapshot_that_fails_is_one_event_when_it_begins_and_one_when_it_ends() {
        let mut world = World::new();
        let mut report = |controller: &str, problem: Option<&str>| {
            let (controller, problem) = (controller.parse().unwrap(), problem.map(str::to_owned));
            let command = Command::ReportSnapshots(ReportSnapshots { controller, problem });
            let applied = world.apply(vec![command]);
            assert_eq!(applied.replies, [Ok(Reply::Done)]);
            let events = applied.changes.history.iter().filter_map(|row| match row {
                History::Event(row) => Some(row.event.text(None)),
                _ => None,
            });
            events.collect::<Vec<_>>()
        };
        assert_eq!(report("c2", None), [""; 0], "it never failed");
        assert_eq!(report("c2", Some("disk full")), ["its snapshots fail and are tried again: disk full"]);
        assert_eq!(report("c2", Some("disk full")), [""; 0], "not with every try");
        assert_eq!(report("c2", Some("too many open files")), [""; 0], "nor for another reason meanwhile");
        let told = report("c1", Some(&"x".repeat(9_999)));
        assert_eq!(told[0].matches('x').count(), 255, "another controller, and bounded");
        assert_eq!(report("c2", None), ["its snapshots work again"]);
        assert_eq!(report("c2", None), [""; 0]);
        let event = Event::SnapshotsRecovered { controller: "c2".parse().unwrap() };
        assert_eq!(event.subject(None, None), "c2");
        assert_eq!(world.state.meta.failing_snapshots.len(), 1);
    }
}
