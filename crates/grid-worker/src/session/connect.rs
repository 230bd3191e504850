//! One attempt to register: reach the leader, register.
//!
//! ```text
//!   Connector: GET /role of one controller after the other --> dial the leader --> register
//!   ByBroker:  the broker knows who leads ---------------------------------------> register
//! ```
//!
//! E3: a controller of another cluster is refused here, in words of this worker.
//! Not here: when to try again, and when to give up (`engine`).

use std::collections::BTreeSet;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use grid_fabric::{Broker, Dialer, FabricRefusal, Link, LinkError};
use grid_proto::v1;
use grid_types::{Code, NodeId};

use super::facts;
use crate::engine::Registration;
use crate::seams::{Directory, fabric_address};

/// More controllers than any cluster has.
const MOST_LEARNED: usize = 16;
/// A registered session, its stream not open yet.
pub(crate) struct Connected<L> {
    pub(crate) link: L,
    pub(crate) reply: v1::RegisterNodeReply,
    pub(crate) leader: String,
}

/// The way to the leader.
pub(crate) trait Way: Send + Sync + 'static {
    type Link: Link;

    fn register(
        &self,
        registration: &Registration,
    ) -> impl Future<Output = Result<Connected<Self::Link>, LinkError>> + Send;

    /// What controllers said of each other.
    fn learn(&self, controllers: &[String]);
}

/// Reaches the leader wherever it is.
pub(crate) struct ByBroker<B> {
    pub(crate) broker: B,
    pub(crate) node: NodeId,
}

impl<B: Broker> Way for ByBroker<B> {
    type Link = B::Link;

    async fn register(&self, registration: &Registration) -> Result<Connected<B::Link>, LinkError> {
        let link = self.broker.attach(&self.node).await?;
        let mut request = registration.request.clone();
        request.facts = with_machine(request.facts.take(), None).await;
        let leader = "the leader".to_owned();
        let reply = register_over(&link, request, &leader).await?;
        Ok(Connected { link, reply, leader })
    }

    /// Every controller is reached by the broker.
    fn learn(&self, _: &[String]) {}
}

/// Asks controllers for the leader.
pub(crate) struct Connector<D, R> {
    pub(crate) dialer: D,
    pub(crate) directory: R,
    pub(crate) servers: Vec<String>,
    /// What controllers said of each other: the ones this worker was given may all be gone one day.
    pub(crate) learned: Mutex<Vec<String>>,
}

impl<D: Dialer, R: Directory> Way for Connector<D, R> {
    type Link = D::Link;

    /// Asks one server after the other for the leader, and registers with the first that one of them names.
    async fn register(&self, registration: &Registration) -> Result<Connected<D::Link>, LinkError> {
        let mut trouble = LinkError::Unreachable("no server is configured".to_owned());
        let learned = self.learned();
        let mut asked_already = BTreeSet::new();
        for server in registration.ask_first.iter().chain(&self.servers).chain(&learned) {
            if !asked_already.insert(server) {
                continue;
            }
            let found = match self.directory.role(server).await {
                Ok(found) => {
                    self.learn(&found.role.controllers);
                    found
                }
                Err(problem) => {
                    trouble = LinkError::Unreachable(format!("{server}: {problem}"));
                    continue;
                }
            };
            let Some(address) = fabric_address(&found.role) else {
                let why = match &found.role.leader_id {
                    Some(leader) => format!("leader {leader} serves no worker over gRPC: start this one with --nats"),
                    None => format!("{server} knows no leader yet"),
                };
                trouble = LinkError::Unreachable(why);
                continue;
            };
            let mut request = registration.request.clone();
            request.facts = with_machine(request.facts.take(), found.local_ip).await;
            match self.register_at(&address, request).await {
                Ok((link, reply)) => return Ok(Connected { link, reply, leader: address }),
                Err(error) => trouble = error,
            }
            if matches!(trouble, LinkError::Refused(_)) {
                return Err(trouble);
            }
        }
        Err(trouble)
    }

    fn learn(&self, controllers: &[String]) {
        let told = &controllers[..controllers.len().min(MOST_LEARNED)];
        let mut known = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.is_empty() && *known != told {
            tracing::info!(controllers = told.join(","), "knows these controllers");
            *known = told.to_vec();
        }
    }
}

impl<D: Dialer, R: Directory> Connector<D, R> {
    fn learned(&self) -> Vec<String> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn register_at(
        &self,
        address: &str,
        request: v1::RegisterNodeRequest,
    ) -> Result<(D::Link, v1::RegisterNodeReply), LinkError> {
        let link = self.dialer.dial(address).await?;
        let reply = register_over(&link, request, address).await?;
        Ok((link, reply))
    }
}

/// `leader`: for the message of a refusal.
async fn register_over(
    link: &impl Link,
    request: v1::RegisterNodeRequest,
    leader: &str,
) -> Result<v1::RegisterNodeReply, LinkError> {
    let cluster_id = request.cluster_id.clone();
    let reply = link.register(request).await?;
    if !cluster_id.is_empty() && cluster_id != reply.cluster_id {
        let message = format!(
            "{leader} belongs to cluster {}, this worker to {cluster_id}: name its own controllers, or move it with \
             --reset-journal",
            reply.cluster_id
        );
        return Err(LinkError::Refused(FabricRefusal::new(Code::Invalid, message)));
    }
    Ok(reply)
}

/// The facts with what the machine says now, and the address it is reached from. Files are read off the runtime's threads.
async fn with_machine(facts: Option<v1::NodeFacts>, local_ip: Option<IpAddr>) -> Option<v1::NodeFacts> {
    let mut facts = facts?;
    if let Some(ip) = local_ip.filter(|_| facts.address.is_empty()) {
        facts.address = ip.to_string();
    }
    let before = facts.clone();
    let refreshed = tokio::task::spawn_blocking(move || {
        facts::refresh(&mut facts);
        facts
    });
    Some(refreshed.await.unwrap_or(before))
}
