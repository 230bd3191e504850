//! The table of refusals: why a command had no effect, as the client is answered.

use grid_core::Rejection;
use grid_types::{Code, Faults, JobId, NodeId};

use super::Refusal;
use crate::reply::NoReply;

pub fn refused(no_reply: NoReply) -> Refusal {
    let rejection = match no_reply {
        NoReply::NotLeader => return Refusal::new(Code::NotLeader, no_reply.to_string()),
        NoReply::TooLarge(why) => return Refusal::new(Code::TooLarge, why),
        NoReply::OutcomeUnknown(why) => return Refusal::new(Code::OutcomeUnknown, why),
        NoReply::Rejected(rejection) => rejection,
    };
    let message = rejection.to_string();
    let on_field = |field: &str| {
        let mut faults = Faults::default();
        faults.add(field, message.clone());
        Refusal::invalid(faults)
    };
    match rejection {
        Rejection::NoTarget(_) => on_field("target"),
        Rejection::TooLarge(_) => on_field("tasks"),
        Rejection::QueueFull { .. }
        | Rejection::TooManyWaiting { .. }
        | Rejection::TooManyAgents { .. }
        | Rejection::TooManyNodes { .. }
        | Rejection::TooManyFacts
        | Rejection::TooManyKeys { .. } => Refusal::new(Code::QueueFull, message),
        Rejection::NoJob(_) | Rejection::NoNode(_) => Refusal::new(Code::NotFound, message),
        Rejection::StaleLeader { .. } => Refusal::new(Code::NotLeader, message),
        Rejection::StaleRequest { .. } => Refusal { stale: Some("leader"), ..Refusal::new(Code::StaleEpoch, message) },
        Rejection::DuplicateNode(_) => Refusal::new(Code::DuplicateNode, message),
        Rejection::Superseded { .. } => Refusal::new(Code::Superseded, message),
        Rejection::IdTaken(_) => Refusal::new(Code::OutcomeUnknown, message),
        Rejection::PlanChanged
        | Rejection::KeyConflict { .. }
        | Rejection::Forgotten(_)
        | Rejection::NotWaiting(_)
        | Rejection::NodeStands(_)
        | Rejection::NotSuperseded
        | Rejection::Ended { .. }
        | Rejection::StaleSession { .. }
        | Rejection::StatusMoved { .. } => Refusal::new(Code::Conflict, message),
    }
}

pub fn no_node(id: &NodeId) -> Refusal {
    Refusal::new(Code::NotFound, format!("node {id} is not known"))
}

pub fn no_job(job: JobId) -> Refusal {
    Refusal::new(Code::NotFound, format!("{job} is not known"))
}
