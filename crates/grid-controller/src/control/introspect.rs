//! Defines what a controller says of itself. Free of permits but for `status`: clients ask the role before they know anything.

use std::future::Future;

use grid_types::Name;
use grid_types::api::{Role, RoleDoc, StatusDoc};

use super::{Caller, Refusal};

/// The role of a controller at this moment, without the addresses of other controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub node_id: Name,
    pub role: Role,
    /// None: nobody has ever led.
    pub leader_epoch: Option<u64>,
}

/// Whether `/status` has the hash of the stored state (L7). It reads all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateHash {
    Omit,
    Compute,
}

pub trait Introspect: Clone + Send + Sync + 'static {
    fn role(&self) -> RoleDoc;
    /// What every request and every answer needs of the role, and is cheap.
    fn standing(&self) -> Standing;
    /// Whether this controller is a member that knows the leader.
    fn is_ready(&self) -> bool;
    /// E4: it would lead, but no majority answers it.
    fn is_cut_off(&self) -> bool;
    /// E6: returns when everything acknowledged before the call can be read here.
    fn read_barrier(&self) -> impl Future<Output = Result<(), Refusal>> + Send;
    /// E2: a client sent an epoch that is not the current one.
    fn epoch_claimed(&self, epoch: u64);
    fn status(&self, caller: &Caller, hash: StateHash) -> impl Future<Output = Result<StatusDoc, Refusal>> + Send;
}
