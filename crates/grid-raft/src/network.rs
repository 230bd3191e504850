//! How members talk to each other: they do not yet.
//!
//! A one-member group never calls this. Should a group have more members, each
//! call answers that the peer cannot be reached, which openraft treats as a
//! member that is down: safe, and visible.
//! Not here: a transport. It replaces [`NoPeers`] and nothing else.

use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use openraft::{RaftNetwork, RaftNetworkFactory};

use crate::group::{Group, Member};

pub struct NoPeers;

impl RaftNetworkFactory<Group> for NoPeers {
    type Network = NoPeer;

    async fn new_client(&mut self, target: u64, member: &Member) -> NoPeer {
        NoPeer { target, address: member.address.clone() }
    }
}

pub struct NoPeer {
    target: u64,
    address: String,
}

impl NoPeer {
    fn unreachable<E: std::error::Error>(&self) -> RPCError<u64, Member, E> {
        let reason = NoTransport(format!(
            "member {} at {} cannot be reached: this program runs one-member groups only",
            self.target, self.address
        ));
        RPCError::Unreachable(Unreachable::new(&reason))
    }
}

impl RaftNetwork<Group> for NoPeer {
    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<Group>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        Err(self.unreachable())
    }

    async fn install_snapshot(
        &mut self,
        _request: InstallSnapshotRequest<Group>,
        _option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RPCError<u64, Member, RaftError<u64, InstallSnapshotError>>> {
        Err(self.unreachable())
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        Err(self.unreachable())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoTransport(String);
