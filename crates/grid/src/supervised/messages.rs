//! The messages between a supervisor and its controller: one line each, over the child's stdin and stdout.
//!
//! ```text
//!   supervisor: "pause 3"                       -> controller: "grid dispatch order=3 role=STANDBY dispatch=paused"
//!   supervisor: "worker-gone 4 c1-worker nothing" -> controller: "grid dispatch order=4 role=STANDBY dispatch=open"
//!                                                  controller: "grid dispatch order=4 role=LEADER dispatch=open"
//!   supervisor: "pause 5 the data folder …"     -> the same, and `why` names the problem
//! ```
//!
//! E8: a worker starts only after a controller that does not lead has confirmed `pause`; from then on the controller dispatches nothing
//! before the next `worker-gone`. Orders are numbered, so that an old report is never taken for a new one.
//! The messages use a pipe and not a port: no other process can send them, and the pipe closes when the supervisor dies.

use std::fmt;
use std::str::FromStr;

use grid_types::NodeId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub number: u64,
    pub instruction: Instruction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// A worker may run on this machine.
    Pause {
        /// Why it is not known whether one runs.
        problem: Option<String>,
    },
    /// No worker runs on this machine.
    WorkerGone { node: NodeId, nothing_outstanding: bool },
}

/// Sent by the controller as the answer to an order, and when its role changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The last order that it carried out; 0: none.
    pub order: u64,
    pub leads: bool,
    pub is_paused: bool,
}

#[derive(Debug)]
pub struct InvalidMessage;

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match &self.instruction {
            Instruction::Pause { problem: None } => write!(f, "pause {number}"),
            // The message is one line, whatever a path contains.
            Instruction::Pause { problem: Some(problem) } => {
                write!(f, "pause {number} {}", problem.replace(char::is_control, "?"))
            }
            Instruction::WorkerGone { node, nothing_outstanding: true } => {
                write!(f, "worker-gone {number} {node} nothing")
            }
            Instruction::WorkerGone { node, nothing_outstanding: false } => {
                write!(f, "worker-gone {number} {node} something")
            }
        }
    }
}

impl FromStr for Order {
    type Err = InvalidMessage;

    fn from_str(line: &str) -> Result<Self, InvalidMessage> {
        if let Some((number, problem)) = line.strip_prefix("pause ").and_then(|rest| rest.split_once(' ')) {
            let number = number.parse().map_err(|_| InvalidMessage)?;
            return Ok(Self { number, instruction: Instruction::Pause { problem: Some(problem.to_owned()) } });
        }
        let parts: Vec<&str> = line.split_whitespace().collect();
        let (number, instruction) = match parts[..] {
            ["pause", number] => (number, Instruction::Pause { problem: None }),
            ["worker-gone", number, node, holds @ ("nothing" | "something")] => {
                let node = node.parse().map_err(|_| InvalidMessage)?;
                (number, Instruction::WorkerGone { node, nothing_outstanding: holds == "nothing" })
            }
            _ => return Err(InvalidMessage),
        };
        Ok(Self { number: number.parse().map_err(|_| InvalidMessage)?, instruction })
    }
}

const REPORT: &str = "grid dispatch ";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.leads { "LEADER" } else { "STANDBY" };
        let dispatch = if self.is_paused { "paused" } else { "open" };
        write!(f, "{REPORT}order={} role={role} dispatch={dispatch}", self.order)
    }
}

impl FromStr for Report {
    type Err = InvalidMessage;

    fn from_str(line: &str) -> Result<Self, InvalidMessage> {
        let fields = line.strip_prefix(REPORT).ok_or(InvalidMessage)?;
        let parts: Vec<(&str, &str)> = fields.split(' ').filter_map(|part| part.split_once('=')).collect();
        match parts[..] {
            [
                ("order", order),
                ("role", role @ ("LEADER" | "STANDBY")),
                ("dispatch", dispatch @ ("paused" | "open")),
            ] => {
                let order = order.parse().map_err(|_| InvalidMessage)?;
                Ok(Self { order, leads: role == "LEADER", is_paused: dispatch == "paused" })
            }
            _ => Err(InvalidMessage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Instruction, Order, Report};

    #[test]
    fn orders_and_reports_survive_a_round_trip() {
        let node: grid_types::NodeId = "c1-worker".parse().unwrap();
        for instruction in [
            Instruction::Pause { problem: None },
            Instruction::Pause { problem: Some("the folder  is refused; run: rm 'x'".to_owned()) },
            Instruction::WorkerGone { node: node.clone(), nothing_outstanding: true },
            Instruction::WorkerGone { node, nothing_outstanding: false },
        ] {
            let order = Order { number: 7, instruction };
            assert_eq!(order.to_string().parse::<Order>().unwrap(), order);
        }
        for (leads, is_paused) in [(true, true), (true, false), (false, true), (false, false)] {
            let report = Report { order: 3, leads, is_paused };
            assert_eq!(report.to_string().parse::<Report>().unwrap(), report);
        }
        for nonsense in [
            "",
            "pause",
            "pause x",
            "pause x why",
            "worker-gone 1 c1-worker",
            "worker-gone 1 c1-worker maybe",
            "worker-gone 1 UPPER nothing",
        ] {
            assert!(nonsense.parse::<Order>().is_err(), "{nonsense}");
        }
        assert!("grid ready api=http://127.0.0.1:1".parse::<Report>().is_err());
    }
}
