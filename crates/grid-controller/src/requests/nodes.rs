//! Reads, drains and removes nodes.

use std::collections::BTreeSet;

use grid_core::{Command, OrderDrain, RemoveNode};
use grid_fabric::CloseReason;
use grid_store::NodeRow;
use grid_types::api::{ListDoc, NodeDoc, NodeStateDoc};
use grid_types::node::NodeStatus;
use grid_types::{NodeId, NodeOrd, SessionId};

use crate::control::{Caller, NodeQuery, Nodes, Permit, Refusal, Removal, Right, Scope, no_node, refused};
use crate::controller::Controller;
use crate::documents;

impl Nodes for Controller {
    async fn nodes(&self, caller: &Caller, query: NodeQuery) -> Result<ListDoc<NodeDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Cluster)?;
        let NodeQuery { limit, after, target } = query;
        let among: Option<BTreeSet<NodeOrd>> =
            target.map(|target| self.shared.state().matching(&target).into_iter().collect());
        let page = self.read(permit, move |reader| reader.nodes(limit, after.as_ref(), among.as_ref())).await?;
        Ok(documents::list(page, |row| documents::node(self.freshen(row))))
    }

    async fn node(&self, caller: &Caller, node: &NodeId) -> Result<NodeDoc, Refusal> {
        self.node_doc(caller.permit(Right::View, Scope::Cluster)?, node).await
    }

    #[tracing::instrument(name = "node", skip_all, fields(%node))]
    async fn drain(&self, caller: &Caller, node: &NodeId) -> Result<NodeDoc, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Cluster)?;
        let order = OrderDrain { node: self.known_node(node)?.0, drain: true };
        self.order_drain(permit, node, order).await
    }

    #[tracing::instrument(name = "node", skip_all, fields(%node))]
    async fn undrain(&self, caller: &Caller, node: &NodeId) -> Result<NodeDoc, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Cluster)?;
        let order = OrderDrain { node: self.known_node(node)?.0, drain: false };
        self.order_drain(permit, node, order).await
    }

    #[tracing::instrument(name = "node", skip_all, fields(%node))]
    async fn remove(&self, caller: &Caller, node: &NodeId, removal: Removal) -> Result<NodeStateDoc, Refusal> {
        let permit = caller.permit(Right::Operate, Scope::Cluster)?;
        let (ord, session) = self.known_node(node)?;
        let command = RemoveNode { node: ord, force: removal == Removal::Forced, lapsed: false };
        self.propose(permit, &Command::RemoveNode(command)).await.map_err(refused)?;
        // A worker that has registered since has another session.
        self.shared.lead(|leader, _| leader.on_gone(session, CloseReason::Removed));
        Ok(NodeStateDoc { id: node.to_string(), status: NodeStatus::Removed.word().to_owned() })
    }
}

impl Controller {
    async fn node_doc(&self, permit: Permit, node: &NodeId) -> Result<NodeDoc, Refusal> {
        let id = node.clone();
        let found = self.read(permit, move |reader| reader.node(&id)).await?;
        found.map(|row| documents::node(self.freshen(row))).ok_or_else(|| no_node(node))
    }

    async fn order_drain(&self, permit: Permit, node: &NodeId, order: OrderDrain) -> Result<NodeDoc, Refusal> {
        self.propose(permit, &Command::OrderDrain(order)).await.map_err(refused)?;
        self.node_doc(permit, node).await
    }

    /// The leader knows better than the store when a node was last heard.
    fn freshen(&self, mut row: NodeRow) -> NodeRow {
        let heard = self.shared.look(|leader, _| leader.heard_wall_ms(row.ord));
        if let Some(heard_wall_ms) = heard.flatten() {
            row.seen_wall_ms = heard_wall_ms;
        }
        row
    }

    fn known_node(&self, id: &NodeId) -> Result<(NodeOrd, SessionId), Refusal> {
        let state = self.shared.state();
        let node = state.node_by_id(id).filter(|node| node.status != NodeStatus::Removed);
        node.map(|node| (node.ord, node.session)).ok_or_else(|| no_node(id))
    }
}
