//! Bounds how many elements a message has before anything of it is decoded.
//!
//! An empty element takes two bytes on the wire and more than a hundred in memory: 4 MiB of them would become 300 MB. The walk
//! follows the fields that are messages themselves ([`Shape`]), because a list within a list costs the same.
//! Not here: how many bytes a message has (`MAX_MESSAGE_BYTES`), and how many elements a list may have for what it means (the hub).

use grid_proto::v1;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Strings, byte strings and messages in one message, each element of a list counted; far above what a worker or a leader sends.
pub(crate) const MAX_ELEMENTS: usize = 64 << 10;

/// Which fields of a message are messages with elements of their own.
pub(crate) struct Shape(&'static [(u32, &'static Shape)]);

/// A message whose elements can be counted.
pub(crate) trait Shaped {
    const SHAPE: Shape;
}

/// Nothing in it repeats.
const FLAT: Shape = Shape(&[]);
/// One that names a lease in its first field.
const OF_LEASE: Shape = Shape(&[(1, &FLAT)]);
/// Labels, backends and facts: their texts are counted, and not walked as if they were messages.
const FACTS: Shape = Shape(&[(4, &FLAT), (5, &FLAT), (10, &FLAT)]);
const JOB_JOURNAL: Shape = Shape(&[(3, &OF_LEASE)]);
const JOURNAL: Shape = Shape(&[(3, &JOB_JOURNAL)]);
/// A name and a value, which is a message.
const PARAM: Shape = Shape(&[(2, &FLAT)]);
const OFFER: Shape = Shape(&[(1, &FLAT), (5, &PARAM)]);

impl Shaped for v1::RegisterNodeRequest {
    const SHAPE: Shape = Shape(&[(2, &FACTS)]);
}

impl Shaped for v1::RegisterNodeReply {
    const SHAPE: Shape = FLAT;
}

impl Shaped for v1::NodeSession {
    const SHAPE: Shape = FLAT;
}

impl Shaped for v1::LogChunk {
    const SHAPE: Shape = FLAT;
}

impl Shaped for v1::FromWorker {
    const SHAPE: Shape = Shape(&[(4, &OF_LEASE), (5, &OF_LEASE), (6, &OF_LEASE), (8, &OF_LEASE), (9, &JOURNAL)]);
}

impl Shaped for v1::ToWorker {
    const SHAPE: Shape = Shape(&[(2, &OFFER), (4, &OF_LEASE), (10, &OF_LEASE)]);
}

/// Whether an encoded message has at most [`MAX_ELEMENTS`].
pub(crate) fn is_sparse<M: Shaped>(bytes: &[u8]) -> bool {
    // An element takes two bytes at least.
    bytes.len() <= 2 * MAX_ELEMENTS || spend(bytes, &M::SHAPE, &mut { MAX_ELEMENTS })
}

/// Takes the elements of a message from what is left; false: there are more. What cannot be read has no elements: the decoder
/// behind this refuses it.
fn spend(mut bytes: &[u8], shape: &Shape, left: &mut usize) -> bool {
    while !bytes.is_empty() {
        let Ok((field, wire)) = decode_key(&mut bytes) else { return true };
        let length = match wire {
            WireType::Varint => decode_varint(&mut bytes).is_ok().then_some(0),
            WireType::SixtyFourBit => Some(8),
            WireType::LengthDelimited => decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok()),
            WireType::ThirtyTwoBit => Some(4),
            // Nobody sends groups, and the decoder skips them: what follows would go uncounted.
            WireType::StartGroup | WireType::EndGroup => return false,
        };
        let Some((value, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else { return true };
        bytes = rest;
        if wire != WireType::LengthDelimited {
            continue;
        }
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        let inner = shape.0.iter().find(|(number, _)| *number == field);
        if inner.is_some_and(|(_, shape)| !spend(value, shape, left)) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use grid_proto::v1;
    use prost::Message;

    use super::{MAX_ELEMENTS, Shaped, is_sparse};

    fn passes<M: Message + Shaped>(message: &M) -> bool {
        is_sparse::<M>(&message.encode_to_vec())
    }

    #[test]
    fn issue14_5_a_message_of_a_million_empty_reports_is_not_decoded() {
        let dense =
            v1::FromWorker { results: vec![v1::LeaseResult::default(); MAX_ELEMENTS + 1], ..Default::default() };
        assert!(!passes(&dense));
        let most = v1::FromWorker { results: vec![v1::LeaseResult::default(); MAX_ELEMENTS], ..Default::default() };
        assert!(passes(&most));
        let results = vec![v1::LeaseResult { output_tail: vec![7; 16 << 10], ..Default::default() }; 200];
        assert!(passes(&v1::FromWorker { session: 1, results, ..Default::default() }));
        assert!(is_sparse::<v1::FromWorker>(&[0xff; 1 << 20]), "refused by the decoder");
        assert!(is_sparse::<v1::FromWorker>(&[]));
    }

    #[test]
    fn texts_are_not_read_as_messages() {
        // Each of these letters, read as the key of a field, begins or ends a group.
        let text = "ckst";
        let value = v1::Value { kind: Some(v1::value::Kind::Text(text.repeat(64 << 10))) };
        let params = [(text.to_owned(), value)].into();
        let offers = vec![v1::Offer { params, ..Default::default() }];
        assert!(passes(&v1::ToWorker { offers, ..Default::default() }));
        let actions = vec![text.to_owned()];
        let facts = v1::NodeFacts {
            labels: [(text.to_owned(), text.to_owned())].into(),
            facts: [(text.to_owned(), text.to_owned())].into(),
            backends: vec![v1::BackendFacts { name: text.to_owned(), actions }],
            ..Default::default()
        };
        let outstanding = vec![v1::Lease { job_id: 1, ..Default::default() }; 20_000];
        assert!(passes(&v1::RegisterNodeRequest { facts: Some(facts), outstanding, ..Default::default() }));
    }

    #[test]
    fn issue14_5_nor_is_one_that_hides_its_elements_behind_a_group() {
        const GROUP: [u8; 2] = [15 << 3 | 3, 15 << 3 | 4];
        let many = v1::FromWorker { results: vec![v1::LeaseResult::default(); MAX_ELEMENTS + 1], ..Default::default() };
        let many = many.encode_to_vec();
        assert!(!is_sparse::<v1::FromWorker>(&[&GROUP[..], &many].concat()));
        let outstanding = [&GROUP[..], &[1 << 3 | 2, 0].repeat(MAX_ELEMENTS + 1)].concat();
        let mut message = Vec::new();
        prost::encoding::bytes::encode(6, &outstanding, &mut message);
        assert!(!is_sparse::<v1::FromWorker>(&message));
    }

    #[test]
    fn issue14_5_nor_is_one_whose_lists_lie_deeper() {
        const MANY: usize = 1 << 20;
        let outstanding = v1::OutstandingList { leases: vec![v1::Lease::default(); MANY], ..Default::default() };
        assert!(!passes(&v1::FromWorker { outstanding: Some(outstanding), ..Default::default() }));
        let of_jobs = |jobs| v1::FromWorker {
            journal: Some(v1::JournalReport { jobs, ..Default::default() }),
            ..Default::default()
        };
        assert!(!passes(&of_jobs(vec![v1::JobJournal::default(); MANY])));
        let leases = vec![v1::JournalLease::default(); MANY];
        assert!(!passes(&of_jobs(vec![v1::JobJournal { leases, ..Default::default() }])));

        let of_facts = |facts| v1::RegisterNodeRequest { facts: Some(facts), ..Default::default() };
        let backends = vec![v1::BackendFacts::default(); MANY];
        assert!(!passes(&of_facts(v1::NodeFacts { backends, ..Default::default() })));
        let backends = vec![v1::BackendFacts { actions: vec![String::new(); MANY], ..Default::default() }];
        assert!(!passes(&of_facts(v1::NodeFacts { backends, ..Default::default() })));
        assert!(!passes(&of_facts(v1::NodeFacts { groups: vec![String::new(); MANY], ..Default::default() })));
        // An entry without its key and value takes two bytes, an entry with both is two elements more.
        let entries: std::collections::BTreeMap<_, _> =
            (0..MAX_ELEMENTS / 2).map(|i| (i.to_string(), "v".to_owned())).collect();
        assert!(!passes(&of_facts(v1::NodeFacts { facts: entries, ..Default::default() })));
        assert!(!passes(&v1::RegisterNodeRequest {
            unstarted: vec![v1::Lease::default(); MANY],
            ..Default::default()
        }));
    }

    /// What the hub accepts as the longest lists must come through.
    #[test]
    fn the_longest_lists_of_a_worker_are_decoded() {
        let lease = v1::Lease { job_id: u64::MAX, job_epoch: u32::MAX, step: u32::MAX, attempt: u32::MAX };
        let (outstanding, unstarted) = (vec![lease; 20_000], vec![lease; 20_000]);
        assert!(passes(&v1::RegisterNodeRequest { outstanding, unstarted, ..Default::default() }));
        let outstanding = v1::OutstandingList { leases: vec![lease; 20_000], settled_jobs: vec![u64::MAX; 50_000] };
        let accepted = vec![lease; 20_000];
        assert!(passes(&v1::FromWorker { outstanding: Some(outstanding), accepted, ..Default::default() }));
    }
}
