//! Turns a registration into its command (W1), as far as it concerns this cluster.
//!
//! Bounds: what a worker says that it holds goes into the log only as far as the state knows it, and a registration that the
//! state refuses anyway does not go into the log at all.

use std::collections::BTreeSet;

use grid_core::RegisterNode;
use grid_fabric::{FabricRefusal, Peer};
use grid_proto::refusals::Port;
use grid_proto::{Foreign, v1};
use grid_types::node::NodeFacts;
use grid_types::{Code, LeaderEpoch, LeaseKey, NodeId, NodeOrd};

use super::FabricHub;
use crate::leadership::superseded;

impl FabricHub {
    pub(super) fn registration(
        &self,
        id: NodeId,
        request: v1::RegisterNodeRequest,
        peer: &Peer,
    ) -> Result<RegisterNode, FabricRefusal> {
        let bad = |why: String| FabricRefusal::new(Code::Invalid, why);
        let facts = request.facts.ok_or_else(|| bad("the registration has no facts".to_owned()))?;
        let mut facts = NodeFacts::try_from(facts).map_err(|e| bad(e.to_string()))?;
        if let Peer::Connection(Some(address)) = peer
            && facts.address.is_empty()
        {
            facts.address = address.ip().to_string();
        }
        if request.journal_id.len() != 16 || request.nonce.len() != 16 {
            return Err(bad("journal id and nonce have 16 bytes".to_owned()));
        }
        let state = self.shared.state();
        let cluster = &state.meta.cluster_id;
        if !request.cluster_id.is_empty() && request.cluster_id != *cluster {
            let why = format!(
                "worker {id} belongs to cluster {}, this is {cluster}; give it another data folder to join this one",
                Foreign(&request.cluster_id)
            );
            return Err(FabricRefusal::new(Code::Conflict, why));
        }
        let node = state.node_by_id(&id).map(|node| node.ord);
        drop(state);
        let lives = |node| self.shared.look(|leader, now| leader.lives(now, node)).unwrap_or_default();
        let known_session_lives = node.is_some_and(lives);
        let (outstanding, unstarted) = self.known_leases(node, request.outstanding, request.unstarted);
        let (journal_id, boot, nonce) = (request.journal_id, request.boot, request.nonce);
        Ok(RegisterNode {
            id,
            facts,
            journal_id,
            boot,
            nonce,
            known_session_lives,
            agent: false,
            outstanding,
            unstarted,
            secret: None,
        })
    }

    /// The leases among those that a worker names which its registration can change: those that are out to it, and those that
    /// its journal named after a restore.
    fn known_leases(
        &self,
        node: Option<NodeOrd>,
        outstanding: Vec<v1::Lease>,
        unstarted: Vec<v1::Lease>,
    ) -> (Vec<LeaseKey>, Vec<LeaseKey>) {
        let state = self.shared.state();
        let Some(node) = node.and_then(|node| state.nodes.get(&node)) else { return Default::default() };
        let in_past = |lease: &LeaseKey| {
            let ran = node.past.get(&lease.job).and_then(|past| past.ran.get(&lease.step));
            ran.is_some_and(|ran| (ran.epoch, ran.attempt) == (lease.job_epoch, lease.attempt))
        };
        let is_known = |lease: &LeaseKey| state.is_out(node.ord, *lease) || in_past(lease);
        let known = |listed: Vec<v1::Lease>| {
            let leases: BTreeSet<LeaseKey> = listed.into_iter().map(LeaseKey::from).filter(is_known).collect();
            leases.into_iter().collect()
        };
        (known(outstanding), known(unstarted))
    }

    /// E2: a worker of this cluster that has obeyed an epoch of a later restore proves that this one was superseded.
    pub(super) async fn check_generation(
        &self,
        id: &NodeId,
        request: &v1::RegisterNodeRequest,
    ) -> Result<(), FabricRefusal> {
        let shown = LeaderEpoch::from_wire(request.leader_epoch);
        let is_elsewhere = {
            let state = self.shared.state();
            state.meta.cluster_id == request.cluster_id && state.meta.is_elsewhere(shown)
        };
        if !is_elsewhere {
            return Ok(());
        }
        if superseded::is_believed(&self.shared, Port::Grpc, shown) {
            superseded::commit(&self.shared, shown, format!("worker {id}")).await;
        }
        let (own, is_lifted) = {
            let state = self.shared.state();
            (state.meta.leadership.epoch, state.meta.is_lifted(shown))
        };
        if shown.generation == own.generation && self.shared.open_term().is_none() {
            // The worker followed a newer leader of this very cluster.
            return Err(self.not_leader());
        }
        // Only an operator who has kept this cluster wants the worker here.
        let way_out = if is_lifted { "; start it once with --reset-journal to let it join this one" } else { "" };
        let why = format!(
            "SUPERSEDED: this worker follows a later restore of the cluster (generation {}, leader epoch {shown}), this controller \
             is of generation {} (leader epoch {own}){way_out}",
            shown.generation, own.generation
        );
        Err(FabricRefusal::new(Code::Superseded, why))
    }
}
