//! Answers role and status: how much there is, how far it is applied and, if asked for, a hash to compare replicas by (I13).

use grid_core::State;
use grid_store::{Reader, Stored};
use grid_types::Code;
use grid_types::api::{RoleDoc, StatusDoc};

use crate::control::{Caller, Introspect, Permit, Refusal, Right, Scope, Standing, StateHash};
use crate::controller::Controller;
use crate::leadership::superseded;

impl Introspect for Controller {
    fn role(&self) -> RoleDoc {
        self.shared.role()
    }

    fn standing(&self) -> Standing {
        self.shared.standing()
    }

    fn is_ready(&self) -> bool {
        let role = self.shared.role();
        role.leader_id.is_some() && role.leader_epoch.is_some()
    }

    fn is_cut_off(&self) -> bool {
        self.shared.is_cut_off()
    }

    async fn read_barrier(&self) -> Result<(), Refusal> {
        self.shared.log.raft.read_barrier().await.map_err(|e| Refusal::new(Code::NoQuorum, e.to_string()))
    }

    fn epoch_claimed(&self, epoch: u64) {
        superseded::claimed(&self.shared, &self.tasks, epoch);
    }

    async fn status(&self, caller: &Caller, hash: StateHash) -> Result<StatusDoc, Refusal> {
        let permit = caller.permit(Right::View, Scope::Cluster)?;
        let mut totals = self.read(permit, Reader::totals).await?;
        let mut state_hash = None;
        if hash == StateHash::Compute {
            let compute = self.state_hash(permit);
            let (index, hash) = self.shared.reading.reads.hash(totals.applied_index, compute).await?;
            totals.applied_index = index;
            state_hash = Some(hash);
        }
        let cluster_id = self.shared.state().meta.cluster_id.clone();
        Ok(StatusDoc {
            cluster_id,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: self.shared.role(),
            nodes: totals.nodes,
            jobs: totals.jobs,
            applied_index: totals.applied_index,
            state_hash,
            snapshot_problem: self.shared.log.raft.snapshot_trouble(),
            dispatch_problem: self.shared.tenure.gate.problem(),
            superseded: superseded::doc(&self.shared),
            refused: grid_proto::refusals::counts(),
        })
    }
}

impl Controller {
    async fn state_hash(&self, permit: Permit) -> Result<(u64, String), Refusal> {
        let stored = self.read(permit, |reader| Ok(hash_of(reader.stored()?))).await?;
        stored.map_err(|why| Refusal::new(Code::Internal, format!("the stored state contradicts itself: {why}")))
    }
}

/// Of a stored state: its index and hash, or how it contradicts itself.
fn hash_of(stored: Stored) -> Result<(u64, String), String> {
    let index = stored.applied.map_or(0, |at| at.index);
    let state = State::from_parts(stored.parts)?;
    Ok((index, state.hash().iter().map(|byte| format!("{byte:02x}")).collect()))
}
