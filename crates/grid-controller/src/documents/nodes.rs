//! Documents of nodes.

use grid_store::NodeRow;
use grid_types::api::NodeDoc;

use crate::time::time_text;

pub fn node(row: NodeRow) -> NodeDoc {
    let facts = row.facts;
    let backends = facts.backends.into_iter().map(|(name, actions)| (name, actions.into_iter().collect()));
    NodeDoc {
        id: row.id.into(),
        hostname: facts.hostname,
        address: facts.address,
        groups: facts.groups.into_iter().map(String::from).collect(),
        labels: facts.labels,
        backends: backends.collect(),
        os: facts.os,
        arch: facts.arch,
        capacity: facts.capacity,
        version: facts.version,
        facts: facts.facts,
        status: row.status.word().to_owned(),
        state: row.status.word().to_owned(),
        ordinal: row.ord.0,
        session: row.session.0,
        drained: row.drained,
        agent: row.agent,
        leases: row.leases,
        last_seen: time_text(row.seen_wall_ms),
        registered_at: time_text(row.registered_wall_ms),
        leader_epoch: row.leader_epoch.wire(),
    }
}
