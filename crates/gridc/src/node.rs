//! `gridc node list|info|drain|remove`.

use std::time::{Duration, Instant};

use grid_client::Removal;
use grid_types::NodeId;
use grid_types::api::{ListDoc, NodeDoc};
use jiff::Timestamp;

use crate::cli::{DrainArgs, Format, Global};
use crate::connect::connect;
use crate::failure::Failure;
use crate::out::{self, tell};
use crate::outage::Outage;
use crate::paint::Tone;
use crate::table::{Cell, Table, facts};
use crate::text::{number, one_line};
use crate::when::ago;

const PAGE: u32 = 1_000;
const POLL: Duration = Duration::from_millis(250);
const LAST_LOOK: Duration = Duration::from_secs(1);

pub async fn list(global: &Global, target: Option<&str>) -> Result<u8, Failure> {
    target.map(crate::aim::parse).transpose()?;
    let client = connect(global)?;
    let mut nodes: ListDoc<NodeDoc> = ListDoc { items: Vec::new(), next: None };
    loop {
        let page = client.nodes(target, nodes.next.as_deref(), Some(PAGE)).await?;
        let empty = page.items.is_empty();
        nodes.items.extend(page.items);
        nodes.next = page.next;
        if empty || nodes.next.is_none() {
            break;
        }
    }
    let format = global.output.unwrap_or(Format::Table);
    out::print(format, &nodes, |terminal| table(&nodes.items, client.now()).painted(global.color.style(terminal)))?;
    if format == Format::Table && nodes.items.is_empty() {
        match target {
            None => tell("hint: no node has registered yet; `grid worker --server URL` starts one"),
            Some(target) => {
                tell(&format!("hint: no known node matches {}; gridc node list shows all of them", one_line(target)));
            }
        }
    }
    Ok(0)
}

pub async fn info(global: &Global, id: &str) -> Result<u8, Failure> {
    let id = node_id(id)?;
    let client = connect(global)?;
    let node = client.node(id.as_str()).await?;
    out::print(global.output.unwrap_or(Format::Table), &node, |_| info_text(&node, client.now()))?;
    Ok(0)
}

pub async fn drain(global: &Global, args: &DrainArgs) -> Result<u8, Failure> {
    let (client, id) = (connect(global)?, node_id(&args.id)?);
    let mut node = if args.undo { client.undrain(id.as_str()).await? } else { client.drain(id.as_str()).await? };
    let begun = Instant::now();
    let outage = Outage::new(Some(&format!("{id} stays drained")));
    let (mut told, mut connected_at) = (None, begun);
    while args.wait && node.leases > 0 {
        if told != Some(node.leases) {
            told = Some(node.leases);
            tell(&format!("{id} {}: {} left", one_line(&node.state), number(node.leases as usize, "lease")));
        }
        if let Some(after) = args.wait_timeout.filter(|limit| u128::from(limit.ms()) <= begun.elapsed().as_millis()) {
            return Err(Failure::StillBusy { node: id, leases: node.leases, after });
        }
        tokio::time::sleep(POLL).await;
        // A call that nobody answers takes long: the limit holds for it, too, but not for a last look.
        let left = args.wait_timeout.map(|limit| Duration::from_millis(limit.ms()).saturating_sub(begun.elapsed()));
        let Ok(now) =
            tokio::time::timeout(left.map_or(Duration::MAX, |left| left.max(LAST_LOOK)), client.node(id.as_str()))
                .await
        else {
            continue;
        };
        match now {
            Ok(now) => (node, connected_at) = (now, Instant::now()),
            Err(error) => outage.met(error, connected_at)?.iter().for_each(|line| tell(line)),
        }
    }
    let format = global.output.unwrap_or(Format::Table);
    out::print(format, &node, |_| format!("{id} {}\n", one_line(&node.state)))?;
    if format == Format::Table && !args.undo && node.leases > 0 {
        tell(&format!(
            "hint: {} run there still; gridc node drain {id} --wait stays until they have ended",
            number(node.leases as usize, "lease")
        ));
    }
    Ok(0)
}

pub async fn remove(global: &Global, id: &str, force: bool) -> Result<u8, Failure> {
    let id = node_id(id)?;
    let removal = if force { Removal::Forced } else { Removal::IfGone };
    let done = connect(global)?.remove_node(id.as_str(), removal).await?;
    out::print(global.output.unwrap_or(Format::Table), &done, |_| format!("{id} {}\n", one_line(&done.status)))?;
    Ok(0)
}

/// What cannot be a name names no node.
fn node_id(text: &str) -> Result<NodeId, Failure> {
    text.parse().map_err(|e| Failure::NotFound(format!("no such node: {e}")))
}

fn table(nodes: &[NodeDoc], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "STATUS", "GROUPS", "BACKENDS", "LEASES", "VERSION", "LAST-SEEN"]);
    for node in nodes {
        table.row::<Cell>([
            one_line(&node.id).into(),
            Cell::toned(one_line(&node.state), Tone::of_node(&node.state)),
            one_line(&node.groups.join(",")).into(),
            one_line(&node.backends.keys().cloned().collect::<Vec<_>>().join(",")).into(),
            format!("{}/{}", node.leases, node.capacity.slots).into(),
            one_line(&node.version).into(),
            ago(&node.last_seen, now).into(),
        ]);
    }
    table
}

fn info_text(node: &NodeDoc, now: Timestamp) -> String {
    let time = |at: &str| format!("{} ({at})", ago(at, now));
    let labels = node.labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
    let cpu = format!("{}.{:02} cores", node.capacity.cpu_milli / 1_000, node.capacity.cpu_milli % 1_000 / 10);
    let mut rows = vec![
        ("id", node.id.clone()),
        ("status", if node.drained { format!("{} (by an operator)", node.state) } else { node.state.clone() }),
        ("hostname", node.hostname.clone()),
        ("address", node.address.clone()),
        ("groups", node.groups.join(",")),
        ("labels", labels),
        ("platform", format!("{}/{}", node.os, node.arch)),
        ("version", node.version.clone()),
        ("cpu", cpu),
        ("memory", bytes(node.capacity.memory_bytes)),
        ("disk", bytes(node.capacity.disk_bytes)),
        ("leases", format!("{} of {} slots", node.leases, node.capacity.slots)),
        ("last seen", time(&node.last_seen)),
        ("registered", time(&node.registered_at)),
        ("session", node.session.to_string()),
    ];
    rows.extend(node.backends.iter().map(|(name, actions)| ("backend", format!("{name}: {}", actions.join(", ")))));
    rows.extend(node.facts.iter().map(|(name, value)| (name.as_str(), value.clone())));
    for (_, value) in &mut rows {
        *value = one_line(value);
    }
    facts(&rows)
}

/// In the largest unit that leaves a whole part.
fn bytes(n: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let fits = (1..=units.len()).rev().find(|power| n >> (10 * power) > 0);
    match fits {
        Some(power) => {
            let tenths = (n >> (10 * (power - 1))) % 1_024 * 10 / 1_024;
            format!("{}.{tenths} {}", n >> (10 * power), units[power - 1])
        }
        None => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_read_in_their_largest_unit() {
        let gib = 1_u64 << 30;
        for (n, text) in
            [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (8 * gib, "8.0 GiB"), (gib * 1_100, "1.0 TiB")]
        {
            assert_eq!(bytes(n), text);
        }
    }
}
