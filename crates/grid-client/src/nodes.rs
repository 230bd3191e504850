//! Makes the calls about nodes, and about the backends that they may run.

use grid_types::Code;
use grid_types::api::{BackendDoc, ListDoc, NodeDoc, NodeStateDoc};

use crate::call::{Call, Journey};
use crate::client::{Client, decode, push};
use crate::error::Error;

/// When a node is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Only if no work may run there.
    IfGone,
    /// In any case.
    Forced,
}

impl Client {
    /// # Errors
    /// When nobody could answer.
    pub async fn nodes(
        &self,
        target: Option<&str>,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<ListDoc<NodeDoc>, Error> {
        let mut pairs = Vec::new();
        push(&mut pairs, "target", target);
        push(&mut pairs, "after", after);
        push(&mut pairs, "limit", limit);
        self.get(&["api", "v1", "nodes"], pairs).await
    }

    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn node(&self, node: &str) -> Result<NodeDoc, Error> {
        self.get(&["api", "v1", "nodes", node], Vec::new()).await
    }

    /// Every backend that the controller declares.
    ///
    /// # Errors
    /// When no controller could answer.
    pub async fn backends(&self) -> Result<ListDoc<BackendDoc>, Error> {
        self.get(&["api", "v1", "backends"], Vec::new()).await
    }

    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn backend(&self, name: &str) -> Result<BackendDoc, Error> {
        self.get(&["api", "v1", "backends", name], Vec::new()).await
    }

    /// Drains a node: it gets no new leases until the drain is undone.
    ///
    /// # Errors
    /// `NOT_FOUND`, or no controller could answer.
    pub async fn drain(&self, node: &str) -> Result<NodeDoc, Error> {
        let path = ["api", "v1", "nodes", node, "drain"];
        decode(&self.transport.carry(&Call::post(&path, b"{}".to_vec()), &mut Journey::default()).await?)
    }

    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if its worker is shutting down, or no controller could answer.
    pub async fn undrain(&self, node: &str) -> Result<NodeDoc, Error> {
        let path = ["api", "v1", "nodes", node, "undrain"];
        decode(&self.transport.carry(&Call::post(&path, b"{}".to_vec()), &mut Journey::default()).await?)
    }

    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` while leases may run there and the removal is not forced, or no controller could answer.
    pub async fn remove_node(&self, node: &str, removal: Removal) -> Result<NodeStateDoc, Error> {
        let path = ["api", "v1", "nodes", node];
        let mut query = Vec::new();
        push(&mut query, "force", (removal == Removal::Forced).then_some(true));
        let mut journey = Journey::default();
        match self.transport.carry(&Call::delete(&path, query), &mut journey).await {
            Ok(answer) => decode(&answer),
            // After a lost answer, "not found" means that the node was removed as requested.
            Err(error) if journey.maybe_done && error.code() == Some(Code::NotFound) => {
                Ok(NodeStateDoc { id: node.to_owned(), status: "removed".to_owned() })
            }
            Err(error) => Err(error),
        }
    }
}
