//! Decides which nodes a target means: the one place for submits, plans and starts (J6).
//!
//! ```text
//!   known nodes ──target──► − exclude ──► ∩ limit ──► of `any` the best one ──► expected
//! ```
//!
//! Known are all nodes that were not removed, whatever their status: offline ones are never dropped in silence.
//! A part of a set (`first 3 of …`, a limit of 20%) is taken in the order of node ids, so a node that joins changes it only
//! if its id is lower than that of the last node that was taken, or if it makes the share larger.
//!
//! Sets are ascending positions in the list of known nodes. `and` tests only what is left, `or` only what is missing, so a
//! target takes at most (tests × nodes) steps, and it has at most 64 tests.
//! Not here: how targets are read (`grid-types`), what happens to the nodes (`jobs`).

mod unmatched;

use std::cell::Cell;

use grid_types::NodeOrd;
use grid_types::job::{Concurrency, Expr, JobSpec, Limit, Target};
use grid_types::node::NodeStatus;

use crate::state::{Node, State};
pub use unmatched::{Unmatched, unmatched};

impl State {
    /// Known nodes of a target, ascending.
    #[must_use]
    pub fn matching(&self, target: &Target) -> Vec<NodeOrd> {
        if let Target::Node(id) = target {
            let node = self.node_by_id(id).filter(|node| node.status != NodeStatus::Removed);
            return node.map(|node| node.ord).into_iter().collect();
        }
        let fleet = Fleet::of(self);
        fleet.ords(&fleet.target(target, &fleet.all()))
    }

    /// Known nodes that a job may run on: of its target, without the excluded ones, within its limit.
    #[must_use]
    pub fn candidates(&self, spec: &JobSpec) -> Vec<NodeOrd> {
        if spec.exclude.is_none() && spec.limit.is_none() {
            return self.matching(&spec.target);
        }
        let fleet = Fleet::of(self);
        let aimed = fleet.target(&spec.target, &fleet.all());
        let left = fleet.without_excluded(spec, &aimed);
        fleet.ords(&fleet.limited(spec, &left))
    }

    /// The nodes a job runs on, frozen when it starts (J6). Of `any`, the one with the fewest leases among those that are
    /// online and run every task; failing that, whichever comes first, so that the job says why.
    pub(crate) fn resolve(&self, spec: &JobSpec) -> Vec<NodeOrd> {
        let matched = self.candidates(spec);
        if spec.target != Target::Any {
            return matched;
        }
        let fits = |node: &&Node| {
            node.status.is_online() && spec.steps().all(|(_, task)| node.runs(&task.backend, &task.action))
        };
        let nodes = matched.iter().filter_map(|ord| self.nodes.get(ord));
        let best = nodes.filter(fits).min_by_key(|node| (node.leased_jobs.len() + node.waiting.len(), node.ord));
        best.map(|node| node.ord).or(matched.first().copied()).into_iter().collect()
    }
}

/// Ascending positions of nodes.
type Set = Vec<usize>;

/// The known nodes, while a target is evaluated.
struct Fleet<'a> {
    state: &'a State,
    /// In the order of their numbers.
    nodes: Vec<&'a Node>,
    /// Tests of nodes, so that a test can bound them.
    steps: Cell<usize>,
}

impl<'a> Fleet<'a> {
    fn of(state: &'a State) -> Self {
        let nodes = state.nodes.values().filter(|node| node.status != NodeStatus::Removed).collect();
        Self { state, nodes, steps: Cell::new(0) }
    }

    fn all(&self) -> Set {
        (0..self.nodes.len()).collect()
    }

    fn ords(&self, set: &[usize]) -> Vec<NodeOrd> {
        set.iter().map(|at| self.nodes[*at].ord).collect()
    }

    /// Nodes of `within` that are in the target.
    fn target(&self, target: &Target, within: &[usize]) -> Set {
        match target {
            Target::All | Target::Any => within.to_vec(),
            Target::Node(id) => self.filter(within, |node| node.id == *id),
            Target::Group(group) => self.filter(within, |node| node.facts.groups.contains(group)),
            Target::Labels(wanted) => {
                let carries = |(key, value): (&String, &String), node: &Node| node.facts.labels.get(key) == Some(value);
                self.filter(within, |node| wanted.iter().all(|label| carries(label, node)))
            }
            Target::Where(expr) => self.expr(expr, within),
        }
    }

    /// Nodes of `within` that are in the set.
    fn expr(&self, expr: &Expr, within: &[usize]) -> Set {
        match expr {
            Expr::All => within.to_vec(),
            Expr::Nodes(names) => self.filter(within, |node| names.has(node.id.as_name())),
            Expr::Groups(names) => self.filter(within, |node| node.facts.groups.iter().any(|group| names.has(group))),
            Expr::Labels(wanted) => self.filter(within, |node| {
                wanted.iter().all(|(key, value)| node.facts.labels.get(key).is_some_and(|found| value.matches(found)))
            }),
            Expr::Facts(tests) => {
                self.filter(within, |node| tests.iter().all(|test| test.passes(node.facts.fact(&test.key))))
            }
            Expr::And(all) => all.iter().fold(within.to_vec(), |left, expr| self.expr(expr, &left)),
            Expr::Or(any) => {
                let missing = any.iter().fold(within.to_vec(), |missing, expr| {
                    let found = self.expr(expr, &missing);
                    without(&missing, &found)
                });
                without(within, &missing)
            }
            Expr::Not(of) => without(within, &self.expr(of, within)),
            // A part of the whole set, whatever is asked of it here.
            Expr::Part { portion, of } => shared(within, &self.part(portion, &self.expr(of, &self.all()))),
        }
    }

    fn without_excluded(&self, spec: &JobSpec, set: &[usize]) -> Set {
        spec.exclude.as_ref().map_or_else(|| set.to_vec(), |exclude| without(set, &self.target(exclude, set)))
    }

    fn limited(&self, spec: &JobSpec, set: &[usize]) -> Set {
        match &spec.limit {
            None => set.to_vec(),
            Some(Limit::First(portion)) => self.part(portion, set),
            Some(Limit::To(target)) => self.target(target, set),
        }
    }

    /// The first of a set by their ids.
    fn part(&self, portion: &Concurrency, set: &[usize]) -> Set {
        let most = usize::try_from(portion.places(set.len())).unwrap_or(usize::MAX);
        if most >= set.len() {
            return set.to_vec();
        }
        let position = |ord: &NodeOrd| self.nodes.binary_search_by_key(ord, |node| node.ord).ok();
        let by_id = self.state.node_ids.values().filter_map(position).filter(|at| set.binary_search(at).is_ok());
        let mut first: Set = by_id.take(most).collect();
        first.sort_unstable();
        first
    }

    fn filter(&self, within: &[usize], fits: impl Fn(&Node) -> bool) -> Set {
        self.steps.set(self.steps.get() + within.len());
        within.iter().copied().filter(|at| fits(self.nodes[*at])).collect()
    }
}

/// What is in the first set and not in the second, which is a part of it.
fn without(set: &[usize], part: &[usize]) -> Set {
    let mut part = part.iter().peekable();
    set.iter().copied().filter(|at| part.next_if(|next| *next == at).is_none()).collect()
}

/// What is in both sets.
fn shared(set: &[usize], other: &[usize]) -> Set {
    set.iter().copied().filter(|at| other.binary_search(at).is_ok()).collect()
}

#[cfg(test)]
mod tests;
