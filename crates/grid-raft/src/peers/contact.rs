//! Records when each member answered last.
//!
//! E5: a leader counts as cut off when no majority of voters has answered a
//! request that was *sent* within one election timeout. Computed each time and
//! not kept as a flag: a process that was stopped for ten seconds must know it
//! with its first instruction. An answer in a higher term is no support: its member
//! follows, or has voted for, another one.
//! Not here: who is a voter (the caller brings the membership).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openraft::LogId;

use crate::bounds::MAX_MEMBERS;
use crate::group::Membership;

#[derive(Debug, Default)]
pub struct Contact(Mutex<Contacts>);

#[derive(Debug, Default)]
struct Contacts {
    /// When the last request was sent that the member answered.
    answered: BTreeMap<u64, Instant>,
    /// The same of answers in a term that was not above this member's.
    supported: BTreeMap<u64, Instant>,
    /// When a leader was last followed.
    leader: Option<Instant>,
    /// The last entry that each member has acknowledged to this one, as the leader of the term.
    acknowledged: BTreeMap<u64, (u64, LogId<u64>)>,
    /// Up to where each member has had every entry, all of them committed: in no term can they have been taken back.
    floors: BTreeMap<u64, LogId<u64>>,
}

impl Contact {
    pub fn answered(&self, member: u64, sent: Instant) {
        later(&mut self.lock().answered, member, sent);
    }

    /// It answered in a term that was not above this member's when the request was sent.
    pub fn supported(&self, member: u64, sent: Instant) {
        later(&mut self.lock().supported, member, sent);
    }

    /// `member` has confirmed to the leader of `term`, which is this one, that its log matches up to `last`.
    pub fn acknowledged(&self, member: u64, term: u64, last: Option<LogId<u64>>) {
        let Some(last) = last else { return };
        let mut contacts = self.lock();
        let known = contacts.acknowledged.entry(member).or_insert((term, last));
        *known = (*known).max((term, last));
    }

    /// What it has acknowledged in that term: while it lasts, no other leader can have taken anything of it back.
    pub fn acknowledged_in(&self, member: u64, term: u64) -> Option<LogId<u64>> {
        self.lock().acknowledged.get(&member).filter(|(of, _)| *of == term).map(|(_, last)| *last)
    }

    /// `member` has had every entry up to `last`, and those up to `committed` are committed.
    pub fn had(&self, member: u64, last: Option<LogId<u64>>, committed: Option<LogId<u64>>) {
        let Some((last, committed)) = last.zip(committed) else { return };
        let at = if last.index < committed.index { last } else { committed };
        let mut contacts = self.lock();
        let has_room = contacts.floors.len() < MAX_MEMBERS;
        match contacts.floors.get_mut(&member) {
            Some(floor) if floor.index < at.index => *floor = at,
            None if has_room => drop(contacts.floors.insert(member, at)),
            _ => {}
        }
    }

    pub fn floor(&self, member: u64) -> Option<LogId<u64>> {
        self.lock().floors.get(&member).copied()
    }

    pub fn floors(&self) -> Vec<(u64, LogId<u64>)> {
        self.lock().floors.iter().map(|(member, at)| (*member, *at)).collect()
    }

    pub fn followed_a_leader(&self) {
        self.lock().leader = Some(Instant::now());
    }

    pub fn has_heard_leader(&self, within: Duration) -> bool {
        self.lock().leader.is_some_and(|at| at.elapsed() < within)
    }

    /// Since when no leader was followed; `None` if none ever was.
    pub fn leader_silence(&self) -> Option<Duration> {
        self.lock().leader.map(|at| at.elapsed())
    }

    /// Since when the member has been silent; `None` if it was never in contact.
    pub fn silence(&self, member: u64) -> Option<Duration> {
        self.lock().answered.get(&member).map(Instant::elapsed)
    }

    pub fn hears(&self, member: u64, within: Duration) -> bool {
        self.silence(member).is_some_and(|silence| silence < within)
    }

    /// Whether `me` and those that supported it within `within` are a majority.
    pub fn has_majority(&self, membership: &Membership, me: u64, within: Duration) -> bool {
        let contacts = self.lock();
        is_majority(membership, |id| id == me || contacts.supported.get(&id).is_some_and(|at| at.elapsed() < within))
    }

    fn lock(&self) -> MutexGuard<'_, Contacts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn later(times: &mut BTreeMap<u64, Instant>, member: u64, sent: Instant) {
    let at = times.entry(member).or_insert(sent);
    *at = (*at).max(sent);
}

/// In every configuration that counts: two while a change is under way.
pub fn is_majority(membership: &Membership, counts: impl Fn(u64) -> bool) -> bool {
    membership.get_joint_config().iter().all(|voters| {
        let there = voters.iter().filter(|id| counts(**id)).count();
        there * 2 > voters.len()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::{Duration, Instant};

    use openraft::{CommittedLeaderId, LogId};

    use super::Contact;
    use crate::group::{Member, Membership};

    #[test]
    fn e5_a_majority_is_me_and_those_who_answered_lately() {
        let voters = BTreeSet::from([1, 2, 3]);
        let members: BTreeMap<u64, Member> = voters.iter().map(|id| (*id, Member::default())).collect();
        let three = Membership::new(vec![voters], members.clone());
        let joint = Membership::new(vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([1])], members);
        let (contact, limit) = (Contact::default(), Duration::from_secs(60));
        assert!(!contact.has_majority(&three, 1, limit));
        assert!(!contact.has_majority(&joint, 1, limit), "the old configuration counts too");
        contact.answered(3, Instant::now());
        assert!(contact.hears(3, limit) && !contact.has_majority(&three, 1, limit), "in a higher term");
        contact.supported(3, Instant::now());
        assert!(contact.has_majority(&three, 1, limit));
        assert!(!contact.has_majority(&three, 1, Duration::ZERO), "an old answer does not count");
    }

    #[test]
    fn issue13_18_a_floor_is_never_above_what_is_committed_and_never_falls() {
        let id = |term, index| Some(LogId::new(CommittedLeaderId::new(term, 0), index));
        let contact = Contact::default();
        contact.had(7, id(2, 9), None);
        assert_eq!(contact.floor(7), None, "it may be truncated");
        contact.had(7, id(2, 9), id(1, 5));
        assert_eq!(contact.floor(7), id(1, 5));
        contact.had(7, id(1, 4), id(1, 5));
        assert_eq!(contact.floor(7), id(1, 5));
        contact.had(7, id(2, 9), id(2, 12));
        assert_eq!((contact.floor(7), contact.floor(8)), (id(2, 9), None));
        (100..1_000).for_each(|member| contact.had(member, id(1, 1), id(1, 1)));
        assert_eq!(contact.floors().len(), crate::bounds::MAX_MEMBERS);
    }
}
