//! `gridc status` and `gridc role`: show the status of the cluster, as one controller sees it.

use std::collections::BTreeMap;

use grid_types::api::{RoleDoc, StatusDoc};

use crate::cli::{Format, Global};
use crate::connect::connect;
use crate::failure::Failure;
use crate::out;
use crate::table::facts;
use crate::text::one_line;

pub async fn status(global: &Global) -> Result<u8, Failure> {
    let status = connect(global)?.status().await?;
    out::print(global.output.unwrap_or(Format::Table), &status, |_| status_text(&status))?;
    Ok(0)
}

pub async fn role(global: &Global) -> Result<u8, Failure> {
    let role = connect(global)?.role().await?;
    out::print(global.output.unwrap_or(Format::Table), &role, |_| facts(&role_facts(&role)))?;
    Ok(0)
}

fn status_text(status: &StatusDoc) -> String {
    // First: nothing else that is shown here goes on.
    let superseded = status.superseded.as_ref().map(|it| ("superseded", crate::members::superseded_text(it)));
    let mut rows: Vec<_> = superseded.into_iter().collect();
    rows.extend([("cluster", one_line(&status.cluster_id)), ("version", one_line(&status.version))]);
    rows.extend(role_facts(&status.role));
    rows.push(("nodes", tally(&status.nodes)));
    rows.push(("jobs", tally(&status.jobs)));
    rows.push(("applied index", status.applied_index.to_string()));
    if let Some(problem) = &status.snapshot_problem {
        rows.push(("snapshots", one_line(problem)));
    }
    if let Some(problem) = &status.dispatch_problem {
        rows.push(("dispatch", format!("paused while it leads: {}", one_line(problem))));
    }
    if let Some(refused) = refused_text(&status.refused) {
        rows.push(("refused", refused));
    }
    facts(&rows)
}

fn role_facts(role: &RoleDoc) -> Vec<(&'static str, String)> {
    let text = |value: &Option<String>| one_line(value.as_deref().unwrap_or_default());
    vec![
        ("controller", one_line(&role.node_id)),
        ("role", role.role.word().to_owned()),
        ("leader", text(&role.leader_id)),
        ("leader url", text(&role.leader_url)),
        ("leader epoch", role.leader_epoch.map(|epoch| epoch.to_string()).unwrap_or_default()),
    ]
}

/// `3 ready, 1 dead`; what is zero is left out.
fn tally(counts: &BTreeMap<String, u64>) -> String {
    let told: Vec<_> =
        counts.iter().filter(|(_, n)| **n > 0).map(|(word, n)| format!("{n} {}", one_line(word))).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

/// `raft: 3 not_a_member; grpc: 1 too_large`; nothing if nothing was refused.
fn refused_text(ports: &BTreeMap<String, BTreeMap<String, u64>>) -> Option<String> {
    let told: Vec<_> = ports.iter().map(|(port, kinds)| format!("{}: {}", one_line(port), tally(kinds))).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::refused_text;

    #[test]
    fn refusals_are_one_line_by_port() {
        let kinds = |kind: &str, n| BTreeMap::from([(kind.to_owned(), n)]);
        let ports =
            BTreeMap::from([("raft".to_owned(), kinds("not_a_member", 3)), ("grpc".to_owned(), kinds("too_large", 1))]);
        assert_eq!(refused_text(&ports).as_deref(), Some("grpc: 1 too_large; raft: 3 not_a_member"));
        assert_eq!(refused_text(&BTreeMap::new()), None);
    }
}
