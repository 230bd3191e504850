//! Suggests names that only the cluster knows ("did you mean"): jobs, nodes, groups, labels.
//!
//! Asked after something was not found, and only then; a controller that cannot answer within [`PATIENCE`] is not waited for. A name
//! is never replaced by a guess: to cancel the job that was nearly named would be worse than an error.

use std::time::Duration;

use grid_client::{Client, Error, JobsQuery, Options};
use grid_types::Name;
use grid_types::api::NodeDoc;
use grid_types::job::Target;

use crate::aim;
use crate::cli::{Global, JobVerb, NodeVerb, Verb};
use crate::failure::Failure;
use crate::suggest::nearest;
use crate::text::one_line;

const PATIENCE: Duration = Duration::from_secs(1);
const JOBS: u32 = 200;
const NODES: u32 = 1_000;

/// What a command line names.
#[derive(Debug, PartialEq, Eq)]
pub enum Named {
    Job(String),
    Node(String),
    /// As it was typed.
    Target(String),
}

pub fn named(verb: &Verb) -> Option<Named> {
    // What does not even look like an id is no slip of the pen.
    let job = |id: &String| Some(id).filter(|id| id.starts_with("job-")).map(|id| Named::Job(id.clone()));
    match verb {
        Verb::Run(args) => Some(Named::Target(args.target.clone())),
        Verb::Job(JobVerb::Outputs(args)) => job(&args.id),
        Verb::Job(JobVerb::Run(args)) => args.target.clone().map(Named::Target),
        Verb::Job(JobVerb::Plan(args)) => args.target.clone().map(Named::Target),
        Verb::Node(NodeVerb::List { target }) => target.clone().map(Named::Target),
        Verb::Job(
            JobVerb::Get { id, .. } | JobVerb::Cancel { id, .. } | JobVerb::Resolve { id, .. } | JobVerb::Why { id },
        ) => job(id),
        Verb::Job(JobVerb::Wait(args)) => job(&args.id),
        Verb::Job(JobVerb::Status(args)) => job(&args.id),
        Verb::Job(JobVerb::Confirm { id, .. }) => id.as_ref().and_then(job),
        Verb::Job(JobVerb::Resume(args) | JobVerb::Retry(args)) => job(&args.id),
        Verb::Node(NodeVerb::Info { id } | NodeVerb::Remove { id, .. }) => Some(Named::Node(id.clone())),
        Verb::Node(NodeVerb::Drain(args)) => Some(Named::Node(args.id.clone())),
        _ => None,
    }
}

/// The nearest name that is there, if what failed is that this one is not.
pub async fn meant(global: &Global, named: &Named, failure: &Failure) -> Option<String> {
    let missing = match named {
        Named::Job(_) | Named::Node(_) => failure.exit_code() == 4,
        Named::Target(_) => match failure {
            Failure::Client(Error::Refused(refusal)) => refusal.details.iter().any(|fault| fault.field == "target"),
            Failure::Invalid { faults, .. } => faults.iter().any(|fault| fault.field == aim::TARGET),
            _ => false,
        },
    };
    if !missing {
        return None;
    }
    let client = Client::new(global.server.0.clone(), Options { patience: PATIENCE }).ok()?;
    let client = client.with_token(global.token.clone());
    let found = tokio::time::timeout(2 * PATIENCE, near(&client, global.namespace.as_str(), named)).await.ok()??;
    Some(one_line(&found))
}

async fn near(client: &Client, namespace: &str, named: &Named) -> Option<String> {
    match named {
        Named::Job(id) => {
            let query = JobsQuery { limit: Some(JOBS), ..JobsQuery::default() };
            let jobs = client.jobs(namespace, &query).await.ok()?.items;
            nearest_job(id, jobs.iter().map(|job| job.id.as_str()))
        }
        Named::Node(id) => {
            let nodes = client.nodes(None, None, Some(NODES)).await.ok()?.items;
            nearest(id, nodes.iter().map(|node| node.id.as_str())).filter(|near| near != id).map(str::to_owned)
        }
        Named::Target(target) => nearest_target(target, &client.nodes(None, None, Some(NODES)).await.ok()?.items),
    }
}

/// Ids of one day begin alike, so that likeness says little: what differs in more than two places is another job.
fn nearest_job<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let off = known.map(|known| (strsim::damerau_levenshtein(id, known), known));
    // The job itself is there: what was not found is something of it.
    off.filter(|(off, _)| *off <= 2).min().filter(|(off, _)| *off > 0).map(|(_, known)| known.to_owned())
}

fn nearest_target(typed: &str, nodes: &[NodeDoc]) -> Option<String> {
    let Ok(target) = typed.parse::<Target>() else { return bare_name(typed, nodes) };
    let value = target.value()?;
    match target {
        Target::Group(_) => {
            let groups = nodes.iter().flat_map(|node| node.groups.iter().map(String::as_str));
            let is_node = nodes.iter().any(|node| node.id == value);
            if is_node {
                Some(format!("node:{value}"))
            } else {
                nearest(&value, groups).map(|group| format!("group:{group}"))
            }
        }
        Target::Node(_) => {
            let ids = nodes.iter().map(|node| node.id.as_str());
            let is_group = nodes.iter().any(|node| node.groups.contains(&value));
            if is_group { Some(format!("group:{value}")) } else { nearest(&value, ids).map(|id| format!("node:{id}")) }
        }
        Target::Labels(_) => {
            let labels: Vec<String> =
                nodes.iter().flat_map(|node| node.labels.iter().map(|(key, text)| format!("{key}={text}"))).collect();
            nearest(&value, labels.iter().map(String::as_str)).map(|label| format!("labels:{label}"))
        }
        Target::All | Target::Any | Target::Where(_) => None,
    }
}

/// A name without its scope: a group or a node, or the nearest one.
fn bare_name(typed: &str, nodes: &[NodeDoc]) -> Option<String> {
    let name: Name = typed.parse().ok()?;
    let groups = || nodes.iter().flat_map(|node| node.groups.iter().map(String::as_str));
    let ids = || nodes.iter().map(|node| node.id.as_str());
    if groups().any(|group| group == name.as_str()) {
        return Some(format!("group:{name}"));
    }
    if ids().any(|id| id == name.as_str()) {
        return Some(format!("node:{name}"));
    }
    let group = nearest(name.as_str(), groups()).map(|group| format!("group:{group}"));
    group.or_else(|| nearest(name.as_str(), ids()).map(|id| format!("node:{id}")))
}

#[cfg(test)]
mod tests {
    use super::{nearest_job, nearest_target};
    use grid_types::api::NodeDoc;
    use serde_json::json;

    fn node(id: &str, groups: &[&str]) -> NodeDoc {
        serde_json::from_value(json!({
            "id": id, "hostname": "h", "address": "a", "groups": groups, "labels": {"zone": "berlin"}, "backends": {},
            "os": "linux", "arch": "x86_64",
            "capacity": {"cpu_milli": 1, "memory_bytes": 1, "disk_bytes": 1, "slots": 1}, "version": "0.1.0",
            "status": "ready", "state": "ready", "ordinal": 1, "session": 1, "leases": 0,
            "last_seen": "", "registered_at": "", "leader_epoch": 1,
        }))
        .unwrap()
    }

    #[test]
    fn a_target_that_matches_nothing_is_told_what_would() {
        let nodes = [node("web-01", &["web", "prod"]), node("db-01", &["db"])];
        for (typed, meant) in [
            ("group:wbe", Some("group:web")),
            ("group:web-01", Some("node:web-01")),
            ("node:web-1", Some("node:web-01")),
            ("node:prod", Some("group:prod")),
            ("labels:zone=berlim", Some("labels:zone=berlin")),
            ("group:xyzzy", None),
            ("all", None),
            ("web", Some("group:web")),
            ("db-01", Some("node:db-01")),
            ("prd", Some("group:prod")),
            ("web and db", None),
        ] {
            assert_eq!(nearest_target(typed, &nodes).as_deref(), meant, "{typed}");
        }
    }

    #[test]
    fn ids_of_jobs_are_near_only_with_a_slip_or_two() {
        let known = ["job-0s85p5vddzkqn", "job-0s85p5vddzkqp", "job-0s85q0tq3hgdr"];
        assert_eq!(nearest_job("job-0s85q0tq3hgd", known.into_iter()).as_deref(), Some("job-0s85q0tq3hgdr"));
        assert_eq!(nearest_job("job-0s85q0tq3hgrd", known.into_iter()).as_deref(), Some("job-0s85q0tq3hgdr"));
        assert_eq!(nearest_job("job-0s85p9999zkqn", known.into_iter()), None);
    }
}
