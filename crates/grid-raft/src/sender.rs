//! Who calls: shown by the caller in a header of every call, checked before anything of the body is read.
//!
//! E3. A caller is accepted if
//!
//! - it names this cluster and this member, and
//! - the newest membership here lists it with the folder id that it shows; or, where that does not list it, it shows the folder id
//!   of *this* member, which only members know, and its own newest membership is newer than the newest committed one here.
//!
//! The second is for a member that lags behind the entry that added the caller: its vote may be the one that is needed, and a
//! learner's log is empty at first. Committed memberships are final, so that a caller which they lack, and whose own knowledge is
//! not newer (by term, then by index), was removed. It may still probe: that is how it learns of its removal.
//!
//! Folder ids are random, 128 bits long, shown by no API and never logged. They are no substitute for certificates: anybody who
//! reads the traffic, a data folder or a backup has them.
//! A refusal is the same whatever was wrong, so that it confirms no id; the log of the member that refuses says what it was. It carries
//! the leader epoch (E2) with a proof that only somebody who knows the cluster id can make or check: a member from before a restore
//! learns from it that it was superseded.
//! Not here: what a member may say (`bounds`).

use grid_proto::refusals::Kind;
use grid_proto::{Foreign, peer};
use prost::Message;
use tonic::metadata::{Binary, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::group::Member;
use crate::start::Started;
use crate::wire;

pub const SENDER_KEY: &str = "grid-sender-bin";
const EPOCH_KEY: &str = "grid-epoch";
const PROOF_KEY: &str = "grid-epoch-proof";
/// Ids are 32 characters; a header that is longer than this in all is not read.
const MAX_SENDER_BYTES: usize = 512;
const REFUSED: &str = "this member does not accept the sender; its own log says why";

/// The calls, as far as their checks differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Append,
    Snapshot,
    Probe,
    Other,
}

impl Method {
    pub fn of(path: &str) -> Self {
        match path {
            "/grid.peer.v1.Peer/Append" => Self::Append,
            "/grid.peer.v1.Peer/Snapshot" => Self::Snapshot,
            "/grid.peer.v1.Peer/Probe" => Self::Probe,
            _ => Self::Other,
        }
    }
}

/// Puts the sender into every call.
#[derive(Clone)]
pub struct Show(MetadataValue<Binary>);

impl Show {
    pub fn new(sender: &peer::Sender) -> Self {
        Self(MetadataValue::from_bytes(&sender.encode_to_vec()))
    }
}

impl Interceptor for Show {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert_bin(SENDER_KEY, self.0.clone());
        Ok(request)
    }
}

/// As the headers of a call show it.
pub fn shown_in(headers: &MetadataMap) -> Option<peer::Sender> {
    let bytes = headers.get_bin(SENDER_KEY)?.to_bytes().ok()?;
    if bytes.len() > MAX_SENDER_BYTES {
        return None;
    }
    peer::Sender::decode(bytes).ok()
}

/// The member that calls; an extension of the request.
#[derive(Debug, Clone, Copy)]
pub struct Caller(pub u64);

pub type Refused = (Kind, String);

impl Started {
    pub async fn accept_sender(&self, sender: &peer::Sender, method: Method) -> Result<Caller, Refused> {
        let me = self.peers.me();
        if !is_same(&sender.cluster_id, &me.cluster_id) {
            let cluster = Foreign(&sender.cluster_id);
            return Err((Kind::OtherCluster, format!("the sender is of cluster {cluster}; correct its addresses")));
        }
        if sender.target != me.raft_id {
            let what = "the sender looks for another member here; two members may have been given one address";
            return Err((Kind::OtherTarget, what.to_owned()));
        }
        let membership = self.membership();
        let listed = membership.get_node(&sender.raft_id).filter(|_| sender.raft_id != me.raft_id);
        let from = sender.raft_id;
        match listed.map(|member: &Member| member.folder_id.as_str()) {
            Some(folder) if is_same(folder, &sender.folder_id) && !folder.is_empty() => return Ok(Caller(from)),
            Some(folder) if !folder.is_empty() => {
                let what =
                    format!("a sender under the id of member {from} has another folder; put its own folder back");
                return Err((Kind::OtherFolder, what));
            }
            _ => {}
        }
        if from == me.raft_id || !is_same(&sender.target_folder, &me.folder_id) {
            return Err((Kind::NotAMember, format!("the sender {from} is not a member")));
        }
        let unlisted_at = self.unlisted_at(from).await.map_err(|e| (Kind::NotAMember, e.to_string()))?;
        match unlisted_at {
            Some(at) if method != Method::Probe && sender.members.map(wire::from_log_id) <= Some(at) => {
                Err((Kind::NotAMember, format!("the sender {from} was removed")))
            }
            _ => Ok(Caller(from)),
        }
    }
}

/// The refusal, for a caller that shows `raft_id`.
pub fn refusal(cluster_id: &str, epoch: u64, raft_id: u64) -> Status {
    let mut status = Status::failed_precondition(REFUSED);
    let metadata = status.metadata_mut();
    if let (Ok(epoch_text), Ok(proof)) = (epoch.to_string().parse(), proof(cluster_id, epoch, raft_id).parse()) {
        metadata.insert(EPOCH_KEY, epoch_text);
        metadata.insert(PROOF_KEY, proof);
    }
    status
}

/// The leader epoch of the cluster that refuses, if that is this cluster.
pub fn epoch_in(status: &Status, cluster_id: &str, raft_id: u64) -> Option<u64> {
    let text = |key| status.metadata().get(key)?.to_str().ok();
    let epoch = text(EPOCH_KEY)?.parse().ok()?;
    is_same(text(PROOF_KEY)?, &proof(cluster_id, epoch, raft_id)).then_some(epoch)
}

fn proof(cluster_id: &str, epoch: u64, raft_id: u64) -> String {
    let key = blake3::derive_key("grid peer refusal", cluster_id.as_bytes());
    blake3::keyed_hash(&key, format!("{epoch} {raft_id}").as_bytes()).to_hex().to_string()
}

/// Takes as long for any two texts of one length: how long it takes tells nothing of what is right.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use grid_proto::peer;

    use super::{Method, epoch_in, is_same, refusal};
    use crate::config::Start;
    use crate::file_machine::{Home, lead};
    use crate::group::Member;

    /// It was cut off while it led, and has a membership at a higher index that was never committed.
    #[test]
    fn e3_a_removed_leader_with_a_longer_log_is_refused() {
        Home::new().run(Start::Bootstrap, async |raft| {
            lead(&raft).await;
            let member = &raft.member;
            member.admit(2, Member { folder_id: "f2".into(), ..Member::default() }, false).await.expect("added");
            member.remove(2).await.expect("removed");
            let at = member.unlisted_at(2).await.expect("runs").expect("a committed membership without it");
            let me = member.peers.me();
            let sender = |term, index| peer::Sender {
                cluster_id: me.cluster_id.clone(),
                raft_id: 2,
                folder_id: "f2".into(),
                target: me.raft_id,
                target_folder: me.folder_id.clone(),
                members: Some(peer::LogId { term, index }),
                ..peer::Sender::default()
            };
            let term = at.leader_id.term;
            let refused = [(term - 1, at.index + 100), (term, at.index), (0, 0)];
            for (term, index) in refused {
                let sender = sender(term, index);
                assert!(member.accept_sender(&sender, Method::Other).await.is_err(), "{term} {index}");
                assert!(member.accept_sender(&sender, Method::Probe).await.is_ok(), "it may learn of its removal");
            }
            for (term, index) in [(term, at.index + 1), (term + 1, at.index - 1)] {
                let added_later = member.accept_sender(&sender(term, index), Method::Other).await;
                assert!(added_later.is_ok(), "{term} {index}");
            }
        });
    }

    #[test]
    fn e2_only_a_refusal_of_the_same_cluster_tells_its_epoch() {
        let status = refusal("abc", 7 << 32 | 3, 1);
        assert_eq!(epoch_in(&status, "abc", 1), Some(7 << 32 | 3));
        assert_eq!(epoch_in(&status, "other", 1), None);
        assert_eq!(epoch_in(&status, "abc", 2), None, "it was not for this member");
        assert!(!format!("{status:?}").contains("abc"), "it tells no id");
        assert!(is_same("abc", "abc") && !is_same("abc", "abd") && !is_same("abc", "ab"));
    }
}
