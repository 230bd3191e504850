//! Splits messages that would be larger than a subject should carry (N8).
//!
//! Every list of a message may come in parts but one: the list of outstanding leases says by what it lacks, so it stays whole, and the
//! list of settled jobs beside it is cut to what fits; the rest of it is reported with a later session.

use std::collections::BTreeSet;

use grid_proto::v1;
use grid_types::LeaseKey;
use prost::Message;

/// Room for the tag and the length of an element.
const PER_ELEMENT: usize = 8;

/// Hands out elements of lists until a part is full.
struct Part {
    left: usize,
}

impl Part {
    /// Takes the elements that fit from the front of a list; the first element of an empty part always fits.
    fn take<M>(&mut self, is_empty: &mut bool, list: &mut std::vec::IntoIter<M>, size: impl Fn(&M) -> usize) -> Vec<M> {
        let mut taken = Vec::new();
        while let Some(next) = list.as_slice().first() {
            let bytes = size(next) + PER_ELEMENT;
            if bytes > self.left && !*is_empty {
                break;
            }
            self.left = self.left.saturating_sub(bytes);
            *is_empty = false;
            taken.extend(list.next());
        }
        taken
    }
}

/// A leader's message in parts of about `most` bytes; one offer that is larger is a part of its own.
pub(super) fn to_worker(message: v1::ToWorker, most: usize) -> Vec<v1::ToWorker> {
    if message.encoded_len() <= most {
        return vec![message];
    }
    let leader_epoch = message.leader_epoch;
    let (mut answers, mut revokes) = (message.answers.into_iter(), message.revokes.into_iter());
    let (mut forgets, mut begun) = (message.forgets.into_iter(), message.begun.into_iter());
    let (mut offers, mut journal) = (message.offers.into_iter(), message.ask_journal.into_iter());
    let mut parts = Vec::new();
    loop {
        let (mut part, mut is_empty) = (Part { left: most }, true);
        let next = v1::ToWorker {
            leader_epoch,
            answers: part.take(&mut is_empty, &mut answers, Message::encoded_len),
            revokes: part.take(&mut is_empty, &mut revokes, Message::encoded_len),
            forgets: part.take(&mut is_empty, &mut forgets, Message::encoded_len),
            begun: part.take(&mut is_empty, &mut begun, Message::encoded_len),
            offers: part.take(&mut is_empty, &mut offers, Message::encoded_len),
            ask_journal: part.take(&mut is_empty, &mut journal, |_| 8),
            ..Default::default()
        };
        if is_empty {
            break;
        }
        parts.push(next);
    }
    // Last, after everything that they ask about.
    parts.push(v1::ToWorker {
        leader_epoch,
        ask_outstanding: message.ask_outstanding,
        closing: message.closing,
        log_request: message.log_request,
        controllers: message.controllers,
        ..Default::default()
    });
    parts
}

/// What a worker says, in the order in which the leader reads it.
pub(super) struct Split {
    /// The journal, before the leases that it is about, and accepted offers.
    pub(super) before: Vec<v1::FromWorker>,
    pub(super) results: Vec<v1::LeaseResult>,
    pub(super) after: Vec<v1::FromWorker>,
}

/// A worker's message without its results, in parts of about `most` bytes.
pub(super) fn from_worker(mut message: v1::FromWorker, most: usize) -> Split {
    let results = std::mem::take(&mut message.results);
    let (session, leader_epoch) = (message.session, message.leader_epoch);
    let envelope = || v1::FromWorker { session, leader_epoch, ..Default::default() };
    // A lease whose result is here needs no deadline.
    let ended: BTreeSet<LeaseKey> = results.iter().filter_map(|result| result.lease.map(LeaseKey::from)).collect();
    message.accepted.retain(|lease| !ended.contains(&LeaseKey::from(*lease)));
    let mut before = Vec::new();
    if !results.is_empty() && message.journal.is_some() {
        before.push(v1::FromWorker { journal: message.journal.take(), ..envelope() });
    }
    if let Some(list) = &mut message.outstanding {
        let leases: usize = list.leases.iter().map(|lease| lease.encoded_len() + PER_ELEMENT).sum();
        list.settled_jobs.truncate(most.saturating_sub(leases) / 8);
    }
    if message == envelope() {
        return Split { before, results, after: Vec::new() };
    }
    if message.encoded_len() <= most {
        return Split { before, results, after: vec![message] };
    }
    Split { before, results, after: parts(message, most) }
}

fn parts(message: v1::FromWorker, most: usize) -> Vec<v1::FromWorker> {
    let (session, leader_epoch) = (message.session, message.leader_epoch);
    let envelope = || v1::FromWorker { session, leader_epoch, ..Default::default() };
    let mut parts = Vec::new();
    if message.journal.is_some() {
        parts.push(v1::FromWorker { journal: message.journal, ..envelope() });
    }
    let (mut accepted, mut begins) = (message.accepted.into_iter(), message.begins.into_iter());
    let mut revokes_done = message.revokes_done.into_iter();
    loop {
        let (mut part, mut is_empty) = (Part { left: most }, true);
        let next = v1::FromWorker {
            accepted: part.take(&mut is_empty, &mut accepted, Message::encoded_len),
            revokes_done: part.take(&mut is_empty, &mut revokes_done, Message::encoded_len),
            begins: part.take(&mut is_empty, &mut begins, Message::encoded_len),
            ..envelope()
        };
        if is_empty {
            break;
        }
        parts.push(next);
    }
    parts.push(v1::FromWorker {
        outstanding: message.outstanding,
        heartbeat: message.heartbeat,
        secret: message.secret,
        ..envelope()
    });
    parts
}

#[cfg(test)]
mod tests {
    use grid_proto::v1;
    use prost::Message;

    use super::{from_worker, to_worker};

    fn lease(job_id: u64) -> v1::Lease {
        v1::Lease { job_id, job_epoch: 1, step: 0, attempt: 1 }
    }

    #[test]
    fn n8_a_large_message_to_a_worker_comes_in_parts_and_loses_nothing() {
        let offer = |job| v1::Offer { lease: Some(lease(job)), action: "x".repeat(500), ..Default::default() };
        let whole = v1::ToWorker {
            leader_epoch: 3,
            offers: (0..50).map(offer).collect(),
            revokes: (0..200).map(lease).collect(),
            ask_outstanding: true,
            ask_journal: (0..300).collect(),
            ..Default::default()
        };
        let parts = to_worker(whole.clone(), 2_000);
        assert!(parts.len() > 10 && parts.iter().all(|part| part.leader_epoch == 3 && part.encoded_len() <= 2_100));
        let joined = |list: fn(&v1::ToWorker) -> usize| parts.iter().map(list).sum::<usize>();
        assert_eq!(joined(|part| part.offers.len()), 50);
        assert_eq!(joined(|part| part.revokes.len()), 200);
        assert_eq!(joined(|part| part.ask_journal.len()), 300);
        assert!(parts.last().unwrap().ask_outstanding, "asked after everything it is about");
        assert_eq!(to_worker(whole.clone(), 1 << 20), [whole]);
    }

    #[test]
    fn n8_an_offer_above_the_limit_is_a_part_of_its_own() {
        let offers = vec![v1::Offer { action: "x".repeat(5_000), ..Default::default() }; 3];
        let parts = to_worker(v1::ToWorker { offers, ..Default::default() }, 2_000);
        assert_eq!(parts.iter().filter(|part| part.offers.len() == 1).count(), 3);
    }

    #[test]
    fn n8_a_workers_list_stays_whole_and_its_reports_come_in_parts() {
        let done = |job| v1::RevokeDone { lease: Some(lease(job)), output_tail: vec![7; 500], ..Default::default() };
        let settled_jobs = (0..1_000).collect();
        let message = v1::FromWorker {
            session: 7,
            leader_epoch: 3,
            revokes_done: (0..20).map(done).collect(),
            outstanding: Some(v1::OutstandingList { leases: (0..50).map(lease).collect(), settled_jobs }),
            results: vec![v1::LeaseResult { lease: Some(lease(99)), ..Default::default() }],
            accepted: vec![lease(98), lease(99)],
            journal: Some(v1::JournalReport::default()),
            ..Default::default()
        };
        let split = from_worker(message, 2_000);
        assert!(split.before[0].journal.is_some() && split.before.len() == 1, "before the leases that it is about");
        assert_eq!(split.results.len(), 1);
        let sum = |list: fn(&v1::FromWorker) -> usize| split.after.iter().map(list).sum::<usize>();
        assert_eq!((sum(|part| part.revokes_done.len()), sum(|part| part.accepted.len())), (20, 1));
        assert!(split.after.iter().all(|part| part.session == 7 && part.leader_epoch == 3));
        let lists: Vec<_> = split.after.iter().filter_map(|part| part.outstanding.as_ref()).collect();
        assert_eq!((lists.len(), lists[0].leases.len()), (1, 50));
        assert!(split.after.iter().all(|part| part.encoded_len() < 2_700));
    }

    #[test]
    fn a_message_of_results_alone_needs_no_other() {
        let results = vec![v1::LeaseResult { lease: Some(lease(1)), ..Default::default() }];
        let split =
            from_worker(v1::FromWorker { session: 7, results, accepted: vec![lease(1)], ..Default::default() }, 99);
        assert!(split.before.is_empty() && split.after.is_empty() && split.results.len() == 1);
    }
}
