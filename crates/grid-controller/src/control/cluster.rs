//! Defines requests about the controllers as a cluster: who belongs to it, who leads, its backups.

use std::future::Future;

use bytes::Bytes;
use grid_types::api::{ClusterDoc, JoinBody, JoinedDoc, RoleDoc};
use tokio::sync::mpsc;

use super::{Caller, Introspect, Refusal};

/// What may be done with a member of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    Promote,
    Demote,
    Remove,
}

/// What a backup must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupScope {
    /// Everything that was acknowledged before the request; NO_QUORUM if that cannot be confirmed.
    Acknowledged,
    /// Whatever is applied on this controller.
    AppliedHere,
}

/// A backup that is being sent to a client.
#[derive(Debug)]
pub struct Backup {
    pub bytes: u64,
    /// Of the whole file, in hex.
    pub blake3: String,
    /// The last entry of the log that is in it.
    pub index: u64,
    pub leader_epoch: u64,
    pub jobs: u64,
    /// The time of the state in it, not of the copy.
    pub taken_at: String,
    /// Something that was acknowledged may be missing.
    pub stale: bool,
    pub pieces: mpsc::Receiver<Bytes>,
}

pub trait Cluster: Introspect {
    fn cluster(&self, caller: &Caller) -> impl Future<Output = Result<ClusterDoc, Refusal>> + Send;
    /// A controller asks to become a member.
    fn join(&self, caller: &Caller, body: JoinBody) -> impl Future<Output = Result<JoinedDoc, Refusal>> + Send;
    fn change_member(
        &self,
        caller: &Caller,
        id: &str,
        change: MemberChange,
    ) -> impl Future<Output = Result<ClusterDoc, Refusal>> + Send;
    /// E2: an operator lets a superseded cluster accept writes again.
    fn lift_superseded(&self, caller: &Caller) -> impl Future<Output = Result<ClusterDoc, Refusal>> + Send;
    /// E7; answers when another controller leads.
    fn step_down(&self, caller: &Caller, to: Option<String>) -> impl Future<Output = Result<RoleDoc, Refusal>> + Send;
    /// The state as one file.
    fn backup(&self, caller: &Caller, scope: BackupScope) -> impl Future<Output = Result<Backup, Refusal>> + Send;
}
