//! The evaluator beside a direct model: random fleets, random targets, compared node by node. The model has its own tree,
//! writes it as text, and decides about one node at a time from the rules in docs/jobs.md alone.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::NodeOrd;
use grid_types::ids::mix64;
use grid_types::job::{JobSpec, Target};
use grid_types::limits::MAX_TARGET_TESTS;
use grid_types::node::NodeFacts;

use super::{Fleet, unmatched};
use crate::commands::{Command, RegisterNode};
use crate::state::State;
use crate::world::{World, leaf};

/// A machine as the model knows it.
#[derive(Debug, Clone)]
struct Machine {
    id: String,
    groups: Vec<&'static str>,
    labels: BTreeMap<&'static str, &'static str>,
    facts: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug, Clone)]
enum Say {
    All,
    Nodes(Vec<&'static str>),
    Groups(Vec<&'static str>),
    Label(&'static str, &'static str),
    Fact(&'static str, &'static str, &'static str),
    And(Box<Say>, Box<Say>),
    Or(Box<Say>, Box<Say>),
    Not(Box<Say>),
    First(u32, Box<Say>),
    Percent(u32, Box<Say>),
}

const IDS: [&str; 12] =
    ["web-01", "web-02", "web-10", "web-1", "db-01", "db-02", "a", "b", "zz-9", "node-a", "w", "db-10"];
const GROUPS: [&str; 4] = ["web", "db", "prod", "web-eu"];
const VALUES: [&str; 5] = ["a", "ab", "b", "", "a b"];
const VERSIONS: [&str; 8] = ["9", "10", "10.2", "12-rc", "debian", "", "6.1.0-18", "8589934592"];

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        usize::try_from(mix64(self.0) % sides as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }

    fn some<T: Copy>(&mut self, from: &[T], most: usize) -> Vec<T> {
        (0..self.roll(most + 1)).map(|_| self.pick(from)).collect()
    }

    fn machine(&mut self, id: &str) -> Machine {
        let labels = (0..self.roll(3)).map(|_| (self.pick(&["zone", "rack"]), self.pick(&VALUES))).collect();
        let facts = (0..self.roll(3)).map(|_| (self.pick(&["os.version", "os.id"]), self.pick(&VERSIONS))).collect();
        Machine { id: id.to_owned(), groups: self.some(&GROUPS, 3), labels, facts }
    }

    fn say(&mut self, depth: usize) -> Say {
        let kind = self.roll(if depth == 0 { 5 } else { 10 });
        let mut deeper = || Box::new(self.say(depth - 1));
        match kind {
            5 => Say::And(deeper(), deeper()),
            6 => Say::Or(deeper(), deeper()),
            7 => Say::Not(deeper()),
            8 => {
                let of = deeper();
                Say::First(1 + u32::try_from(self.roll(4)).unwrap(), of)
            }
            9 => {
                let of = deeper();
                Say::Percent(1 + u32::try_from(self.roll(100)).unwrap(), of)
            }
            0 => Say::All,
            1 => {
                let mut names = self.some(&["web-*", "*-01", "w?b*", "web-01", "b", "db-02", "nobody", "?"], 3);
                names.push("web-10");
                Say::Nodes(names)
            }
            2 => {
                let mut names = self.some(&["web", "db", "w*", "prod"], 2);
                names.push("web-eu");
                Say::Groups(names)
            }
            3 => Say::Label(self.pick(&["zone", "rack"]), self.pick(&["a", "a*", "?", "b", "*", ""])),
            _ => {
                let op = self.pick(&["=", "!=", ">=", "<=", ">", "<"]);
                let value = match op {
                    "=" | "!=" => self.pick(&["debian", "1*", "9", "*"]),
                    _ => self.pick(&["9", "10", "10.1", "12", "8Gi"]),
                };
                Say::Fact(self.pick(&["os.version", "os.id"]), op, value)
            }
        }
    }
}

impl Say {
    fn text(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Nodes(names) => format!("node:{}", names.join(",")),
            Self::Groups(names) => format!("group:{}", names.join(",")),
            Self::Label(key, value) => format!("labels:{key}={value}"),
            Self::Fact(key, op, value) => format!("facts:{key}{op}{value}"),
            Self::And(a, b) => format!("({}) and ({})", a.text(), b.text()),
            Self::Or(a, b) => format!("({}) or ({})", a.text(), b.text()),
            Self::Not(of) => format!("not ({})", of.text()),
            Self::First(n, of) => format!("first {n} of ({})", of.text()),
            Self::Percent(n, of) => format!("{n}% of ({})", of.text()),
        }
    }

    fn set(&self, machines: &[Machine]) -> BTreeSet<String> {
        match self {
            Self::First(n, of) => of.set(machines).into_iter().take(*n as usize).collect(),
            Self::Percent(n, of) => {
                let all = of.set(machines);
                let most = (all.len() * *n as usize / 100).max(1);
                all.into_iter().take(most).collect()
            }
            Self::And(a, b) => a.set(machines).intersection(&b.set(machines)).cloned().collect(),
            Self::Or(a, b) => a.set(machines).union(&b.set(machines)).cloned().collect(),
            Self::Not(of) => {
                let of = of.set(machines);
                machines.iter().map(|m| m.id.clone()).filter(|id| !of.contains(id)).collect()
            }
            _ => machines.iter().filter(|m| self.fits(m)).map(|m| m.id.clone()).collect(),
        }
    }

    fn fits(&self, machine: &Machine) -> bool {
        match self {
            Self::Nodes(names) => names.iter().any(|name| like(name, &machine.id)),
            Self::Groups(names) => machine.groups.iter().any(|group| names.iter().any(|name| like(name, group))),
            Self::Label(key, value) => machine.labels.get(key).is_some_and(|found| like(value, found)),
            Self::Fact(key, op, value) => machine.facts.get(key).is_some_and(|found| compares(found, op, value)),
            _ => true,
        }
    }
}

/// By recursion over the pattern.
fn like(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len()).any(|cut| like(rest.as_str(), &text[cut..])),
        Some(c) => text.chars().next().is_some_and(|t| (c == '?' || c == t) && like(rest.as_str(), &text[1..])),
    }
}

fn compares(found: &str, op: &str, value: &str) -> bool {
    let order = || {
        let leading: String = found.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let numbers = |text: &str| text.split('.').map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>();
        let wanted = if value == "8Gi" { vec![8 << 30] } else { numbers(value) };
        let found = if leading.is_empty() { return None } else { numbers(&leading) };
        let padded = |mut v: Vec<u64>| {
            v.resize(4, 0);
            v
        };
        Some(padded(found).cmp(&padded(wanted)))
    };
    match op {
        "=" => like(value, found),
        "!=" => !like(value, found),
        ">=" => order().is_some_and(std::cmp::Ordering::is_ge),
        "<=" => order().is_some_and(std::cmp::Ordering::is_le),
        ">" => order().is_some_and(std::cmp::Ordering::is_gt),
        _ => order().is_some_and(std::cmp::Ordering::is_lt),
    }
}

fn register(world: &mut World, machine: &Machine) {
    let owned = |map: &BTreeMap<&str, &str>| map.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let Command::RegisterNode(command) = World::register_command(&machine.id, machine.id.as_bytes(), 1, b"n", 4) else {
        unreachable!()
    };
    let facts = NodeFacts {
        groups: machine.groups.iter().map(|group| group.parse().unwrap()).collect(),
        labels: owned(&machine.labels),
        facts: owned(&machine.facts),
        ..command.facts
    };
    world.one(Command::RegisterNode(RegisterNode { facts, ..command })).unwrap();
}

fn names(state: &State, ords: &[NodeOrd]) -> BTreeSet<String> {
    assert!(ords.is_sorted(), "{ords:?}");
    ords.iter().map(|ord| state.nodes[ord].id.to_string()).collect()
}

#[test]
fn the_evaluator_agrees_with_a_direct_model() {
    for seed in 0..400 {
        let mut dice = Dice(mix64(seed));
        let mut ids: Vec<&str> = IDS.to_vec();
        let mut machines = Vec::new();
        for _ in 0..1 + dice.roll(IDS.len()) {
            let id = ids.remove(dice.roll(ids.len()));
            machines.push(dice.machine(id));
        }
        let mut world = World::new();
        machines.iter().for_each(|machine| register(&mut world, machine));
        if machines.len() > 1 && dice.roll(3) == 0 {
            world.remove(1, true).unwrap();
            machines.remove(0);
        }
        for _ in 0..25 {
            let (say, exclude, limit) = (dice.say(4), dice.say(2), dice.say(2));
            let text = say.text();
            let target: Target = text.parse().unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
            assert_eq!(names(&world.state, &world.state.matching(&target)), say.set(&machines), "{seed}: {text}");
            let shown: Target = target.to_string().parse().unwrap();
            assert_eq!(world.state.matching(&shown), world.state.matching(&target), "{text} is shown as {target}");
            let mut spec = JobSpec::new(target, vec![leaf("ping", "echo")]);
            spec.exclude = Some(exclude.text().parse().unwrap());
            spec.limit = Some(limit.text().parse().unwrap());
            let without: BTreeSet<_> = say.set(&machines).difference(&exclude.set(&machines)).cloned().collect();
            let expected: BTreeSet<_> = without.intersection(&limit.set(&machines)).cloned().collect();
            assert_eq!(names(&world.state, &world.state.candidates(&spec)), expected, "{seed}: {}", spec.aim());
            spec.limit = Some("2".parse().unwrap());
            let first_two: BTreeSet<_> = without.into_iter().take(2).collect();
            let chosen = world.state.candidates(&spec);
            assert_eq!(names(&world.state, &chosen), first_two, "{seed}: {}", spec.aim());
            let (groups, known) = unmatched(&world.state, &spec, &chosen);
            let left_out: usize = groups.iter().map(|group| group.count).sum();
            assert_eq!((left_out + chosen.len(), known), (machines.len(), machines.len()), "{groups:#?}");
        }
    }
}

#[test]
fn j6_exclude_and_limit_narrow_a_job_at_submit_and_any_picks_of_what_is_left() {
    let mut world = World::with_nodes(3);
    world.next_job(|spec| spec.exclude = Some("node:node-1".parse().unwrap()));
    world.submit("all", vec![leaf("ping", "echo")]);
    assert_eq!(world.offered().iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [2, 3]);
    world.finish_all();
    world.next_job(|spec| spec.limit = Some("1".parse().unwrap()));
    world.submit("all", vec![leaf("ping", "echo")]);
    assert_eq!(world.offered().iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [1]);
    world.finish_all();
    world.next_job(|spec| spec.exclude = Some("node:node-1,node-2".parse().unwrap()));
    world.submit("any", vec![leaf("ping", "echo")]);
    assert_eq!(world.offered().iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [3]);
    world.finish_all();
    world.next_job(|spec| spec.exclude = Some("all".parse().unwrap()));
    let refused = world.submit_keyed("any", vec![leaf("ping", "echo")], None).unwrap_err().to_string();
    assert!(refused.contains("no known node matches any, without all"), "{refused}");
}

#[test]
fn a_plan_says_why_nodes_are_left_out() {
    let mut world = World::new();
    let machine = |id: &str, groups: &[&'static str]| Machine {
        id: id.to_owned(),
        groups: groups.to_vec(),
        labels: BTreeMap::new(),
        facts: BTreeMap::new(),
    };
    for i in 0..9 {
        register(&mut world, &machine(&format!("db-{i}"), &["db"]));
    }
    for i in 0..6 {
        register(&mut world, &machine(&format!("web-{i}"), &["web"]));
    }
    let mut spec = JobSpec::new("first 4 of group:web and not node:web-5".parse().unwrap(), Vec::new());
    spec.exclude = Some("node:web-1".parse().unwrap());
    spec.limit = Some("2".parse().unwrap());
    let (groups, known) = unmatched(&world.state, &spec, &world.state.candidates(&spec));
    let said: Vec<_> = groups.iter().map(|g| format!("{} {}: {:?}", g.count, g.reason, g.examples.len())).collect();
    assert_eq!(known, 15);
    assert_eq!(
        said,
        [
            "9 do not match group:web: 5",
            "1 match node:web-5: 1",
            "1 are not among the first 4 of group:web and not node:web-5: 1",
            "1 match exclude: node:web-1: 1",
            "1 are beyond limit: 2: 1",
        ]
    );
}

/// Steps, not time: what `grid bench` and the changelog say of time follows from them.
#[test]
fn a_target_takes_no_more_steps_than_tests_times_nodes() {
    let world = World::with_nodes(2_000);
    let fleet = Fleet::of(&world.state);
    let all = fleet.all();
    let steps = |text: &str| {
        fleet.steps.set(0);
        let target: Target = text.parse().unwrap();
        let found = fleet.target(&target, &all).len();
        (found, fleet.steps.get())
    };
    let most = vec!["node:node-1*"; MAX_TARGET_TESTS / 2].join(" or ");
    let (found, taken) = steps(&most);
    assert!(found > 1_000 && taken <= MAX_TARGET_TESTS * 2_000, "{found} {taken}");
    assert_eq!(steps("group:nobody and node:a and node:b and node:c"), (0, 2_000), "nothing is left to test");
    assert_eq!(steps("10% of group:web"), (200, 2_000));
    let listed: Vec<_> = (0..1_500).map(|i| format!("node-{i}")).collect();
    assert_eq!(steps(&format!("node:{}", listed.join(","))).1, 2_000);
}

/// `cargo test --release -p grid-core --lib targets -- --ignored --nocapture` measures it.
#[test]
#[ignore = "prints times; nothing is asserted"]
fn how_long_targets_take_over_ten_thousand_nodes() {
    let mut world = World::new();
    let mut dice = Dice(7);
    let facts: Vec<_> = (0..40).map(|i| format!("fact.number-{i}")).collect();
    for i in 0..10_000 {
        let machine = dice.machine(&format!("web-{i:05}"));
        register(&mut world, &machine);
        let node = world.state.nodes.get_mut(&NodeOrd(i + 1)).unwrap();
        node.facts.facts.extend(facts.iter().map(|key| (key.clone(), format!("{}.{i}", i % 20))));
    }
    let many =
        |term: fn(usize) -> String, between: &str| (0..MAX_TARGET_TESTS).map(term).collect::<Vec<_>>().join(between);
    for text in [
        "group:web".to_owned(),
        "node:web-*".to_owned(),
        "20% of group:web and not labels:zone=a".to_owned(),
        "facts:fact.number-7>=10 and (group:web or group:db)".to_owned(),
        many(|i| format!("facts:fact.number-{}=none", i % 40), " or "),
        many(|i| format!("labels:zone=none-{i}*"), " or "),
        many(|i| format!("not node:a{i}"), " and "),
    ] {
        let target: Target = text.parse().unwrap();
        let begun = std::time::Instant::now();
        let found = world.state.matching(&target).len();
        println!("{:>8.2} ms  {found:>6} nodes  {}", begun.elapsed().as_secs_f64() * 1e3, &text[..text.len().min(80)]);
    }
}
