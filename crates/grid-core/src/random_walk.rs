//! Random sequences of commands keep every invariant and end: the world checks the invariants after every apply, and
//! this file checks what only the whole sequence shows. A failure prints its seed.

use std::collections::BTreeSet;

use grid_types::decl::EffectClass;
use grid_types::job::{Concurrency, Condition, Offline, OnUnknown, Phase, Tolerance};
use grid_types::node::NodeStatus;
use grid_types::{Attempt, JobId, LeaseKey, NodeOrd, Outcome};

use crate::commands::Verdict;
use crate::foreign_text::{texts_of, texts_of_state};
use crate::state::CellState;
use crate::world::{Lease, World, leaf, pipeline, retrying, when};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let sides = u64::try_from(from.len()).ok().filter(|n| *n > 0)?;
        from.get(usize::try_from(self.roll(sides)).ok()?).copied()
    }

    fn condition(&mut self) -> Condition {
        self.pick(&[Condition::Always, Condition::Always, Condition::OnSuccess, Condition::OnFailure]).unwrap()
    }

    fn phase(&mut self) -> Phase {
        let condition = self.condition();
        let concurrency = (self.roll(3) == 0).then(|| Concurrency::Nodes(u32::try_from(self.roll(3)).unwrap() + 1));
        let confirm = self.roll(6) == 0;
        let may_be_first = condition != Condition::OnFailure && self.roll(5) == 0;
        let first = may_be_first.then(|| Concurrency::Nodes(u32::try_from(self.roll(3)).unwrap() + 1));
        let task = |dice: &mut Self| match dice.roll(4) {
            0 => leaf("ping", "echo"),
            1 => leaf("test", "record"),
            _ => retrying("test", "fail", u32::try_from(dice.roll(3)).unwrap()),
        };
        if self.roll(2) == 0 {
            return Phase { condition, concurrency, confirm, first, ..task(self) };
        }
        let tasks = (0..=self.roll(3)).map(|_| {
            let inner = self.condition();
            when(inner, task(self))
        });
        Phase { condition, concurrency, confirm, first, ..pipeline(tasks.collect()) }
    }
}

const NODES: u32 = 4;

fn unresolved(world: &World) -> Vec<(JobId, u32, u32)> {
    let cells = world.state.jobs.values().flat_map(|job| {
        let waiting = job.cells.iter().zip(&job.expected).filter(|(cell, _)| cell.state == CellState::Unresolved);
        waiting.map(|(cell, node)| (job.head.id, job.step_of(cell).0, node.0))
    });
    cells.collect()
}

fn awaited(world: &World) -> Vec<Lease> {
    let held = world.state.jobs.values().filter(|job| job.head.held.is_some());
    let cells = held.flat_map(|job| job.expected.iter().zip(&job.cells).map(move |(node, cell)| (job, *node, cell)));
    let leases = cells.map(|(job, node, cell)| {
        let (step, attempt) = (job.step_of(cell), Attempt(cell.attempt));
        (node, LeaseKey { job: job.head.id, job_epoch: job.head.epoch, step, attempt })
    });
    leases.filter(|(node, lease)| world.state.jobs[&lease.job].awaits(*node, *lease).is_some()).collect()
}

/// A node is asked what its journal knows, and says something.
fn answer(world: &mut World, dice: &mut Dice, node: u32) {
    let known = &world.state.nodes[&NodeOrd(node)];
    let jobs = world.state.to_ask(known);
    let named: Vec<_> = awaited(world).into_iter().filter(|_| dice.roll(2) == 0).collect();
    let said: Vec<_> = named
        .into_iter()
        .map(|lease| (lease, dice.pick(&[None, Some(Outcome::Success), Some(Outcome::Failed), Some(Outcome::Unknown)])))
        .collect();
    let said: Vec<_> = said.into_iter().map(|(lease, outcome)| (lease, outcome.flatten())).collect();
    world.report_journal(node, &jobs, &said).unwrap();
}

/// I7: what an agent is given is given once, if it must not run twice.
fn hand_out(world: &mut World, dice: &mut Dice, node: u32) {
    let before: Vec<LeaseKey> = world.hand_out(node);
    let once = |lease: &&LeaseKey| {
        let job = &world.state.jobs[&lease.job];
        let cell = &job.cells[job.position(NodeOrd(node)).unwrap()];
        job.task_of(cell).unwrap().effect == EffectClass::Once
    };
    let once: Vec<LeaseKey> = before.iter().filter(once).copied().collect();
    let again = world.hand_out(node);
    assert!(once.iter().all(|lease| !again.contains(lease)), "I7: {once:?} were handed out twice");
    if dice.roll(4) == 0 && !once.is_empty() {
        assert_eq!(world.hand_back(node, once.clone()), once);
    }
}

fn step(world: &mut World, dice: &mut Dice, jobs: &mut Vec<JobId>, boots: &mut u64) {
    let node = u32::try_from(dice.roll(u64::from(NODES))).unwrap() + 1;
    match dice.roll(34) {
        0 | 1 => {
            if dice.roll(2) == 0 {
                world.next_strategy_continue();
            }
            if dice.roll(3) == 0 {
                world.next_timeout("5s");
            }
            world.next_job(match dice.roll(4) {
                0 => |spec| spec.offline = Offline::Wait,
                1 => |spec| spec.on_unknown = OnUnknown::Wait,
                2 => |spec| spec.failure_tolerate = Some(Tolerance::Nodes(1)),
                _ => |_| (),
            });
            let phases = (0..=dice.roll(3)).map(|_| dice.phase()).collect();
            let target = format!("node:node-{node}");
            let target = if dice.roll(3) == 0 { target.as_str() } else { "all" };
            if let Ok(crate::Reply::Submitted { job, .. }) = world.submit_keyed(target, phases, None) {
                jobs.push(job);
            }
        }
        2 => {
            if let Some(job) = dice.pick(jobs) {
                let _ = world.cancel(job);
            }
        }
        30..=32 => {
            if let Some(lease) = dice.pick(&world.offered()) {
                world.begin(lease).unwrap();
            }
        }
        10 => {
            if let Some(job) = dice.pick(jobs) {
                let _ = world.confirm(job, None);
            }
        }
        12 => {
            if let Some(job) = dice.pick(jobs) {
                let _ = if dice.roll(2) == 0 { world.resume(job) } else { world.retry(job) };
            }
        }
        11 => {
            if let Some((job, step, node)) = dice.pick(&unresolved(world)) {
                let verdict = dice.pick(&[Verdict::Success, Verdict::Failed, Verdict::Retry]).unwrap();
                let _ = world.resolve(job, step, node, verdict);
            }
        }
        16 => {
            // A journal speaks up for what the backup had out.
            if let Some(lease) = dice.pick(&awaited(world)) {
                let outcome = dice.pick(&[Outcome::Success, Outcome::Failed]).unwrap();
                world.report(lease, outcome).unwrap();
            }
        }
        15 if dice.roll(4) == 0 => {
            let generation = world.state.meta.leadership.epoch.generation + 1;
            world.restore(generation);
        }
        22 | 23 => answer(world, dice, node),
        14 => {
            let limit = world.head().now_ms.saturating_sub(dice.roll(5_000));
            let pruned = world.prune(limit);
            jobs.retain(|job| !pruned.contains(job));
        }
        13 if !matches!(world.state.nodes[&NodeOrd(node)].status, NodeStatus::Left) => match dice.roll(2) {
            0 => world.leave(node),
            _ => world.leave_holding(node),
        },
        17 | 20 | 21 => hand_out(world, dice, node),
        18 => drop(world.order_drain(node, dice.roll(3) > 0)),
        19 => drop(world.remove(node, dice.roll(2) == 0)),
        3 => {
            let from = world.state.nodes[&NodeOrd(node)].status;
            let to = dice.pick(&[NodeStatus::Ready, NodeStatus::Warning, NodeStatus::Unhealthy, NodeStatus::Dead]);
            let _ = world.mark(node, world.session(node), from, to.unwrap());
        }
        4 => {
            *boots += 1;
            let journal = format!("journal-{}", if dice.roll(4) == 0 { *boots } else { u64::from(node) });
            let nonce = boots.to_le_bytes();
            let id = format!("node-{node}");
            let _ = match dice.roll(3) {
                0 => world.register_agent(&id, &journal),
                _ => world.register(&id, journal.as_bytes(), *boots, &nonce, false),
            };
        }
        5 | 33 => drop(world.advance_ms(dice.roll(8_000))),
        6 => {
            let term = world.head().term + 1;
            world.begin_term(term).unwrap();
        }
        7 => {
            if let Some(lease) = dice.pick(&world.offered()) {
                world.expire(lease);
            }
        }
        8 | 9 => {
            if let Some(lease) = dice.pick(&world.revoked()) {
                world.confirm_revoked(lease).unwrap();
            }
        }
        _ => {
            if let Some(lease) = dice.pick(&world.offered()) {
                let ends = [Outcome::Success, Outcome::Success, Outcome::Failed, Outcome::TimedOut, Outcome::Unknown];
                world.report(lease, dice.pick(&ends).unwrap()).unwrap();
            }
        }
    }
}

/// Whatever happened, once every node answers again everything ends.
fn let_it_end(world: &mut World, boots: &mut u64) {
    for node in 1..=NODES {
        *boots += 1;
        world.register(&format!("node-{node}"), b"the end", *boots, &boots.to_le_bytes(), false).unwrap();
        world.order_drain(node, false).unwrap();
        let jobs = world.state.to_ask(&world.state.nodes[&NodeOrd(node)]);
        world.report_journal(node, &jobs, &[]).unwrap();
    }
    for _ in 0..500 {
        for lease in world.revoked() {
            world.confirm_revoked(lease).unwrap();
        }
        for (job, step, node) in unresolved(world) {
            world.resolve(job, step, node, Verdict::Success).unwrap();
        }
        for job in world.state.jobs.keys().copied().collect::<Vec<_>>() {
            let _ = world.confirm(job, None);
        }
        world.succeed_all_offered();
        world.advance_ms(40_000);
        if world.state.jobs.is_empty() {
            return;
        }
    }
    panic!("these never end: {:?}", world.state.jobs.keys().collect::<Vec<_>>());
}

#[test]
fn random_commands_keep_every_invariant_and_every_job_ends() {
    for seed in 1..=400u64 {
        let outcome = std::panic::catch_unwind(|| {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut world = World::with_nodes(NODES);
            // Few places, so that jobs wait for them, too.
            world.set_quotas(2, 50);
            let (mut jobs, mut boots) = (Vec::new(), 10);
            for _ in 0..150 {
                step(&mut world, &mut dice, &mut jobs, &mut boots);
            }
            let_it_end(&mut world, &mut boots);
            for job in &jobs {
                check_rows(&world, *job);
            }
        });
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

/// Without job epochs: like all numbers that must be beyond a lost time, they follow the clock after a restore (E2).
fn offered(world: &World) -> Vec<(NodeOrd, JobId, u32, Attempt)> {
    world.offered().into_iter().map(|(node, lease)| (node, lease.job, lease.step.0, lease.attempt)).collect()
}

/// The same commands under two wall clocks, one of which jumps by years: every decision is the same.
#[test]
fn w6_the_wall_clock_decides_nothing() {
    for seed in 1..=100u64 {
        let mut worlds = [false, true].map(|wild| {
            let mut world = World::with_nodes(NODES);
            world.set_quotas(2, 50);
            world.wild_wall = wild;
            (world, Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), Vec::new(), 10)
        });
        for _ in 0..150 {
            for (world, dice, jobs, boots) in &mut worlds {
                step(world, dice, jobs, boots);
            }
            let [(calm, .., of_calm, _), (wild, .., of_wild, _)] = &worlds;
            assert_eq!((offered(calm), of_calm), (offered(wild), of_wild), "seed {seed}");
            assert_eq!(calm.state.timers, wild.state.timers, "seed {seed}");
        }
        let [(calm, .., jobs, _), (wild, ..)] = &worlds;
        assert_ne!(calm.state.meta, wild.state.meta, "the clocks did differ");
        for job in jobs {
            let told = |world: &World| (world.status(*job), world.reason(*job), world.rows_of(*job));
            assert_eq!(told(calm), told(wild), "seed {seed}");
        }
    }
}

/// What replicas compare holds no text that this version of the program made.
#[test]
fn l2_every_stored_text_came_in_through_an_entry() {
    for seed in 1..=60u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::with_nodes(NODES);
        world.set_quotas(2, 50);
        let (mut jobs, mut boots) = (Vec::new(), 10);
        for _ in 0..150 {
            step(&mut world, &mut dice, &mut jobs, &mut boots);
            let of_state = texts_of_state(&world.state);
            let made: Vec<_> = of_state.difference(&world.foreign).collect();
            assert!(made.is_empty(), "seed {seed}: the state holds {made:?}");
        }
        for row in &world.history {
            let texts = texts_of(row);
            let made: Vec<_> = texts.difference(&world.foreign).collect();
            assert!(made.is_empty(), "seed {seed}: {row:?} holds {made:?}");
        }
    }
}

fn check_rows(world: &World, job: JobId) {
    // `rows_of` itself checks that no row is both skipped and run, and that the counts agree.
    let rows = world.rows_of(job);
    let ended = world.job(job);
    let whole = ended.expected.len() * ended.spec.step_count();
    assert_eq!(rows.len(), whole, "I9: every (step, node) of {job} has an outcome");
    assert!(rows.values().all(|outcome| outcome.is_settled()));
    let mut attempts = BTreeSet::new();
    for row in world.results_of(job) {
        let settles_unknown = row.outcome != Outcome::Unknown;
        let key = (row.job_epoch, row.step, row.node, row.attempt, row.outcome == Outcome::Unknown);
        assert!(attempts.insert(key) || !settles_unknown, "I3: attempt {key:?} of {job} counted twice");
    }
}
