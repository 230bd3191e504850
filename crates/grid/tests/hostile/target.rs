//! What an unauthenticated attacker can learn about a controller: its ports, and what the API shows.

use grid_testkit::Trio;

/// One controller as seen from outside.
pub struct Target {
    pub api: u16,
    pub raft: u16,
    pub grpc: u16,
    pub cluster_id: String,
    /// Of every member, this one first.
    pub raft_ids: Vec<u64>,
    /// The ids of the real workers.
    pub nodes: Vec<String>,
}

pub fn all(trio: &mut Trio) -> Vec<Target> {
    let cluster = trio.get("/api/v1/cluster").json();
    let members = cluster["members"].as_array().expect("members").clone();
    let cluster_id = cluster["cluster_id"].as_str().expect("a cluster id").to_owned();
    let nodes: Vec<String> = trio.workers.keys().cloned().collect();
    let of = |id: &str| members.iter().find(|m| m["id"] == id).and_then(|m| m["raft_id"].as_u64()).expect("a raft id");
    let ids: Vec<String> = trio.servers.keys().cloned().collect();
    let targets = trio.servers.iter().map(|(id, server)| {
        let others = ids.iter().filter(|other| *other != id).map(|other| of(other));
        Target {
            api: server.api_port(),
            raft: server.raft_port(),
            grpc: server.grpc_port(),
            cluster_id: cluster_id.clone(),
            raft_ids: std::iter::once(of(id)).chain(others).collect(),
            nodes: nodes.clone(),
        }
    });
    targets.collect()
}
