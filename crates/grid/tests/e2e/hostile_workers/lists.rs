//! Lists of leases that a worker invents are neither kept in memory nor written to the log.

use std::path::Path;
use std::time::Duration;

use grid_proto::v1;
use grid_testkit::spec::{job, sleep};
use grid_testkit::{Cluster, LIMIT};

use super::peer::{Peer, Stream, first, refused, registration};

/// What the server may grow by in a test that invents a million leases.
const GROWTH_KIB: u64 = 100 * 1024;

/// A registered worker with one outstanding lease.
struct Held {
    peer: Peer,
    stream: Stream,
    reply: v1::RegisterNodeReply,
    lease: v1::Lease,
}

fn held(cluster: &Cluster) -> Held {
    let peer = Peer::connect(cluster.server.grpc_port());
    let reply = peer.register(registration("evil")).expect("registered");
    let mut stream = peer.open(first(&reply)).expect("open");
    cluster.api().submit(&job("node:evil", [sleep("250s")]));
    let lease = loop {
        let message = peer.next(&mut stream).expect("an offer");
        if let Some(offer) = message.offers.first() {
            break offer.lease.expect("a lease");
        }
    };
    Held { peer, stream, reply, lease }
}

impl Held {
    fn message(&self) -> v1::FromWorker {
        v1::FromWorker { session: self.reply.session, leader_epoch: self.reply.leader_epoch, ..Default::default() }
    }

    fn invented(&self, attempt: u32) -> v1::Lease {
        v1::Lease { attempt, ..self.lease }
    }

    /// Returns when the controller has read everything that was sent before, with the answers that arrived meanwhile.
    fn settle(&mut self) -> v1::ToWorker {
        let mut seen = v1::ToWorker::default();
        let since = std::time::Instant::now();
        while since.elapsed() < LIMIT {
            // A digest that does not agree makes the controller ask, unless something else waits for this session.
            let heartbeat = Some(v1::Heartbeat { outstanding_digest: 4_711, outstanding_count: 1 });
            self.peer.send(&self.stream, v1::FromWorker { heartbeat, ..self.message() });
            while let Some(message) = self.peer.next_within(&mut self.stream, Duration::from_millis(300)) {
                assert_eq!(message.closing, None, "the stream is open");
                seen.answers.extend(message.answers);
                seen.begun.extend(message.begun);
                if message.ask_outstanding {
                    let outstanding = Some(v1::OutstandingList { leases: vec![self.lease], settled_jobs: Vec::new() });
                    self.peer.send(&self.stream, v1::FromWorker { outstanding, ..self.message() });
                    return seen;
                }
            }
        }
        panic!("the controller never asks")
    }
}

/// Of the server's log, as far as it is on disk.
fn log_bytes(cluster: &Cluster) -> u64 {
    size_of(&cluster.server.data_dir().join("raft"))
}

fn size_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    files
        .map(|file| if file.path().is_dir() { size_of(&file.path()) } else { file.metadata().map_or(0, |m| m.len()) })
        .sum()
}

#[test]
fn issue14_5_accepted_counts_only_for_leases_that_are_out() {
    let mut cluster = Cluster::start(&[]);
    let mut held = held(&cluster);
    let before_kib = cluster.server.process().peak_memory_kib();
    for thousands in 0..20 {
        let accepted = (0..50_000).map(|i| held.invented(2 + thousands * 50_000 + i)).collect();
        held.peer.send(&held.stream, v1::FromWorker { accepted, ..held.message() });
    }
    held.settle();
    assert_eq!(refused(&cluster.api(), "invented_lease"), 1_000_000);
    let grown_kib = cluster.server.process().peak_memory_kib() - before_kib;
    assert!(grown_kib < GROWTH_KIB, "the server grew by {grown_kib} KiB");
    // The outstanding lease still counts.
    held.peer.send(&held.stream, v1::FromWorker { accepted: vec![held.lease], ..held.message() });
    held.settle();
}

#[test]
fn issue14_5_reports_of_leases_that_were_invented_stay_out_of_the_log() {
    let cluster = Cluster::start(&[]);
    let mut held = held(&cluster);
    let before = log_bytes(&cluster);
    let (count, text) = (400, "x".repeat(4_000));
    for (from, of_job) in [(2, held.lease.job_id), (10_000, 7)] {
        let lease = |i| Some(v1::Lease { job_id: of_job, ..held.invented(from + i) });
        let result = |i| v1::LeaseResult {
            lease: lease(i),
            status: v1::LeaseStatus::Failed.into(),
            error: text.clone(),
            ..Default::default()
        };
        let done = |i| v1::RevokeDone {
            lease: lease(1_000 + i),
            ended: v1::LeaseStatus::Failed.into(),
            error: text.clone(),
            ..Default::default()
        };
        let begin = |i| v1::Begin { lease: lease(2_000 + i), asked_ms: 1 };
        let results = (0..count).map(result).collect();
        let revokes_done = (0..count).map(done).collect();
        let begins = (0..count).map(begin).collect();
        held.peer.send(&held.stream, v1::FromWorker { results, revokes_done, begins, ..held.message() });
    }
    let (mut answers, mut begun) = (0, 0);
    let since = std::time::Instant::now();
    while answers < 4 * count || begun < 2 * count {
        assert!(since.elapsed() < LIMIT, "{answers} answers to reports, {begun} to begins");
        let seen = held.settle();
        answers += u32::try_from(seen.answers.len()).expect("few");
        begun += u32::try_from(seen.begun.len()).expect("few");
        let is_final = |answer: &v1::Answer| answer.kind() != v1::AnswerKind::Retry;
        assert!(seen.answers.iter().all(is_final), "what was invented is never asked for again");
        assert!(seen.begun.iter().all(|answer| answer.kind() != v1::BeginKind::Granted));
    }
    let grown = log_bytes(&cluster) - before;
    assert!(grown < 10_000, "the log grew by {grown} bytes");
}

#[test]
fn issue14_5_a_registration_names_at_most_the_leases_that_are_out() {
    let cluster = Cluster::start(&[]);
    let held = held(&cluster);
    let before = log_bytes(&cluster);
    let listed: Vec<_> = (0..30_000).map(|i| held.invented(i)).collect();
    let request = v1::RegisterNodeRequest { outstanding: listed.clone(), unstarted: listed, ..registration("evil") };
    let reply = held.peer.register(request).expect("the same process registers again");
    let mut stream = held.peer.open(first(&reply)).expect("open");
    let journal =
        v1::JournalReport { jobs: vec![v1::JobJournal { job_id: 7, ..Default::default() }], ..Default::default() };
    let message = v1::FromWorker { journal: Some(journal), secret: None, ..first(&reply) };
    (0..900).for_each(|_| held.peer.send(&stream, message.clone()));
    let is_offer = |message: &v1::ToWorker| message.offers.iter().any(|offer| offer.lease == Some(held.lease));
    while !is_offer(&held.peer.next(&mut stream).expect("the lease is offered again")) {}
    Held { stream, reply, ..held }.settle();
    let grown = log_bytes(&cluster) - before;
    assert!(grown < 10_000, "the log grew by {grown} bytes");
}
