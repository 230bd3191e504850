//! Defines the seam through which a fabric shows the state to other clients: the controller names what changed and describes it.
//!
//! Keys and documents and nothing of where they go. A mirror is a copy for readers: nothing that it contains is ever read back.

use std::collections::BTreeSet;
use std::future::Future;

use grid_types::LeaderEpoch;
use serde_json::Value;

/// A kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collection {
    /// By job id: as `GET /job/{id}`.
    Jobs,
    /// By node id: as `GET /nodes`.
    Nodes,
    /// By controller id: as `GET /controllers`.
    Controllers,
    /// The key `status`: as `GET /status`.
    Cluster,
}

impl Collection {
    pub const ALL: [Self; 4] = [Self::Jobs, Self::Nodes, Self::Controllers, Self::Cluster];
}

/// What changed since it was last asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    pub jobs: BTreeSet<String>,
    pub nodes: BTreeSet<String>,
    /// More than was recorded: everything in these collections may have changed.
    pub whole: BTreeSet<Collection>,
}

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub document: Value,
    /// The index of the log up to which it is true.
    pub index: u64,
    /// It will not change any more, unless somebody resumes it.
    pub is_final: bool,
}

/// The controller's side.
pub trait Mirrored: Send + Sync + 'static {
    /// The epoch in which this controller leads.
    fn epoch(&self) -> Option<LeaderEpoch>;

    /// Resolves when something changed. What is returned is not returned again.
    fn changed(&self) -> impl Future<Output = Changed> + Send;

    /// The keys that a reader expects: of jobs those that have not ended, and the newest others.
    fn keys(&self, collection: Collection) -> impl Future<Output = Result<BTreeSet<String>, String>> + Send;

    /// `None`: there is no such thing, or not any more.
    fn show(&self, collection: Collection, key: &str) -> impl Future<Output = Result<Option<Shown>, String>> + Send;
}
