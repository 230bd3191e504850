//! Defines requests to read, drain and remove nodes.

use std::future::Future;

use grid_types::NodeId;
use grid_types::api::{ListDoc, NodeDoc, NodeStateDoc};
use grid_types::job::Target;

use super::{Caller, Introspect, Refusal};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeQuery {
    pub limit: u32,
    /// Only nodes whose id comes after this one.
    pub after: Option<NodeId>,
    /// Only nodes of this target.
    pub target: Option<Target>,
}

/// When a node may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Only if no work may run there.
    IfGone,
    /// In any case.
    Forced,
}

pub trait Nodes: Introspect {
    fn nodes(
        &self,
        caller: &Caller,
        query: NodeQuery,
    ) -> impl Future<Output = Result<ListDoc<NodeDoc>, Refusal>> + Send;
    fn node(&self, caller: &Caller, node: &NodeId) -> impl Future<Output = Result<NodeDoc, Refusal>> + Send;
    /// No new work goes to the node.
    fn drain(&self, caller: &Caller, node: &NodeId) -> impl Future<Output = Result<NodeDoc, Refusal>> + Send;
    /// Takes a drain back.
    fn undrain(&self, caller: &Caller, node: &NodeId) -> impl Future<Output = Result<NodeDoc, Refusal>> + Send;
    fn remove(
        &self,
        caller: &Caller,
        node: &NodeId,
        removal: Removal,
    ) -> impl Future<Output = Result<NodeStateDoc, Refusal>> + Send;
}
