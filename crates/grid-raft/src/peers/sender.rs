//! Writes and reads the header that names the sender of a call, and the answer to a sender that is refused.
//!
//! A refusal is the same whatever was wrong, so that it confirms no id; the log of the member that refuses says what it was. It carries
//! the leader epoch (E2) with a proof that only somebody who knows the cluster id can make or check: a member from before a restore
//! learns from it that it was superseded.
//! Not here: the check of a sender (`member::callers`), what a member may say (`bounds`).

use grid_proto::peer;
use grid_proto::refusals::Kind;
use prost::Message;
use tonic::metadata::{Binary, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

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
pub fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::{epoch_in, is_same, refusal};

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
