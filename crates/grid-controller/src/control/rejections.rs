//! Maps rejections to codes: what a client gets for a command that had no effect, on HTTP and gRPC alike. The one such table.
//!
//! The message is the rejection's own (`grid_core::Rejection`), the status is that of the code (`grid_types::code`).

use grid_core::Rejection;
use grid_types::{Code, Faults};

use super::refusal::{Refusal, Stale};
use crate::reply::NoReply;

/// How a rejection is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Code(Code),
    /// INVALID, as a fault of this field.
    Field(&'static str),
    /// STALE_EPOCH.
    Stale(Stale),
}

fn answer(rejection: &Rejection) -> Answer {
    match rejection {
        Rejection::NoTarget(_) => Answer::Field("target"),
        Rejection::TooLarge(_) => Answer::Field("tasks"),
        Rejection::StaleRequest { .. } => Answer::Stale(Stale::Leader),
        Rejection::StaleLeader { .. } => Answer::Code(Code::NotLeader),
        Rejection::QueueFull { .. }
        | Rejection::TooManyWaiting { .. }
        | Rejection::TooManyAgents { .. }
        | Rejection::TooManyNodes { .. }
        | Rejection::TooManyFacts
        | Rejection::TooManyKeys { .. } => Answer::Code(Code::QueueFull),
        Rejection::NoJob(_) | Rejection::NoNode(_) => Answer::Code(Code::NotFound),
        Rejection::DuplicateNode(_) => Answer::Code(Code::DuplicateNode),
        Rejection::Superseded { .. } => Answer::Code(Code::Superseded),
        Rejection::IdTaken(_) => Answer::Code(Code::OutcomeUnknown),
        Rejection::PlanChanged
        | Rejection::KeyConflict { .. }
        | Rejection::Forgotten(_)
        | Rejection::NotWaiting(_)
        | Rejection::NodeStands(_)
        | Rejection::NotSuperseded
        | Rejection::Ended { .. }
        | Rejection::StaleSession { .. }
        | Rejection::StatusMoved { .. } => Answer::Code(Code::Conflict),
    }
}

/// The code of a rejection.
pub fn code_of(rejection: &Rejection) -> Code {
    match answer(rejection) {
        Answer::Code(code) => code,
        Answer::Field(_) => Code::Invalid,
        Answer::Stale(_) => Code::StaleEpoch,
    }
}

/// The refusal of a request whose command has no reply.
pub fn refused(no_reply: NoReply) -> Refusal {
    let rejection = match no_reply {
        NoReply::NotLeader => return Refusal::new(Code::NotLeader, no_reply.to_string()),
        NoReply::TooLarge(why) => return Refusal::new(Code::TooLarge, why),
        NoReply::OutcomeUnknown(why) => return Refusal::new(Code::OutcomeUnknown, why),
        NoReply::Rejected(rejection) => rejection,
    };
    let message = rejection.to_string();
    match answer(&rejection) {
        Answer::Code(code) => Refusal::new(code, message),
        Answer::Stale(stale) => Refusal::stale(stale, message),
        Answer::Field(field) => {
            let mut faults = Faults::default();
            faults.add(field, message);
            Refusal::invalid(faults)
        }
    }
}

#[cfg(test)]
mod tests {
    use grid_core::{Rejection, RequestHash};
    use grid_types::node::NodeStatus;
    use grid_types::{Code, JobId, JobStatus, LeaderEpoch, NodeOrd, SessionId};

    use super::{code_of, refused};
    use crate::reply::NoReply;

    /// One of each. `answer` has no arm for the rest, so that a new rejection does not compile before it has a code.
    fn all() -> Vec<(Rejection, Code, u16)> {
        let (epoch, job, hash) = (LeaderEpoch { generation: 0, n: 4 }, JobId(1), RequestHash::of(b""));
        let text = || "the reason".to_owned();
        vec![
            (Rejection::StaleLeader { epoch }, Code::NotLeader, 409),
            (Rejection::StaleRequest { given: 3, epoch }, Code::StaleEpoch, 409),
            (Rejection::Superseded { generation: 2, by: text() }, Code::Superseded, 409),
            (Rejection::NotSuperseded, Code::Conflict, 409),
            (Rejection::NoJob(job), Code::NotFound, 404),
            (Rejection::Ended { job, status: JobStatus::Failed }, Code::Conflict, 409),
            (Rejection::QueueFull { pending: 9, limit: 9 }, Code::QueueFull, 429),
            (Rejection::TooManyWaiting { waiting: 9, limit: 9 }, Code::QueueFull, 429),
            (Rejection::NotWaiting(text()), Code::Conflict, 409),
            (Rejection::Forgotten(job), Code::Conflict, 409),
            (Rejection::KeyConflict { job, first: hash, second: hash }, Code::Conflict, 409),
            (Rejection::TooManyKeys { limit: 9 }, Code::QueueFull, 429),
            (Rejection::IdTaken(job), Code::OutcomeUnknown, 503),
            (Rejection::PlanChanged, Code::Conflict, 409),
            (Rejection::NoTarget(text()), Code::Invalid, 422),
            (Rejection::TooLarge(text()), Code::Invalid, 422),
            (Rejection::NoNode(NodeOrd(1)), Code::NotFound, 404),
            (Rejection::StaleSession { current: SessionId(2) }, Code::Conflict, 409),
            (Rejection::StatusMoved { status: NodeStatus::Dead }, Code::Conflict, 409),
            (Rejection::DuplicateNode(text()), Code::DuplicateNode, 409),
            (Rejection::TooManyAgents { limit: 9 }, Code::QueueFull, 429),
            (Rejection::TooManyNodes { limit: 9 }, Code::QueueFull, 429),
            (Rejection::TooManyFacts, Code::QueueFull, 429),
            (Rejection::NodeStands(text()), Code::Conflict, 409),
        ]
    }

    #[test]
    fn every_rejection_has_one_code_one_status_and_a_message() {
        for (rejection, code, status) in all() {
            let message = rejection.to_string();
            assert_eq!((code_of(&rejection), code.http_status()), (code, status), "{rejection:?}");
            let refusal = refused(NoReply::Rejected(rejection.clone()));
            assert_eq!(refusal.code, code, "{rejection:?}");
            assert!(!message.is_empty() && refusal.message.contains(&message), "{rejection:?}: {}", refusal.message);
            assert_eq!(refusal.stale.is_some(), code == Code::StaleEpoch, "{rejection:?}");
            assert_eq!(refusal.faults.list().is_empty(), code != Code::Invalid, "{rejection:?}");
        }
    }

    #[test]
    fn a_command_that_reached_no_log_says_why() {
        assert_eq!(refused(NoReply::NotLeader).code, Code::NotLeader);
        assert_eq!(refused(NoReply::TooLarge("long".to_owned())).code, Code::TooLarge);
        assert_eq!(refused(NoReply::OutcomeUnknown("gone".to_owned())).code, Code::OutcomeUnknown);
    }
}
