//! `gridc events`: what happened, and with `-f` what happens next.

use grid_client::EventsQuery;
use grid_types::api::{EventDoc, ListDoc};

use crate::cli::{EventsArgs, Format, Global};
use crate::connect::connect;
use crate::failure::Failure;
use crate::out::{self, tell};
use crate::outage::Outage;
use crate::safe::Safe;
use crate::text::one_line;

const DEFAULT_LIMIT: u32 = 100;

pub async fn events(global: &Global, args: &EventsArgs) -> Result<u8, Failure> {
    let client = connect(global)?;
    let format = global.output.unwrap_or(Format::Table);
    let query = EventsQuery {
        kinds: args.kinds.clone(),
        job: args.job.map(|job| job.to_string()),
        node: args.node.as_ref().map(ToString::to_string),
        namespace: None,
    };
    let limit = args.limit.unwrap_or(if args.follow { 0 } else { DEFAULT_LIMIT });
    // Fixed before the past is read: what happens meanwhile belongs to the stream.
    let now = match (args.follow, args.after) {
        (true, None) => client.events(&EventsQuery::default(), 1, None).await?.items.first().map_or(0, |e| e.id),
        (true, Some(after)) => after,
        (false, _) => 0,
    };
    let before = args.follow.then(|| now.saturating_add(1).to_string());
    let mut page = match limit {
        0 => ListDoc { items: Vec::new(), next: None },
        limit => client.events(&query, limit, before.as_deref()).await?,
    };
    // A controller looks only so far back at a time for what is rare.
    while let (Some(older), true) = (page.next.clone(), page.items.len() < limit as usize) {
        let left = limit - u32::try_from(page.items.len()).unwrap_or(limit);
        let more = client.events(&query, left, Some(&older)).await?;
        page.items.extend(more.items);
        page.next = more.next;
    }
    page.items.reverse();
    if !args.follow {
        out::print(format, &page, |_| page.items.iter().map(line).collect::<String>())?;
        if format == Format::Table && page.items.is_empty() && limit > 0 {
            tell("hint: no such event yet; gridc events -f waits for one");
        } else if format == Format::Table && page.next.is_some() {
            out::tell_more(page.items.len());
        }
        return Ok(0);
    }
    for event in &page.items {
        if !show(format, event)? {
            return Ok(0);
        }
    }
    client.learn_controllers().await;
    let mut stream = client.listen(query, Some(now)).await?;
    let outage = Outage::new(None);
    loop {
        let event = match stream.next().await {
            Ok(event) => event,
            Err(error) => {
                if let Some(line) = outage.met(error, stream.connected_at())? {
                    tell(&line);
                }
                continue;
            }
        };
        if !show(format, &event)? {
            return Ok(0);
        }
    }
}

/// False: nobody reads any more.
fn show(format: Format, event: &EventDoc) -> Result<bool, Failure> {
    out::record(format, event, || Safe::lines(&line(event)))
}

fn line(event: &EventDoc) -> String {
    let place = match &event.node {
        Some(node) if *node != event.subject => format!("{} on {node}", event.subject),
        _ => event.subject.clone(),
    };
    let (at, kind) = (one_line(&event.at), one_line(&event.kind));
    format!("{at}  {kind:<18}  {:<17}  {}\n", one_line(&place), one_line(&event.text))
}

#[cfg(test)]
mod tests {
    use super::line;
    use grid_types::api::EventDoc;

    #[test]
    fn an_event_is_one_line_with_its_place() {
        let event = EventDoc {
            id: 7,
            at: "2026-02-12T10:30:00.000Z".to_owned(),
            kind: "StepFailed".to_owned(),
            subject: "job-0c5t9v3k2m7qa".to_owned(),
            text: "step 0 failed: node\ndead".to_owned(),
            job: Some("job-0c5t9v3k2m7qa".to_owned()),
            node: Some("web-01".to_owned()),
            nodes: None,
            namespace: None,
            name: None,
            labels: None,
            leader_epoch: 1,
            role: None,
        };
        let want =
            "2026-02-12T10:30:00.000Z  StepFailed          job-0c5t9v3k2m7qa on web-01  step 0 failed: node\\ndead\n";
        assert_eq!(line(&event), want);
    }
}
