//! Builds the graph of imports between the top-level modules of one crate, and finds its cycles.
//!
//! A cycle is a strongly connected part of more than one module. Crates have at most a few dozen modules, so the
//! reachable set of each module is computed by plain search.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Which module imports which.
#[derive(Debug, Default)]
pub struct Imports {
    arcs: BTreeMap<(String, String), Evidence>,
}

#[derive(Debug)]
struct Evidence {
    count: usize,
    first: String,
}

/// One arc of the graph, for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arc {
    pub from: String,
    pub to: String,
    pub count: usize,
    /// `file:line` of the first place.
    pub first: String,
}

impl fmt::Display for Arc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}  {}", self.from, self.to, self.first)?;
        if self.count > 1 {
            write!(f, " and {} more", self.count - 1)?;
        }
        Ok(())
    }
}

impl Imports {
    /// Records that `from` names something of `to` at `place` (`file:line`).
    pub fn add(&mut self, from: &str, to: &str, place: String) {
        if from != to {
            let evidence = self.arcs.entry((from.to_owned(), to.to_owned()));
            evidence.or_insert(Evidence { count: 0, first: place }).count += 1;
        }
    }

    /// The sets of modules that import each other, directly or not; in order of their first module.
    pub fn cycles(&self) -> Vec<BTreeSet<String>> {
        let modules: BTreeSet<&String> = self.arcs.keys().map(|(from, _)| from).collect();
        let reach: BTreeMap<&String, BTreeSet<String>> =
            modules.iter().map(|module| (*module, self.reachable(module))).collect();
        let mut cycles: Vec<BTreeSet<String>> = Vec::new();
        for (module, reached) in &reach {
            let known = cycles.iter().any(|cycle| cycle.contains(*module));
            if reached.contains(*module) && !known {
                let both = |other: &&String| reach.get(other).is_some_and(|back| back.contains(*module));
                cycles.push(reached.iter().filter(both).cloned().collect());
            }
        }
        cycles
    }

    /// The arcs between the modules of one set.
    pub fn within(&self, modules: &BTreeSet<String>) -> Vec<Arc> {
        let inside = |(from, to): &(String, String)| modules.contains(from) && modules.contains(to);
        self.arcs.iter().filter(|(ends, _)| inside(ends)).map(|(ends, evidence)| arc(ends, evidence)).collect()
    }

    #[cfg(test)]
    pub fn all(&self) -> Vec<Arc> {
        self.arcs.iter().map(|(ends, evidence)| arc(ends, evidence)).collect()
    }

    /// A shortest way from a module back to itself; empty if there is none.
    pub fn shortest_cycle(&self, module: &str) -> Vec<Arc> {
        let mut came_by: BTreeMap<&str, Arc> = BTreeMap::new();
        let mut queue = VecDeque::from([module]);
        while let Some(at) = queue.pop_front() {
            for (ends, evidence) in self.arcs.iter().filter(|((from, _), _)| from == at) {
                let to = ends.1.as_str();
                if !came_by.contains_key(to) {
                    came_by.insert(to, arc(ends, evidence));
                    queue.push_back(to);
                }
            }
        }
        let mut path: Vec<Arc> = Vec::new();
        while let Some(arc) = came_by.get(path.first().map_or(module, |first| first.from.as_str())) {
            path.insert(0, arc.clone());
            if path[0].from == module {
                break;
            }
        }
        path
    }

    fn reachable(&self, from: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(at) = waiting.pop() {
            for (_, to) in self.arcs.keys().filter(|(from, _)| from == at) {
                if reached.insert(to.clone()) {
                    waiting.push(to);
                }
            }
        }
        reached
    }
}

fn arc((from, to): &(String, String), evidence: &Evidence) -> Arc {
    Arc { from: from.clone(), to: to.clone(), count: evidence.count, first: evidence.first.clone() }
}
