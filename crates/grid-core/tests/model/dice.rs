//! Random choices that a seed repeats, and random jobs made of them.

use std::collections::BTreeMap;

use grid_types::decl::EffectClass;
use grid_types::ids::mix64;
use grid_types::job::{
    Concurrency, Condition, JobSpec, Offline, OnUnknown, Phase, PhaseNodes, Strategy, Target, Task, Tolerance,
};

/// An action that not every node runs.
pub const RARE: &str = "hostname";

pub struct Dice(u64);

/// What kind of jobs are made.
#[derive(Debug, Clone, Copy)]
pub struct Flavour {
    pub nodes: u32,
    pub gates: bool,
    pub timeouts: bool,
    /// Some nodes do not run every action.
    pub lacking: bool,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(mix64(seed))
    }

    /// 0 to `sides - 1`.
    pub fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_add(1);
        u32::try_from(mix64(self.0) % u64::from(sides.max(1))).unwrap()
    }

    pub fn one_in(&mut self, sides: u32) -> bool {
        self.roll(sides) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(u32::try_from(from.len()).unwrap()) as usize]
    }

    pub fn maybe<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| self.pick(from))
    }

    fn condition(&mut self) -> Condition {
        self.pick(&[
            Condition::Always,
            Condition::Always,
            Condition::Always,
            Condition::OnSuccess,
            Condition::OnFailure,
        ])
    }

    fn task(&mut self, flavour: Flavour) -> Task {
        Task {
            backend: "ping".to_owned(),
            action: if flavour.lacking && self.one_in(6) { RARE } else { "echo" }.to_owned(),
            params: BTreeMap::new(),
            condition: Condition::Always,
            max_retries: self.pick(&[0, 0, 0, 1, 2]),
            timeout: None,
            timeout_ms: 300_000,
            effect: self.pick(&[EffectClass::Pure, EffectClass::Idempotent, EffectClass::Once]),
        }
    }

    fn concurrency(&mut self, flavour: Flavour) -> Concurrency {
        match self.one_in(2) {
            true => Concurrency::Nodes(1 + self.roll(flavour.nodes)),
            false => Concurrency::Share(self.share_text().parse().unwrap()),
        }
    }

    fn phase(&mut self, flavour: Flavour) -> Phase {
        let phase = if self.one_in(2) {
            Phase::leaf(self.task(flavour))
        } else {
            let tasks = (0..=self.roll(4)).map(|at| {
                // The first has nothing before it.
                let changed = at > 0 && self.one_in(4);
                let condition = if changed { Condition::OnChanged } else { self.condition() };
                Task { condition, ..self.task(flavour) }
            });
            Phase::pipeline(tasks.collect())
        };
        let concurrency = self.one_in(3).then(|| self.concurrency(flavour));
        let confirm = flavour.gates && self.one_in(8);
        let condition = self.condition();
        let chosen = [PhaseNodes::Failed, PhaseNodes::Healthy, PhaseNodes::All];
        let nodes = (condition == Condition::OnFailure && self.one_in(2)).then(|| self.pick(&chosen));
        let atomic = phase.is_pipeline && self.one_in(2);
        let is_canary = flavour.gates && condition != Condition::OnFailure && self.one_in(6);
        let first = is_canary.then(|| self.concurrency(flavour));
        Phase { condition, concurrency, confirm, nodes, atomic, first, ..phase }
    }

    /// `"12.5%"`, `"0.125"`, from nothing to everything.
    pub fn share_text(&mut self) -> String {
        match self.roll(4) {
            0 => format!("{}%", self.roll(101)),
            1 => format!("{}.{:0width$}%", self.roll(100), self.roll(10_000), width = 4),
            2 => format!("0.{:0width$}", self.roll(1_000_000), width = 6),
            _ => self.pick(&["0%", "100%", "1", "0", "1.0", "0.5", "33.3%", "0.33%", "100.0%"]).to_owned(),
        }
    }

    fn tolerance(&mut self, nodes: u32) -> Option<Tolerance> {
        match self.roll(4) {
            0 => Some(Tolerance::Nodes(self.roll(nodes + 1))),
            1 => Some(Tolerance::Share(self.share_text().parse().unwrap())),
            _ => None,
        }
    }

    pub fn job(&mut self, flavour: Flavour) -> JobSpec {
        let phases = (0..=self.roll(4)).map(|_| self.phase(flavour)).collect();
        let mut spec = JobSpec::new(Target::All, phases);
        spec.strategy = self.pick(&[Strategy::FailFast, Strategy::Continue]);
        spec.failure_tolerate = self.tolerance(flavour.nodes);
        spec.offline = self.pick(&[Offline::Skip, Offline::Wait, Offline::Fail]);
        spec.on_unknown = self.pick(&[OnUnknown::Fail, OnUnknown::Fail, OnUnknown::Wait]);
        spec.concurrency = self.one_in(4).then(|| self.concurrency(flavour));
        spec.first = (flavour.gates && self.one_in(12)).then(|| self.concurrency(flavour));
        if flavour.timeouts && self.one_in(3) {
            spec.timeout = Some("5s".parse().unwrap());
        }
        spec
    }
}
