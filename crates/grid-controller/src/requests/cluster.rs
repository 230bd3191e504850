//! Describes the controllers, and changes the members of the cluster.
//!
//! Any controller describes all of them, by asking the others; only the leader changes anything.
//! A superseded cluster keeps its members (E2): each change would make it harder to return to. Leadership may still move, which
//! changes no data.
//! Not here: the rules of membership (`grid_raft`), roles (`shared`).

use grid_core::{Command, Supersede};
use grid_raft::{ChangeError, HandOverError, Listed, Member, Namesake, PeerState};
use grid_types::Code;
use grid_types::api::{ClusterDoc, ControllerDoc, JoinBody, JoinedDoc, RoleDoc};

use crate::control::{Backup, BackupScope, Caller, Cluster, MemberChange, Permit, Refusal, Right, Scope, refused};
use crate::controller::Controller;
use crate::leadership::{About, hand_over, superseded};

impl Cluster for Controller {
    async fn cluster(&self, caller: &Caller) -> Result<ClusterDoc, Refusal> {
        caller.permit(Right::View, Scope::Cluster)?;
        Ok(self.cluster_doc().await)
    }

    async fn join(&self, caller: &Caller, body: JoinBody) -> Result<JoinedDoc, Refusal> {
        let permit = caller.permit(Right::Administer, Scope::Cluster)?;
        self.admit(permit, body).await
    }

    async fn change_member(&self, caller: &Caller, id: &str, change: MemberChange) -> Result<ClusterDoc, Refusal> {
        let permit = caller.permit(Right::Administer, Scope::Cluster)?;
        self.change(permit, id, change).await
    }

    async fn lift_superseded(&self, caller: &Caller) -> Result<ClusterDoc, Refusal> {
        let permit = caller.permit(Right::Administer, Scope::Cluster)?;
        self.propose(permit, &Command::Supersede(Supersede { shown: None })).await.map_err(refused)?;
        Ok(self.cluster_doc().await)
    }

    async fn step_down(&self, caller: &Caller, to: Option<String>) -> Result<RoleDoc, Refusal> {
        let permit = caller.permit(Right::Administer, Scope::Cluster)?;
        self.give_up_leadership(permit, to.as_deref()).await
    }

    async fn backup(&self, caller: &Caller, scope: BackupScope) -> Result<Backup, Refusal> {
        caller.permit(Right::Administer, Scope::Cluster)?;
        let mut current_wall_ms = None;
        if scope == BackupScope::Acknowledged {
            // Everything acknowledged before now is in it, so this is the time of its state.
            current_wall_ms = Some(self.shared.clock.wall_ms());
            self.shared.log.raft.read_barrier().await.map_err(|e| {
                let why = format!(
                    "{e}; a backup taken here may lack acknowledged changes: --stale (?stale=true) allows that"
                );
                Refusal::new(Code::NoQuorum, why)
            })?;
        }
        self.shared.reading.backups.take(self.shared.reading.reader.clone(), current_wall_ms).await
    }
}

impl Controller {
    async fn cluster_doc(&self) -> ClusterDoc {
        let states = self.shared.log.raft.states().await;
        let role = self.shared.role();
        let roster = self.shared.log.raft.roster();
        let newest = states.iter().map(|state| state.last_index).max().unwrap_or(0);
        let mut members: Vec<ControllerDoc> = roster
            .members
            .iter()
            .map(|listed| {
                let state = states.iter().find(|state| state.raft_id == listed.raft_id);
                self.controller_doc(listed, state, newest)
            })
            .collect();
        members.sort_by(|a, b| a.id.cmp(&b.id));
        let voters = u32::try_from(roster.members.iter().filter(|listed| listed.is_voter).count()).unwrap_or(u32::MAX);
        // One lock of the state after the other.
        let superseded = superseded::doc(&self.shared);
        ClusterDoc {
            cluster_id: self.shared.log.raft.local_member().cluster_id.clone(),
            leader_id: role.leader_id,
            leader_epoch: role.leader_epoch,
            voters,
            majority: voters / 2 + 1,
            feature_level: self.shared.state().meta.feature_level,
            superseded,
            members,
        }
    }

    fn controller_doc(&self, listed: &Listed, state: Option<&PeerState>, newest: u64) -> ControllerDoc {
        let about = state.and_then(About::of);
        let is_me = listed.raft_id == self.shared.log.raft.local_member().raft_id;
        let silence = self.shared.log.raft.silence(listed.raft_id).filter(|_| !is_me);
        let silence_ms = silence.map(|silence| u64::try_from(silence.as_millis()).unwrap_or(u64::MAX));
        ControllerDoc {
            id: listed.member.node_id.clone(),
            role: about.as_ref().map(|about| about.role),
            voter: listed.is_voter,
            leader_epoch: about.as_ref().and_then(|about| about.leader_epoch),
            version: about.and_then(|about| about.version),
            feature_level: listed.member.feature_level,
            api_url: listed.member.api_url.clone(),
            grpc_addr: listed.member.grpc_addr.clone(),
            raft_addr: listed.member.address.clone(),
            raft_id: listed.raft_id,
            last_index: state.map(|state| state.last_index),
            applied_index: state.map(|state| state.applied_index),
            lag: state.map(|state| newest.saturating_sub(state.applied_index)),
            last_contact_ms: if is_me { Some(0) } else { silence_ms },
        }
    }

    async fn admit(&self, permit: Permit, body: JoinBody) -> Result<JoinedDoc, Refusal> {
        self.check_epoch(permit)?;
        superseded::refuse_change(&self.shared)?;
        let level = self.shared.state().meta.feature_level;
        if body.feature_level < level {
            let why = format!(
                "{} knows feature level {}, and the cluster uses {level}; start a newer grid there",
                body.node_id, body.feature_level
            );
            return Err(Refusal::new(Code::Conflict, why));
        }
        let member = Member {
            address: body.raft_addr,
            node_id: body.node_id,
            api_url: body.api_url,
            grpc_addr: body.grpc_addr,
            folder_id: body.folder_id,
            feature_level: body.feature_level,
        };
        let namesake = if body.replace { Namesake::Replace } else { Namesake::Refuse };
        self.shared.log.raft.admit(body.raft_id, member, namesake).await.map_err(|e| unchanged(&e))?;
        Ok(JoinedDoc { cluster_id: self.shared.log.raft.local_member().cluster_id.clone() })
    }

    async fn change(&self, permit: Permit, id: &str, change: MemberChange) -> Result<ClusterDoc, Refusal> {
        self.check_epoch(permit)?;
        superseded::refuse_change(&self.shared)?;
        let raft_id = self.raft_id_of(id)?;
        let changed = match change {
            MemberChange::Promote => self.shared.log.raft.promote(raft_id).await,
            MemberChange::Demote => self.shared.log.raft.demote(raft_id).await,
            MemberChange::Remove => self.shared.log.raft.remove(raft_id).await,
        };
        changed.map_err(|e| unchanged(&e))?;
        Ok(self.cluster_doc().await)
    }

    async fn give_up_leadership(&self, permit: Permit, to: Option<&str>) -> Result<RoleDoc, Refusal> {
        self.check_epoch(permit)?;
        let to = to.map(|id| self.raft_id_of(id)).transpose()?;
        hand_over(&self.shared, to).await.map_err(|e| match e {
            HandOverError::NotLeader => Refusal::new(Code::NotLeader, ""),
            HandOverError::Refused(why) => Refusal::new(Code::Conflict, format!("still the leader: {why}")),
        })?;
        // Whom to ask next is worth a moment.
        let mut leadership = self.shared.log.raft.leadership();
        let known = leadership.wait_for(|now| now.leader.is_some());
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), known).await;
        Ok(self.shared.role())
    }

    fn raft_id_of(&self, id: &str) -> Result<u64, Refusal> {
        let roster = self.shared.log.raft.roster();
        let names = || {
            let mut names: Vec<_> = roster.members.iter().map(|listed| listed.member.node_id.as_str()).collect();
            names.sort_unstable();
            names.join(", ")
        };
        let none = || Refusal::new(Code::NotFound, format!("no controller {id:?}; there are {}", names()));
        roster.by_node_id(id).map(|listed| listed.raft_id).ok_or_else(none)
    }
}

fn unchanged(error: &ChangeError) -> Refusal {
    let code = match error {
        // Its words are made where the leader is known.
        ChangeError::NotLeader => return Refusal::new(Code::NotLeader, ""),
        ChangeError::NoMajority => Code::NoQuorum,
        ChangeError::Refused(_) => Code::Conflict,
        ChangeError::Unknown(_) => Code::NotFound,
        ChangeError::OutcomeUnknown(_) => Code::OutcomeUnknown,
    };
    Refusal::new(code, error.to_string())
}
