//! Computes what a job would do as one hash: over its spec, the nodes it would run on and the declarations of its actions.
//!
//! A submit that names the hash is refused if any of these has changed since somebody looked at the plan; the nodes are then
//! frozen at once, so that what runs is what was seen.

use blake3::Hasher;
use grid_types::NodeOrd;
use grid_types::job::JobSpec;
use minicbor::{Decode, Encode};

use crate::encoding::to_vec;
use crate::state::State;

/// A plan as a submit names it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Planned {
    /// Over the spec, the nodes and the declarations.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub hash: [u8; 32],
    /// Of the leader's declarations.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub declarations: [u8; 32],
}

/// The nodes a job would run on now, and the hash over everything that decides what it does there.
#[must_use]
pub fn plan(state: &State, spec: &JobSpec, declarations: &[u8; 32]) -> (Vec<NodeOrd>, [u8; 32]) {
    let nodes = state.resolve(spec);
    let mut hasher = Hasher::new();
    hasher.update(b"grid plan 1");
    hasher.update(declarations);
    hasher.update(&to_vec(spec));
    for node in nodes.iter().filter_map(|node| state.nodes.get(node)) {
        hasher.update(&to_vec(&(node.ord, &node.id)));
    }
    (nodes, *hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::plan;
    use crate::commands::Rejection;
    use crate::world::{World, leaf};
    use grid_types::job::JobSpec;

    const DECLARED: [u8; 32] = [7; 32];

    fn spec() -> JobSpec {
        JobSpec::new("all".parse().unwrap(), vec![leaf("ping", "echo")])
    }

    #[test]
    fn a_plan_covers_spec_nodes_and_declarations() {
        let mut world = World::with_nodes(2);
        let (nodes, hash) = plan(&world.state, &spec(), &DECLARED);
        assert_eq!((nodes.len(), plan(&world.state, &spec(), &DECLARED).1), (2, hash));
        assert_ne!(plan(&world.state, &spec(), &[8; 32]).1, hash, "a declaration changed");
        let mut other = spec();
        other.phases[0].tasks[0].max_retries = 1;
        assert_ne!(plan(&world.state, &other, &DECLARED).1, hash, "the file changed");
        world.add_nodes(1);
        assert_ne!(plan(&world.state, &spec(), &DECLARED).1, hash, "a node joined");
    }

    #[test]
    fn a_submit_that_names_a_plan_is_refused_after_a_node_joined() {
        let mut world = World::with_nodes(2);
        let (_, hash) = plan(&world.state, &spec(), &DECLARED);
        world.set_quotas(0, 5);
        let job = world.submit_planned(spec(), hash, DECLARED).unwrap();
        world.add_nodes(1);
        let refused = world.submit_planned(spec(), hash, DECLARED);
        assert!(matches!(refused, Err(Rejection::PlanChanged)), "{refused:?}");
        world.set_quotas(5, 5);
        world.advance_ms(1);
        assert_eq!(world.offered().len(), 2, "the first runs on what was seen, though it started later: {job:?}");
    }
}
