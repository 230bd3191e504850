//! From nothing to registered: find the leader, dial it, register. Never gives up, except where the leader says that this
//! worker must not be.
//!
//! W1: DUPLICATE_NODE is retried for as long as the leader says that it needs, after a crash, to notice that the old
//! session is dead; then the leader's message, with the way out, ends the worker. E3: so does a controller of another
//! cluster, after [`REFUSED_PATIENCE`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grid_fabric::{Dialer, FabricRefusal, Link, LinkError};
use grid_proto::v1;
use grid_types::Code;
use tokio::time::Instant;

use crate::config::WorkerError;
use crate::directory::{Directory, fabric_address};

const FIRST_PAUSE_MS: u64 = 100;
const LONGEST_PAUSE_MS: u64 = 3_000;
/// What a controller that does not say how long gets.
const REFUSED_PATIENCE: Duration = Duration::from_secs(20);
/// More controllers than any cluster has.
const MOST_LEARNED: usize = 16;
/// The same trouble is told again after this.
const TELL_AGAIN: Duration = Duration::from_secs(15);

/// A registered session, its stream not open yet.
pub(crate) struct Connected<L> {
    pub(crate) link: L,
    pub(crate) reply: v1::RegisterNodeReply,
    pub(crate) leader: String,
}

/// How to reach controllers.
pub(crate) struct Connector<D, R> {
    pub(crate) dialer: D,
    pub(crate) directory: R,
    pub(crate) servers: Vec<String>,
    /// What controllers said of each other: the ones this worker was given may all be gone one day.
    pub(crate) learned: Mutex<Vec<String>>,
}

/// One registration to be made.
pub(crate) struct Registration {
    pub(crate) request: v1::RegisterNodeRequest,
    /// API URL to ask first.
    pub(crate) hint: Option<String>,
    /// Attempts that failed right before this one.
    pub(crate) failures: u32,
    /// Registered before: what the leader finds wrong now is not this worker's configuration.
    pub(crate) known: bool,
}

impl<D: Dialer, R: Directory> Connector<D, R> {
    pub(crate) async fn connect(self: Arc<Self>, mut asked: Registration) -> Result<Connected<D::Link>, WorkerError> {
        let mut duplicate_since: Option<Instant> = None;
        let mut told: Option<Instant> = None;
        loop {
            if asked.failures > 0 {
                tokio::time::sleep(pause(asked.failures)).await;
            }
            asked.failures += 1;
            let trouble = match self.attempt(&mut asked).await {
                Ok(connected) => return Ok(connected),
                Err(trouble) => trouble,
            };
            if let LinkError::Refused(refusal) = &trouble {
                check_patience(refusal, asked.known, &mut duplicate_since)?;
            }
            if told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
                told = Some(Instant::now());
                tracing::warn!("not connected: {trouble}; trying again");
            }
        }
    }

    /// Asks one server after the other for the leader, and registers with the first that is told.
    async fn attempt(&self, asked: &mut Registration) -> Result<Connected<D::Link>, LinkError> {
        let mut trouble = LinkError::Unreachable("no server is configured".to_owned());
        let hint = asked.hint.take();
        let learned = self.learned();
        let mut asked_already = BTreeSet::new();
        for server in hint.iter().chain(&self.servers).chain(&learned) {
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
                trouble = LinkError::Unreachable(format!("{server} knows no leader yet"));
                continue;
            };
            let mut request = asked.request.clone();
            if let (Some(facts), Some(ip)) = (&mut request.facts, found.local_ip)
                && facts.address.is_empty()
            {
                facts.address = ip.to_string();
            }
            match self.register(&address, request).await {
                Ok((link, reply)) => return Ok(Connected { link, reply, leader: address }),
                Err(error) => trouble = error,
            }
            if let LinkError::Refused(refusal) = &trouble {
                asked.hint.clone_from(&refusal.leader_url);
                return Err(trouble);
            }
        }
        Err(trouble)
    }

    fn learned(&self) -> Vec<String> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn learn(&self, controllers: &[String]) {
        let told = &controllers[..controllers.len().min(MOST_LEARNED)];
        let mut known = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.is_empty() && *known != told {
            tracing::info!(controllers = told.join(","), "knows these controllers");
            *known = told.to_vec();
        }
    }

    async fn register(
        &self,
        address: &str,
        request: v1::RegisterNodeRequest,
    ) -> Result<(D::Link, v1::RegisterNodeReply), LinkError> {
        let link = self.dialer.dial(address).await?;
        let cluster_id = request.cluster_id.clone();
        let reply = link.register(request).await?;
        if !cluster_id.is_empty() && cluster_id != reply.cluster_id {
            let message = format!(
                "{address} belongs to cluster {}, this worker to {cluster_id}: name its own controllers, or move it with \
                 --reset-journal",
                reply.cluster_id
            );
            return Err(LinkError::Refused(FabricRefusal::new(Code::Invalid, message)));
        }
        Ok((link, reply))
    }
}

fn check_patience(
    refusal: &FabricRefusal,
    known: bool,
    duplicate_since: &mut Option<Instant>,
) -> Result<(), WorkerError> {
    let refused = || Err(WorkerError::Refused(refusal.message.clone()));
    match refusal.code {
        Code::DuplicateNode | Code::Conflict => {
            let since = duplicate_since.get_or_insert_with(Instant::now);
            let said = refusal.passes_within_ms.map(Duration::from_millis);
            if since.elapsed() >= said.unwrap_or_default().max(REFUSED_PATIENCE) { refused() } else { Ok(()) }
        }
        Code::Invalid | Code::BadRequest if !known => refused(),
        _ => Ok(()),
    }
}

/// Doubles from attempt to attempt, with half of it random: a fleet must not come back in step.
fn pause(failures: u32) -> Duration {
    let full = FIRST_PAUSE_MS.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_PAUSE_MS);
    let random = getrandom::u64().unwrap_or(0) % (full / 2 + 1);
    Duration::from_millis(full / 2 + random)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grid_fabric::FabricRefusal;
    use grid_types::Code;
    use tokio::time::Instant;

    use super::check_patience;

    #[test]
    fn w1_a_duplicate_is_waited_for_as_long_as_the_leader_says() {
        let mut since = Instant::now().checked_sub(Duration::from_secs(30));
        assert!(since.is_some(), "this machine has just been started");
        let plain = FabricRefusal::new(Code::DuplicateNode, "twice");
        let patient = FabricRefusal { passes_within_ms: Some(90_000), ..plain.clone() };
        assert!(check_patience(&patient, true, &mut since).is_ok());
        assert!(check_patience(&plain, true, &mut since).is_err(), "a controller that does not say");
        let short = FabricRefusal { passes_within_ms: Some(25_000), ..plain };
        assert!(check_patience(&short, true, &mut since).is_err());
    }
}
