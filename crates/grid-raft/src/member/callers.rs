//! Decides whether a caller on the peer port is a member.
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
//! Not here: the header that shows the caller (`peers::sender`), what a member may say (`bounds`).

use grid_proto::refusals::Kind;
use grid_proto::{Foreign, peer};

use crate::group::Member;
use crate::member::RunningMember;
use crate::peers::sender::{Caller, Method, Refused, is_same};
use crate::peers::wire;

impl RunningMember {
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

#[cfg(test)]
mod tests {
    use grid_proto::peer;

    use crate::config::Start;
    use crate::file_machine::{Home, lead};
    use crate::group::Member;
    use crate::member::membership::Namesake;
    use crate::peers::sender::Method;

    /// It was cut off while it led, and has a membership at a higher index that was never committed.
    #[test]
    fn e3_a_removed_leader_with_a_longer_log_is_refused() {
        Home::new().run(Start::Bootstrap, async |raft| {
            lead(&raft).await;
            let member = &raft.member;
            member
                .admit(2, Member { folder_id: "f2".into(), ..Member::default() }, Namesake::Refuse)
                .await
                .expect("added");
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
}
