//! Describes the state for the mirrors of a fabric: which documents there are, which changed, and what they say now.
//!
//! Documents of nodes have the fields of the design's NodeInfo (`backends` by name, `status` online or offline) and a few more, and come
//! from memory: all of them are written once a minute.

use std::collections::BTreeSet;

use grid_core::Node;
use grid_fabric::{Changed, Collection, Mirrored, Shown};
use grid_types::node::NodeStatus;
use grid_types::{JobId, JobRef, LeaderEpoch, Namespace, NodeId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::control::{Caller, Cluster, Introspect, JobQuery, Jobs, Refusal, StateHash};
use crate::controller::Controller;
use crate::time::time_text;

/// Jobs that have ended and are described to a new reader.
const NEWEST: u32 = 1_000;
/// The only key of [`Collection::Cluster`].
const STATUS: &str = "status";

impl Mirrored for Controller {
    fn epoch(&self) -> Option<LeaderEpoch> {
        self.shared.current_term().map(|term| term.epoch)
    }

    async fn changed(&self) -> Changed {
        let roster = self.shared.log.raft.roster();
        let keys = tokio::select! {
            keys = self.shared.log.touched.take() => keys,
            () = self.shared.log.raft.roster_changed(&roster) => {
                return Changed { whole: [Collection::Controllers].into(), ..Changed::default() };
            }
        };
        let state = self.shared.state();
        let nodes = keys.nodes.iter().filter_map(|ord| Some(state.nodes.get(ord)?.id.to_string())).collect();
        let whole = [(keys.all_jobs, Collection::Jobs), (keys.all_nodes, Collection::Nodes)];
        Changed {
            jobs: keys.jobs.iter().map(ToString::to_string).collect(),
            nodes,
            whole: whole.into_iter().filter_map(|(all, collection)| all.then_some(collection)).collect(),
        }
    }

    async fn keys(&self, collection: Collection) -> Result<BTreeSet<String>, String> {
        match collection {
            Collection::Jobs => self.job_keys().await.map_err(|refusal| refusal.message),
            Collection::Nodes => {
                let state = self.shared.state();
                Ok(state.nodes.values().filter(|node| is_known(node)).map(|node| node.id.to_string()).collect())
            }
            Collection::Controllers => {
                Ok(self.shared.log.raft.roster().members.into_iter().map(|listed| listed.member.node_id).collect())
            }
            Collection::Cluster => Ok([STATUS.to_owned()].into()),
        }
    }

    async fn show(&self, collection: Collection, key: &str) -> Result<Option<Shown>, String> {
        // Read first: what is shown may be newer, and never older.
        let index = *self.shared.log.touched.stored().borrow();
        let shown = match collection {
            Collection::Jobs => self.job_document(key).await,
            Collection::Nodes => Ok(self.node_document(key).map(|document| (document, false))),
            Collection::Controllers => {
                let cluster = self.cluster(&Caller::local()).await;
                cluster.map(|doc| {
                    doc.members.into_iter().find(|member| member.id == key).map(|member| (json!(member), false))
                })
            }
            Collection::Cluster if key == STATUS => {
                self.status(&Caller::local(), StateHash::Omit).await.map(|doc| Some((json!(doc), false)))
            }
            Collection::Cluster => Ok(None),
        };
        let shown = shown.map_err(|refusal| refusal.message)?;
        Ok(shown.map(|(document, is_final)| Shown { document, index, is_final }))
    }
}

impl Controller {
    async fn job_keys(&self) -> Result<BTreeSet<String>, Refusal> {
        let mut keys: BTreeSet<String> = self.shared.state().jobs.keys().map(ToString::to_string).collect();
        let query = JobQuery { limit: NEWEST, ..JobQuery::default() };
        let page = self.jobs(&Caller::local(), &default_namespace()?, query).await?;
        keys.extend(page.items.into_iter().map(|job| job.id));
        Ok(keys)
    }

    /// `GET /job/{id}`, and whether it has ended.
    async fn job_document(&self, key: &str) -> Result<Option<(Value, bool)>, Refusal> {
        let Ok(id) = key.parse::<JobId>() else { return Ok(None) };
        let namespace = self.shared.state().jobs.get(&id).map(|job| Namespace::from(job.head.namespace.clone()));
        let namespace = namespace.map_or_else(default_namespace, Ok)?;
        match self.job(&Caller::local(), &JobRef { namespace, id }, None).await {
            Ok(doc) => Ok(Some((json!(doc), doc.status.is_ended()))),
            Err(refusal) if refusal.code == grid_types::Code::NotFound => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    fn node_document(&self, key: &str) -> Option<Value> {
        let id: NodeId = key.parse().ok()?;
        let (document, ord) = {
            let state = self.shared.state();
            let node = state.node_by_id(&id).filter(|node| is_known(node))?;
            (NodeInfo::of(node), node.ord)
        };
        let heard = self.shared.look(|leader, _| leader.heard_wall_ms(ord)).flatten();
        let document = NodeInfo { last_seen: heard.map_or(document.last_seen, time_text), ..document };
        Some(json!(document))
    }
}

/// A node as the design documents describe it, and what else a reader wants to know.
#[derive(Debug, Serialize)]
struct NodeInfo {
    id: String,
    hostname: String,
    groups: Vec<String>,
    backends: Vec<String>,
    /// `online` or `offline`.
    status: &'static str,
    last_seen: String,
    state: &'static str,
    labels: std::collections::BTreeMap<String, String>,
    ordinal: u32,
    version: String,
    drained: bool,
}

impl NodeInfo {
    fn of(node: &Node) -> Self {
        let facts = &node.facts;
        let is_online = matches!(node.status, NodeStatus::Ready | NodeStatus::Warning);
        Self {
            id: node.id.to_string(),
            hostname: facts.hostname.clone(),
            groups: facts.groups.iter().map(ToString::to_string).collect(),
            backends: facts.backends.keys().cloned().collect(),
            status: if is_online { "online" } else { "offline" },
            last_seen: time_text(node.changed_wall_ms),
            state: node.status.word(),
            labels: facts.labels.clone(),
            ordinal: node.ord.0,
            version: facts.version.clone(),
            drained: node.drained,
        }
    }
}

fn is_known(node: &Node) -> bool {
    node.status != NodeStatus::Removed
}

fn default_namespace() -> Result<Namespace, Refusal> {
    let invalid = |_| Refusal::new(grid_types::Code::Internal, "the default namespace has no valid name");
    Namespace::DEFAULT.parse().map_err(invalid)
}
