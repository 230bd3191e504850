//! Connects to the other members: one connection for the log, one for
//! snapshots, kept open and dialled again when lost.
//!
//! E3: every request names the cluster, the sender with its folder, and whom it
//! is meant for (`sender`). A member that refuses is logged with the reason,
//! not more than once in [`REPORT_AGAIN_AFTER`].
//! Not here: what is said (`network`, `member`), what is answered
//! (`peer_port`).
//! Snapshots have a connection of their own: on a shared one a heartbeat would
//! wait behind megabytes. Keep-alive is much shorter than the worker's: a
//! connection through a healed partition may otherwise sit in TCP's
//! retransmission for seconds while new ones would pass.

pub mod contact;
pub mod epochs;
#[cfg(test)]
mod fuzz;
pub mod network;
pub mod sender;
pub mod wire;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grid_proto::peer::peer_client::PeerClient;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::{Foreign, causes, peer};
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::bounds::{Known, OutOfBounds};
use crate::config::MAX_APPEND_BYTES;
use crate::data_dir::local_member::LocalMember;
use crate::group::{Member, position_of};
use crate::peers::contact::Contact;
use crate::peers::epochs::PlausibleEpochs;
use crate::peers::sender::{Show, epoch_in};

/// The largest answer, to a probe, has a description of a program.
const MAX_REPLY_BYTES: usize = 256 << 10;
pub const WINDOW_BYTES: u32 = 4 << 20;
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(1_000);
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(1_500);
const CONNECT_LIMIT: Duration = Duration::from_millis(700);
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// A caller can use any id, so the record of reported members is bounded.
const MAX_REPORTED: usize = 64;
/// A member is reported as lost after this.
const LOST_AFTER: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    Log,
    Bulk,
}

/// Clones share it.
#[derive(Clone)]
pub struct Peers(Arc<Inner>);

struct Inner {
    me: LocalMember,
    contact: Contact,
    /// With the address each was dialled at.
    channels: Mutex<HashMap<(u64, Lane), (String, Channel)>>,
    /// Who refuses this member.
    refusing: Reported,
    lost: Mutex<HashSet<u64>>,
    /// E2: the leader epoch of this member's cluster, and the highest that another one of the same cluster has shown.
    epoch: AtomicU64,
    /// Which higher epochs restores can explain; none before this member's own epoch is known.
    plausible: Mutex<Option<PlausibleEpochs>>,
    shown: watch::Sender<(u64, String)>,
    /// What is known here: term and newest membership, and the log.
    seen: OnceLock<(watch::Receiver<ServerMetrics>, watch::Receiver<DataMetrics>)>,
}

/// To one member, with the sender shown in every call.
pub type Client = PeerClient<InterceptedService<Channel, Show>>;
type ServerMetrics = openraft::metrics::RaftServerMetrics<u64, Member>;
type DataMetrics = openraft::metrics::RaftDataMetrics<u64>;

impl Peers {
    pub fn new(me: LocalMember) -> Self {
        Self(Arc::new(Inner {
            me,
            contact: Contact::default(),
            channels: Mutex::default(),
            refusing: Reported::default(),
            lost: Mutex::default(),
            epoch: AtomicU64::new(0),
            plausible: Mutex::default(),
            shown: watch::Sender::default(),
            seen: OnceLock::new(),
        }))
    }

    pub fn me(&self) -> &LocalMember {
        &self.0.me
    }

    pub fn contact(&self) -> &Contact {
        &self.0.contact
    }

    /// From where this member's own term, membership and log are known; said once.
    pub fn follow(&self, server: watch::Receiver<ServerMetrics>, data: watch::Receiver<DataMetrics>) {
        let _ = self.0.seen.set((server, data));
    }

    /// By which the messages of others are judged.
    pub fn known(&self) -> Known {
        let me = self.0.me.raft_id;
        let Some((server, data)) = self.0.seen.get() else {
            return Known { me, term: 0, last_index: 0, applied: None };
        };
        let term = server.borrow().vote.leader_id.term;
        let data = data.borrow();
        let applied = data.last_applied.as_ref().map(position_of);
        Known { me, term, last_index: data.last_log.map_or(0, |last| last.index), applied }
    }

    fn sender(&self, target: u64, target_folder: &str) -> peer::Sender {
        let LocalMember { raft_id, folder_id, cluster_id, .. } = self.0.me.clone();
        let members = |server: &ServerMetrics| server.membership_config.log_id().as_ref().map(wire::log_id);
        let members = self.0.seen.get().and_then(|(server, _)| members(&server.borrow()));
        peer::Sender {
            cluster_id,
            raft_id,
            folder_id,
            target,
            target_folder: target_folder.to_owned(),
            members,
            leader_epoch: self.epoch(),
            had: self.0.contact.floor(target).as_ref().map(wire::log_id),
        }
    }

    pub fn set_epoch(&self, epoch: u64, plausible: PlausibleEpochs) {
        *self.0.plausible.lock().unwrap_or_else(PoisonError::into_inner) = Some(plausible);
        self.0.epoch.store(epoch, Ordering::Relaxed);
    }

    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Relaxed)
    }

    /// The highest leader epoch above this member's own that another member of its cluster has shown, and who did.
    pub fn shown_epoch(&self) -> watch::Receiver<(u64, String)> {
        self.0.shown.subscribe()
    }

    /// Records the leader epoch that a member of the same cluster has applied, unless no restore can explain it.
    pub fn note_epoch(&self, epoch: u64, member: u64) {
        let plausible = *self.0.plausible.lock().unwrap_or_else(PoisonError::into_inner);
        // Members repeat their epoch with every call.
        let Some(plausible) = plausible.filter(|_| epoch > self.epoch()) else { return };
        if !plausible.contains(epoch) {
            refuse(Port::Raft, Kind::GenerationTooHigh, format_args!("member {member} shows leader epoch {epoch}"));
        } else {
            self.0.shown.send_if_modified(|shown| {
                let is_news = epoch > shown.0;
                if is_news {
                    *shown = (epoch, format!("controller with member id {member}"));
                }
                is_news
            });
        }
    }

    /// Connected when it is first used.
    pub fn client(&self, target: u64, member: &Member, lane: Lane) -> Result<Client, Status> {
        let address = &member.address;
        let mut channels = self.0.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = channels.get(&(target, lane)).filter(|(dialled, _)| dialled == address);
        let channel = match known {
            Some((_, channel)) => channel.clone(),
            None => {
                let channel = endpoint(address)?.connect_lazy();
                channels.insert((target, lane), (address.to_owned(), channel.clone()));
                channel
            }
        };
        let show = Show::new(&self.sender(target, &member.folder_id));
        Ok(PeerClient::with_interceptor(channel, show)
            .max_decoding_message_size(MAX_REPLY_BYTES)
            .max_encoding_message_size(MAX_APPEND_BYTES))
    }

    /// Notes that `target` answered a request sent at `sent`, or why it did not.
    pub fn note<T>(&self, target: u64, sent: Instant, answer: &Result<T, Status>) {
        match answer {
            Ok(_) => {
                self.0.contact.answered(target, sent);
                if self.lost().remove(&target) {
                    tracing::info!("member {target} answers again");
                }
            }
            Err(status) if status.code() == Code::FailedPrecondition => {
                let shown = epoch_in(status, &self.0.me.cluster_id, self.0.me.raft_id);
                self.note_epoch(shown.unwrap_or(0), target);
                let reason = Foreign(status.message()).to_string();
                if self.0.refusing.is_news(target, &reason) {
                    tracing::warn!("member {target} refuses this one: {reason}");
                }
            }
            Err(status) if self.0.contact.hears(target, LOST_AFTER) => {
                tracing::debug!("member {target} did not answer: {}", Foreign(&causes(status)));
            }
            Err(status) => {
                if self.lost().insert(target) {
                    tracing::warn!("member {target} does not answer: {}", Foreign(&causes(status)));
                }
            }
        }
    }

    fn lost(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs, now and then, that nothing is replicated to a member.
    pub fn note_not_replicated(&self, target: u64, reason: &str) {
        if self.0.refusing.is_news(target, reason) {
            tracing::warn!("member {target}: {reason}");
        }
    }
}

/// What was logged about each member, and when.
#[derive(Default)]
struct Reported(Mutex<HashMap<u64, (String, Instant)>>);

impl Reported {
    fn is_news(&self, member: u64, reason: &str) -> bool {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.get(&member).is_some_and(|(before, at)| before == reason && at.elapsed() <= REPORT_AGAIN_AFTER) {
            return false;
        }
        if reported.len() >= MAX_REPORTED {
            reported.clear();
        }
        reported.insert(member, (reason.to_owned(), Instant::now()));
        true
    }
}

/// Counts a message of another member that is out of bounds.
pub fn refused((kind, what): OutOfBounds) -> Status {
    refuse(Port::Raft, kind, format_args!("a member's message: {what}"));
    Status::invalid_argument(what)
}

fn endpoint(address: &str) -> Result<Endpoint, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|e| Status::invalid_argument(format!("{address:?} is no address of a member: {e}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT_LIMIT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES))
}

#[cfg(test)]
mod tests {
    use super::{MAX_REPORTED, Reported};

    #[test]
    fn the_same_reason_is_logged_once_and_another_one_at_once() {
        let reported = Reported::default();
        assert!(reported.is_news(1, "another cluster"));
        assert!((0..1_000).all(|_| !reported.is_news(1, "another cluster")));
        assert!(reported.is_news(1, "another folder") && reported.is_news(2, "another folder"));
        for stranger in 0..10_000 {
            reported.is_news(stranger, "who?");
        }
        assert!(reported.0.lock().unwrap().len() <= MAX_REPORTED);
    }
}
