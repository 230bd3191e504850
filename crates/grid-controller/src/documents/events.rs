//! Documents of events.

use grid_store::EventRow;
use grid_types::api::EventDoc;

use crate::time::time_text;

/// Without the role of the controller that answers.
pub fn event(row: EventRow) -> EventDoc {
    let EventRow { id, wall_ms, leader_epoch, event, job, node, namespace, name, labels } = row;
    EventDoc {
        id,
        at: time_text(wall_ms),
        kind: event.kind().to_owned(),
        subject: event.subject(job, node.as_deref()),
        text: event.text(job),
        job: job.map(|id| id.to_string()),
        node,
        nodes: event.nodes().map(|nodes| nodes.iter().map(ToString::to_string).collect()),
        namespace,
        name,
        labels,
        leader_epoch,
        role: None,
    }
}
