//! Explains, for a plan, why known nodes are not among those of a job: grouped by the first part of the target that
//! they fail, so that ten thousand nodes make a few lines.
//!
//! A target has at most 64 tests, which bounds the groups. Texts are made here because they are only answers (L2).

use grid_types::job::{Expr, JobSpec, Limit, Target};
use grid_types::{NodeId, NodeOrd};

use super::{Fleet, Set, without};
use crate::state::State;

/// Nodes that a job leaves out for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatched {
    /// Continues "3 of 10 nodes …": `do not match group:web`.
    pub reason: String,
    /// How many they are.
    pub count: usize,
    /// The first of them, by their ids.
    pub examples: Vec<NodeId>,
}

/// Nodes of a group that are named.
const MAX_EXAMPLES: usize = 5;
/// Characters of a part of the target in a reason.
const MAX_SHOWN_CHARS: usize = 200;

/// Why known nodes are not among `chosen`, and how many nodes are known.
#[must_use]
pub fn unmatched(state: &State, spec: &JobSpec, chosen: &[NodeOrd]) -> (Vec<Unmatched>, usize) {
    let fleet = Fleet::of(state);
    let mut groups = Groups { fleet: &fleet, found: Vec::new() };
    let all = fleet.all();
    let aimed = fleet.target(&spec.target, &all);
    groups.target(&spec.target, &without(&all, &aimed));
    let left = fleet.without_excluded(spec, &aimed);
    if let Some(exclude) = &spec.exclude {
        groups.add(format!("match exclude: {}", shown(exclude)), &without(&aimed, &left));
    }
    let limited = fleet.limited(spec, &left);
    match &spec.limit {
        Some(limit @ Limit::First(_)) => {
            groups.add(format!("are beyond limit: {limit}"), &without(&left, &limited));
        }
        Some(Limit::To(target)) => {
            groups.add(format!("do not match limit: {}", shown(target)), &without(&left, &limited));
        }
        None => {}
    }
    if spec.target == Target::Any {
        let chosen = limited.iter().copied().filter(|at| chosen.contains(&fleet.nodes[*at].ord)).collect::<Set>();
        groups.add("are not needed: any is one node".to_owned(), &without(&limited, &chosen));
    }
    (groups.found, fleet.nodes.len())
}

struct Groups<'a> {
    fleet: &'a Fleet<'a>,
    found: Vec<Unmatched>,
}

impl Groups<'_> {
    /// `nodes` are not in the target.
    fn target(&mut self, target: &Target, nodes: &[usize]) {
        match target {
            Target::Where(expr) => self.expr(expr, nodes),
            _ => self.add(format!("do not match {}", shown(target)), nodes),
        }
    }

    /// `nodes` are not in the set.
    fn expr(&mut self, expr: &Expr, nodes: &[usize]) {
        match expr {
            Expr::And(all) => {
                let mut left = nodes.to_vec();
                for expr in all {
                    let passed = self.fleet.expr(expr, &left);
                    self.expr(expr, &without(&left, &passed));
                    left = passed;
                }
            }
            Expr::Not(of) => self.add(format!("match {}", shown(of)), nodes),
            Expr::Part { of, .. } => {
                let inside = self.fleet.expr(of, nodes);
                self.expr(of, &without(nodes, &inside));
                self.add(format!("are not among the {}", shown(expr)), &inside);
            }
            _ => self.add(format!("do not match {}", shown(expr)), nodes),
        }
    }

    fn add(&mut self, reason: String, nodes: &[usize]) {
        if nodes.is_empty() {
            return;
        }
        let mut ids: Vec<&NodeId> = nodes.iter().map(|at| &self.fleet.nodes[*at].id).collect();
        ids.sort_unstable();
        let examples = ids.into_iter().take(MAX_EXAMPLES).cloned().collect();
        self.found.push(Unmatched { reason, count: nodes.len(), examples });
    }
}

fn shown(part: &impl ToString) -> String {
    let text = part.to_string();
    if text.chars().count() <= MAX_SHOWN_CHARS {
        return text;
    }
    text.chars().take(MAX_SHOWN_CHARS).chain(['…']).collect()
}
