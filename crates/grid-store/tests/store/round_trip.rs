//! I13: what is stored is the state, after every batch, whatever happened in it; and the documents agree with it.

use std::collections::BTreeMap;

use grid_core::{
    CellState, Command, ConfirmJob, DrainNode, Job, LeaveNode, PruneHistory, Quotas, ResolveStep, RestoredFrom,
    ResumeJob, State, Verdict, violations,
};
use grid_store::RerunOn;
use grid_types::job::{Condition, Offline, OnUnknown, Phase, Strategy, Task};
use grid_types::node::NodeStatus;
use grid_types::{JobId, JobStatus, LeaseKey, NodeOrd, Outcome, StepIndex};

use crate::random::Random;
use crate::world::{Lease, World, all_rows, leaf, named, pipeline, retrying, task};

const DAY_MS: u64 = 24 * 3600 * 1000;

#[test]
fn i13_a_store_killed_after_any_batch_gives_back_the_state() {
    for seed in 1..=12 {
        let mut random = Random::new(seed);
        let mut world = World::new();
        world.quotas = Quotas { max_concurrent: 3, max_pending: 4, ..Quotas::default() };
        world.slots = 2;
        world.begin_term(6);
        for i in 1..=5 {
            let command = world.register_command(&format!("node-{i}"), "journal", 1, i != 4);
            world.one(command).unwrap();
        }
        for batch in 0..60 {
            for _ in 0..=random.below(4) {
                happen(&mut world, &mut random);
                assert_eq!(violations(&world.state), Vec::<String>::new(), "seed {seed} batch {batch}");
            }
            if random.one_in(5) {
                world.membership = Some(vec![u8::try_from(batch).unwrap(); 3]);
            }
            world.store();
            check(&world, batch % 20 == 19, &format!("seed {seed} batch {batch}"));
        }
    }
}

pub(crate) fn happen(world: &mut World, random: &mut Random) {
    let (offered, revoked) = world.leases();
    let nodes: Vec<_> = world.state.nodes.keys().copied().collect();
    let node = random.pick(&nodes).unwrap();
    match random.below(31) {
        0..=3 => submit(world, random),
        4..=10 => {
            let mut commands = Vec::new();
            for lease in offered {
                let outcomes = [Outcome::Success, Outcome::Success, Outcome::Failed, Outcome::TimedOut];
                let outcome = if random.one_in(8) { Outcome::Unknown } else { outcomes[random.below(4)] };
                if !random.one_in(3) {
                    let output = format!("out {}", lease.1.step);
                    commands.push(world.result_command(lease, outcome, output.as_bytes()));
                }
            }
            world.apply(commands);
        }
        11..=13 => {
            let ended = [None, Some(Outcome::Cancelled), Some(Outcome::Success)][random.below(3)];
            let commands = revoked.into_iter().map(|lease| world.confirm_command(lease, ended)).collect();
            world.apply(commands);
        }
        14 => {
            let jobs: Vec<_> = world.state.jobs.keys().copied().collect();
            if let Some(job) = random.pick(&jobs) {
                let _ = world.cancel(job);
            }
        }
        15 => drop(random.pick(&offered).map(|lease| world.expire(lease))),
        16 => {
            let to = [NodeStatus::Dead, NodeStatus::Unhealthy, NodeStatus::Ready][random.below(3)];
            let _ = world.one(world.mark_command(node, to));
        }
        17 | 18 => {
            let known = &world.state.nodes[&node];
            let (id, boot) = (known.id.to_string(), known.boot + 1);
            let journal = if random.one_in(3) { "lost" } else { "journal" };
            let _ = world.one(world.register_command(&id, journal, boot, node.0 != 4));
        }
        19 => {
            let session = world.state.nodes[&node].session;
            let leave = Command::LeaveNode(LeaveNode { node, session, nothing_outstanding: true });
            let drain = Command::DrainNode(DrainNode { node, session });
            let _ = world.one(if random.one_in(2) { leave } else { drain });
        }
        28 | 29 => {
            let ended: Vec<_> = world.state.stubs.keys().copied().collect();
            if let Some(job) = random.pick(&ended) {
                // What a leader reads of it is what is stored.
                world.store();
                let on = if random.one_in(2) { RerunOn::FailedNodes } else { RerunOn::AllNodes };
                let found = world.reader().resumable(&named("default", job), on, 0).unwrap().unwrap();
                let command = ResumeJob {
                    namespace: found.head.namespace,
                    job,
                    epoch: found.head.epoch,
                    spec: found.spec,
                    expected: found.expected,
                    done: found.done,
                    created_wall_ms: found.head.created_wall_ms,
                    only: found.only,
                    restored: None,
                    run: found.head.run,
                    complete_journals: None,
                    unchanged: found.unchanged,
                    changed: found.changed,
                };
                let _ = world.one(Command::ResumeJob(command));
            }
        }
        30 => {
            let jobs = world.state.stubs.keys().copied().collect();
            let ended_before_ms = world.now_ms.saturating_sub(2_000);
            world.one(Command::PruneHistory(PruneHistory { ended_before_ms, jobs, events_before_ms: 0 })).unwrap();
        }
        24 | 25 => {
            let waits = |job: &&Job| job.head.gate.is_some() || job.head.held.is_some();
            let waiting: Vec<_> = world.state.jobs.values().filter(waits).collect();
            if let Some(job) = random.pick(&waiting.iter().map(|job| job.head.id).collect::<Vec<_>>()) {
                let namespace = "default".parse().unwrap();
                world
                    .one(Command::ConfirmJob(ConfirmJob { namespace, job, phase: None, held: None, rerun_once: false }))
                    .unwrap();
            }
        }
        26 | 27 => {
            if let Some((job, step, node)) = random.pick(&unresolved(world)) {
                let verdict = [Verdict::Success, Verdict::Failed, Verdict::Retry][random.below(3)];
                let (namespace, node) = ("default".parse().unwrap(), world.state.nodes[&node].id.clone());
                // Refused if it is to run again on a node that is away.
                let _ = world.one(Command::ResolveStep(ResolveStep { namespace, job, step, node, verdict }));
            }
        }
        20 | 21 => {
            // W8: a journal speaks up for what was given up.
            let unknown: Vec<_> = world.state.jobs.values().flat_map(unknown_of).collect();
            if let Some(lease) = random.pick(&unknown) {
                let _ = world.one(world.result_command(lease, Outcome::Success, b"late"));
            }
        }
        _ => {
            let far = if random.one_in(12) { DAY_MS } else { 3_000 };
            world.advance_ms(far);
            if random.one_in(4) {
                let term = world.state.meta.leadership.term + 1;
                let generation = world.state.meta.leadership.epoch.generation + 1;
                let restored = RestoredFrom { generation, backup: "yesterday".to_owned() };
                world.begin_restored(term, random.one_in(4).then_some(restored));
            }
        }
    }
}

fn unresolved(world: &World) -> Vec<(JobId, StepIndex, NodeOrd)> {
    let cells = world.state.jobs.values().flat_map(|job| {
        let waiting = job.cells.iter().zip(&job.expected).filter(|(cell, _)| cell.state == CellState::Unresolved);
        waiting.map(|(cell, node)| (job.head.id, job.step_of(cell), *node))
    });
    cells.collect()
}

fn unknown_of(job: &Job) -> impl Iterator<Item = Lease> {
    let of =
        |(&(step, node), &attempt)| (node, LeaseKey { job: job.head.id, job_epoch: job.head.epoch, step, attempt });
    job.head.unknown.iter().map(of)
}

fn submit(world: &mut World, random: &mut Random) {
    world.strategy = if random.one_in(2) { Strategy::Continue } else { Strategy::FailFast };
    let mut phases = Vec::new();
    for _ in 0..=random.below(3) {
        let cleanup = Task { condition: Condition::OnFailure, ..task("ping", "echo") };
        let once = Task { max_retries: 1, ..task("test", "record") };
        phases.push(match random.below(5) {
            0 => leaf("ping", "echo"),
            1 => retrying(2),
            2 => pipeline(vec![task("ping", "echo"), once, cleanup]),
            3 => Phase::leaf(cleanup),
            _ => leaf("test", "record"),
        });
    }
    for phase in &mut phases {
        phase.confirm = random.one_in(6);
        phase.concurrency =
            random.one_in(3).then(|| grid_types::job::Concurrency::Nodes(u32::try_from(random.below(3)).unwrap() + 1));
    }
    world.rules = match random.below(4) {
        0 => |spec| spec.offline = Offline::Wait,
        1 => |spec| spec.on_unknown = OnUnknown::Wait,
        _ => |_| (),
    };
    let key = random.one_in(2).then(|| format!("key-{}", random.below(6)));
    let target = ["all", "group:web", "node:node-2", "node:node-4"][random.below(4)];
    let _ = world.try_submit(target, phases, key);
}

/// A killed store, and a reader of the living one, against the state. `thorough`: ended jobs, too.
fn check(world: &World, thorough: bool, place: &str) {
    let (_folder, reopened, stored) = world.as_killed();
    assert_eq!(stored.applied, Some(world.position()), "{place}");
    assert_eq!(stored.membership, world.membership, "{place}");
    let rebuilt = State::from_parts(stored.parts).unwrap();
    assert_eq!(rebuilt, world.state, "{place}");
    assert_eq!(rebuilt.hash(), world.state.hash(), "{place}");
    for reader in [world.reader(), reopened.reader()] {
        let totals = reader.totals().unwrap();
        assert_eq!(totals.applied_index, world.index, "{place}");
        let mut jobs: BTreeMap<String, u64> = BTreeMap::new();
        let live = world.state.jobs.iter().map(|(id, job)| (*id, job.head.status));
        let ended = world.state.stubs.iter().map(|(id, stub)| (*id, stub.status));
        for (id, status) in live.chain(ended) {
            *jobs.entry(status.word().to_owned()).or_default() += 1;
            if thorough || !status.is_ended() || world.state.jobs.contains_key(&id) {
                check_counts(world, &reader, id, status, place);
            }
        }
        let counted: BTreeMap<_, _> = totals.jobs.into_iter().filter(|(_, jobs)| *jobs > 0).collect();
        assert_eq!(counted, jobs, "{place}");
        assert_eq!(totals.nodes.values().sum::<u64>(), 5, "{place}");
    }
}

/// I9: the rows of a job, as shown, add up to the counts that the state machine kept.
fn check_counts(world: &World, reader: &grid_store::Reader, id: JobId, status: JobStatus, place: &str) {
    let shown = reader.job(&named("default", id)).unwrap().unwrap();
    assert_eq!(shown.status, status, "{place} {id}");
    if let Some(job) = world.state.jobs.get(&id) {
        assert_eq!(shown.expected_count, u64::try_from(job.expected.len()).unwrap(), "{place} {id}");
        assert_eq!(shown.spec.first_step(usize::try_from(shown.phase).unwrap()), job.first_step());
    }
    let rows = all_rows(reader, &named("default", id), 7, None, None);
    for (step, tally) in (0u32..).zip(&shown.tallies) {
        for outcome in Outcome::ALL {
            let found = rows.iter().filter(|row| row.step == step && row.result.status == outcome).count();
            assert_eq!(
                u32::try_from(found).unwrap(),
                tally.count(outcome),
                "{place} {id} step {step} {outcome}: {rows:#?}"
            );
        }
    }
    assert_eq!(shown.results.unwrap(), rows);
}

#[test]
fn a_job_that_begins_and_ends_within_one_batch_is_whole() {
    let mut world = World::with_nodes(2);
    world.store();
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    for lease in world.offered() {
        world.report(lease, Outcome::Success);
    }
    world.store();
    assert!(!world.state.jobs.contains_key(&job));
    let row = world.job(job);
    assert_eq!((row.status, row.count(Outcome::Success)), (JobStatus::Completed, 2));
    assert_eq!(row.expected.unwrap(), ["node-1", "node-2"]);
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(State::from_parts(stored.parts).unwrap(), world.state);
}

#[test]
fn a_batch_without_payload_moves_the_position_and_keeps_the_membership() {
    let mut world = World::with_nodes(1);
    world.membership = Some(b"members".to_vec());
    world.store();
    world.membership = None;
    world.index += 1;
    world.store();
    let (_folder, _store, stored) = world.as_killed();
    assert_eq!(stored.applied.unwrap().index, world.index);
    assert_eq!(stored.membership.as_deref(), Some(&b"members"[..]));
}
