//! Feeds mutated messages of every method of the worker protocol to a real controller: nothing panics, and it goes on working.
//!
//! Seeded, so that a failure can be repeated: the test prints its seeds. A second in CI; `GRID_FUZZ_SECONDS=600` goes on for so long, with another seed each
//! round (`GRID_FUZZ_SEED` chooses the first).
//! A message is mutated as bytes and decoded as the listener does it. Half of those that decode get a session that exists, so that
//! what is behind the check of the secret is reached, too.

use std::time::{Duration, Instant};

use grid_fabric::{Credential, Hub, Leave, Outbox, Peer};
use grid_proto::v1;
use grid_types::ids::mix64;
use grid_types::{JobId, SessionId};
use prost::Message;

use super::FabricHub;
use crate::life::{propose, submit};

const ROUND: u64 = 400;

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most.max(1)).unwrap()).unwrap()
    }

    /// A few changes that keep most of a message readable, or none of it.
    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        const EDGES: [&[u8]; 6] =
            [&[0], &[0xff], &[0x80; 10], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 9], &[0x7f, 0, 0x80, 1]];
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let to = at + self.below((bytes.len() - at).min(40) + 1);
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.splice(at..to, EDGES[self.below(EDGES.len())].iter().copied())),
                2 => drop(bytes.drain(at..to)),
                3 => {
                    let again = bytes[at..to].to_vec();
                    drop(bytes.splice(at..at, again));
                }
                4 => {
                    let from = self.below(other.len() + 1);
                    drop(bytes.splice(at..to, other[from..].iter().take(60).copied()));
                }
                _ => bytes.truncate(at),
            }
        }
    }

    fn mutated<M: Message + Default>(&mut self, message: &M, other: &[u8]) -> Option<M> {
        let mut bytes = message.encode_to_vec();
        self.mutate(&mut bytes, other);
        M::decode(bytes.as_slice()).ok()
    }
}

fn lease(job_id: u64, attempt: u32) -> v1::Lease {
    v1::Lease { job_id, job_epoch: 1, step: 0, attempt }
}

pub(super) fn registration() -> v1::RegisterNodeRequest {
    let backends = vec![v1::BackendFacts { name: "test".to_owned(), actions: vec!["record".to_owned()] }];
    let facts = v1::NodeFacts {
        hostname: "fuzzed".to_owned(),
        groups: vec!["web".to_owned()],
        labels: [("rack".to_owned(), "r7".to_owned())].into(),
        backends,
        capacity: Some(v1::Capacity { slots: 8, cpu_milli: 1_000, ..Default::default() }),
        ..Default::default()
    };
    v1::RegisterNodeRequest {
        node_id: "fuzzed".to_owned(),
        facts: Some(facts),
        journal_id: vec![1; 16],
        boot: 1,
        nonce: vec![2; 16],
        outstanding: vec![lease(1, 1), lease(2, 1)],
        unstarted: vec![lease(2, 1)],
        leader_epoch: 1,
        ..Default::default()
    }
}

fn from_worker(reply: &v1::RegisterNodeReply) -> v1::FromWorker {
    let report = v1::LeaseResult {
        lease: Some(lease(1, 1)),
        status: v1::LeaseStatus::Success.into(),
        error: "größer".to_owned(),
        output_tail: b"out".to_vec(),
        output_bytes: 3,
        ..Default::default()
    };
    let done =
        v1::RevokeDone { lease: Some(lease(2, 1)), ended: v1::LeaseStatus::Cancelled.into(), ..Default::default() };
    let named = v1::JournalLease { lease: Some(lease(1, 1)), error: "e".to_owned(), ..Default::default() };
    let jobs = vec![v1::JobJournal { job_id: 1, forgotten_epoch: 1, leases: vec![named] }];
    v1::FromWorker {
        session: reply.session,
        leader_epoch: reply.leader_epoch,
        heartbeat: Some(v1::Heartbeat { outstanding_digest: 7, outstanding_count: 2 }),
        results: vec![report],
        revokes_done: vec![done],
        outstanding: Some(v1::OutstandingList { leases: vec![lease(1, 1), lease(3, 9)], settled_jobs: vec![1, 9] }),
        accepted: vec![lease(1, 1), lease(1, 2)],
        begins: vec![v1::Begin { lease: Some(lease(2, 1)), asked_ms: 5 }],
        journal: Some(v1::JournalReport { dropped_to: 1, newest: 2, jobs, is_last: true }),
        secret: reply.secret.clone(),
    }
}

async fn round(hub: &FabricHub, dice: &mut Dice) {
    let reply = hub.register(registration(), Peer::Connection(None)).await.expect("the controller still registers");
    let (valid, other) = (from_worker(&reply), registration().encode_to_vec());
    let named = |session| v1::NodeSession {
        node_id: "fuzzed".to_owned(),
        session,
        secret: reply.secret.clone(),
        ..Default::default()
    };
    let chunk = v1::LogChunk {
        request_id: "log-1".to_owned(),
        data: b"x".to_vec(),
        session: reply.session,
        secret: reply.secret.clone(),
        ..Default::default()
    };
    for _ in 0..ROUND {
        match dice.below(12) {
            0 => {
                if let Some(request) = dice.mutated(&registration(), &valid.encode_to_vec()) {
                    // Most are refused; what is taken replaces the session, as a worker's own would.
                    let _ = hub.register(request, Peer::Connection(None)).await;
                }
            }
            1 => {
                if let Some(request) = dice.mutated(&named(reply.session), &other) {
                    let credential = Credential {
                        session: SessionId(request.session),
                        secret: request.secret.clone().unwrap_or_default(),
                    };
                    let leave = Leave::of(&request);
                    let _ = hub.drain(request.node_id.clone(), credential.clone()).await;
                    if credential.session.0 != reply.session {
                        let _ = hub.leave(request.node_id, credential, leave).await;
                    }
                }
            }
            2 => {
                if let Some(chunk) = dice.mutated(&chunk, &other) {
                    let credential = Credential {
                        session: SessionId(chunk.session),
                        secret: chunk.secret.clone().unwrap_or_default(),
                    };
                    if let Ok(node) = hub.log_sender(&credential, &Peer::Connection(None)) {
                        hub.log_chunk(node, chunk).await;
                    }
                }
            }
            _ => {
                let Some(mut message) = dice.mutated(&valid, &other) else { continue };
                if dice.below(2) == 0 {
                    (message.session, message.leader_epoch) = (reply.session, reply.leader_epoch);
                    message.secret.clone_from(&reply.secret);
                }
                let session = SessionId(message.session);
                let credential = Credential { session, secret: message.secret.take().unwrap_or_default() };
                if hub.opened(&credential, Peer::Connection(None), Outbox::new()).is_ok() {
                    hub.received(session, message).await;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn issue14_mutated_messages_of_workers_never_panic() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let limit = Duration::from_secs(number("GRID_FUZZ_SECONDS").unwrap_or(1));
    let first = number("GRID_FUZZ_SEED").unwrap_or(1);
    let bench = super::tests::Bench::start().await;
    propose(&bench.controller, crate::life::register("steady")).await;
    let begun = Instant::now();
    for seed in first.. {
        println!("GRID_FUZZ_SEED={seed}");
        bench.hub.register(registration(), Peer::Connection(None)).await.expect("it still registers workers");
        // Refused when enough of them wait.
        let _ = bench.controller.shared.log.proposer.propose(&submit(JobId(seed))).await;
        round(&bench.hub, &mut Dice(seed)).await;
        if begun.elapsed() >= limit {
            break;
        }
    }
    bench.hub.register(registration(), Peer::Connection(None)).await.expect("it still registers workers");
    bench.controller.shutdown().await;
}
