//! What `/status` says: how much there is, how far it is applied and, if asked for, a hash to compare replicas by (I13).

use grid_core::State;
use grid_store::{Reader, Stored};
use grid_types::Code;
use grid_types::api::StatusDoc;

use crate::control::Refusal;
use crate::controller::Controller;

impl Controller {
    pub(crate) async fn status_doc(&self, hash: bool) -> Result<StatusDoc, Refusal> {
        let mut totals = self.read(Reader::totals).await?;
        let mut state_hash = None;
        if hash {
            let compute = async {
                let stored = self.read(|reader| Ok(hash_of(reader.stored()?))).await?;
                let contradiction =
                    |why| Refusal::new(Code::Internal, format!("the stored state contradicts itself: {why}"));
                stored.map_err(contradiction)
            };
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
            superseded: crate::leadership::superseded::doc(&self.shared),
            refused: grid_proto::refusals::counts(),
        })
    }
}

/// Of a stored state: its index and hash, or how it contradicts itself.
fn hash_of(stored: Stored) -> Result<(u64, String), String> {
    let index = stored.applied.map_or(0, |at| at.index);
    let state = State::from_parts(stored.parts)?;
    Ok((index, state.hash().iter().map(|byte| format!("{byte:02x}")).collect()))
}
