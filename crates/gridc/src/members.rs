//! `gridc controllers` and `gridc cluster …`: the controllers, and who belongs to them.

use grid_types::api::{ClusterDoc, ControllerDoc, SupersededDoc};

use crate::cli::{Format, Global};
use crate::connect::connect;
use crate::failure::Failure;
use crate::out;
use crate::table::{Table, facts};
use crate::text::one_line;

pub async fn list(global: &Global) -> Result<u8, Failure> {
    let members = connect(global)?.cluster().await?.members;
    out::print(global.output.unwrap_or(Format::Table), &members, |terminal| table(&members).render(terminal))?;
    Ok(0)
}

pub async fn status(global: &Global) -> Result<u8, Failure> {
    show(global, &connect(global)?.cluster().await?)
}

pub async fn remove(global: &Global, id: &str) -> Result<u8, Failure> {
    show(global, &connect(global)?.remove_member(id).await?)
}

pub async fn demote(global: &Global, id: &str) -> Result<u8, Failure> {
    show(global, &connect(global)?.demote_member(id).await?)
}

pub async fn promote(global: &Global, id: &str) -> Result<u8, Failure> {
    show(global, &connect(global)?.promote_member(id).await?)
}

pub async fn lift(global: &Global) -> Result<u8, Failure> {
    show(global, &connect(global)?.lift_superseded().await?)
}

pub async fn step_down(global: &Global, to: Option<String>) -> Result<u8, Failure> {
    let role = connect(global)?.step_down(to).await?;
    let leader = || one_line(role.leader_id.as_deref().unwrap_or("not known yet"));
    out::print(global.output.unwrap_or(Format::Table), &role, |_| format!("{} leads\n", leader()))?;
    Ok(0)
}

fn show(global: &Global, cluster: &ClusterDoc) -> Result<u8, Failure> {
    out::print(global.output.unwrap_or(Format::Table), cluster, |terminal| {
        let superseded = cluster.superseded.as_ref().map(|superseded| ("superseded", superseded_text(superseded)));
        let mut rows: Vec<_> = superseded.into_iter().collect();
        rows.extend([
            ("cluster", one_line(&cluster.cluster_id)),
            ("leader", one_line(cluster.leader_id.as_deref().unwrap_or_default())),
            ("leader epoch", cluster.leader_epoch.map(|epoch| epoch.to_string()).unwrap_or_default()),
            ("voters", format!("{}, {} must agree", cluster.voters, cluster.majority)),
            ("feature level", level(cluster)),
        ]);
        let summary = facts(&rows);
        format!("{summary}\n{}", table(&cluster.members).render(terminal))
    })?;
    Ok(0)
}

/// E2: who showed a later restore, and that writes are refused.
pub fn superseded_text(superseded: &SupersededDoc) -> String {
    format!(
        "{} followed generation {} at {}; writes are refused until gridc cluster lift",
        one_line(&superseded.by),
        superseded.generation,
        one_line(&superseded.at)
    )
}

/// With those who keep it where it is, if others know more.
fn level(cluster: &ClusterDoc) -> String {
    let most = cluster.members.iter().map(|member| member.feature_level).max().unwrap_or_default();
    let behind: Vec<String> = cluster
        .members
        .iter()
        .filter(|member| member.feature_level < most)
        .map(|member| one_line(&member.id))
        .collect();
    match behind[..] {
        [] => cluster.feature_level.to_string(),
        _ => format!(
            "{}; {most} as soon as every controller knows it: not yet {}",
            cluster.feature_level,
            behind.join(", ")
        ),
    }
}

fn table(members: &[ControllerDoc]) -> Table {
    let header =
        ["ID", "ROLE", "VOTER", "EPOCH", "VERSION", "LOG", "APPLIED", "LAG", "LAST CONTACT", "API", "WORKERS", "RAFT"];
    let mut table = Table::new(&header);
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut by_name: Vec<_> = members.iter().collect();
    by_name.sort_by(|a, b| a.id.cmp(&b.id));
    for member in by_name {
        table.row([
            one_line(&member.id),
            member.role.map_or("no-answer".to_owned(), |role| role.word().to_owned()),
            if member.voter { "yes" } else { "no" }.to_owned(),
            number(member.leader_epoch),
            one_line(member.version.as_deref().unwrap_or_default()),
            number(member.last_index),
            number(member.applied_index),
            number(member.lag),
            member.last_contact_ms.map(|ms| format!("{ms}ms")).unwrap_or_default(),
            one_line(&member.api_url),
            one_line(&member.grpc_addr),
            one_line(&member.raft_addr),
        ]);
    }
    table
}
