//! What a supervisor and its controller say to each other, a line at a time, over the child's stdin and stdout.
//!
//! ```text
//!   supervisor: "hold 3"                       -> controller: "grid standing word=3 role=STANDBY dispatch=held"
//!   supervisor: "gone 4 c1-worker nothing"     -> controller: "grid standing word=4 role=STANDBY dispatch=released"
//!                                                 controller: "grid standing word=4 role=LEADER dispatch=released"
//!   supervisor: "hold 5 the data folder …"     -> the same, and `why` names the problem
//! ```
//!
//! E8: a worker starts only after its `hold` was answered by a controller that does not lead; from then on the controller
//! gives nothing out before the `gone` that follows it. Words are numbered, so that an old answer is never taken for a
//! new one. A pipe and not a port: nobody else can say these words, and when the supervisor dies, it closes.

use std::fmt;
use std::str::FromStr;

use grid_types::NodeId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub number: u64,
    pub saying: Saying,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saying {
    /// A worker may live on this machine.
    Hold {
        /// Why it is not known whether one does.
        problem: Option<String>,
    },
    /// None does.
    Gone { node: NodeId, holds_nothing: bool },
}

/// What a controller answers, and says by itself when its role changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The last word it has heard and followed; 0: none.
    pub word: u64,
    pub leads: bool,
    pub is_held: bool,
}

#[derive(Debug)]
pub struct Unintelligible;

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match &self.saying {
            Saying::Hold { problem: None } => write!(f, "hold {number}"),
            // One line, whatever a path contains.
            Saying::Hold { problem: Some(problem) } => {
                write!(f, "hold {number} {}", problem.replace(char::is_control, "?"))
            }
            Saying::Gone { node, holds_nothing: true } => write!(f, "gone {number} {node} nothing"),
            Saying::Gone { node, holds_nothing: false } => write!(f, "gone {number} {node} something"),
        }
    }
}

impl FromStr for Word {
    type Err = Unintelligible;

    fn from_str(line: &str) -> Result<Self, Unintelligible> {
        if let Some((number, problem)) = line.strip_prefix("hold ").and_then(|rest| rest.split_once(' ')) {
            let number = number.parse().map_err(|_| Unintelligible)?;
            return Ok(Self { number, saying: Saying::Hold { problem: Some(problem.to_owned()) } });
        }
        let parts: Vec<&str> = line.split_whitespace().collect();
        let (number, saying) = match parts[..] {
            ["hold", number] => (number, Saying::Hold { problem: None }),
            ["gone", number, node, holds @ ("nothing" | "something")] => {
                let node = node.parse().map_err(|_| Unintelligible)?;
                (number, Saying::Gone { node, holds_nothing: holds == "nothing" })
            }
            _ => return Err(Unintelligible),
        };
        Ok(Self { number: number.parse().map_err(|_| Unintelligible)?, saying })
    }
}

const STANDING: &str = "grid standing ";

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.leads { "LEADER" } else { "STANDBY" };
        let dispatch = if self.is_held { "held" } else { "released" };
        write!(f, "{STANDING}word={} role={role} dispatch={dispatch}", self.word)
    }
}

impl FromStr for Standing {
    type Err = Unintelligible;

    fn from_str(line: &str) -> Result<Self, Unintelligible> {
        let fields = line.strip_prefix(STANDING).ok_or(Unintelligible)?;
        let parts: Vec<(&str, &str)> = fields.split(' ').filter_map(|part| part.split_once('=')).collect();
        match parts[..] {
            [
                ("word", word),
                ("role", role @ ("LEADER" | "STANDBY")),
                ("dispatch", dispatch @ ("held" | "released")),
            ] => {
                let word = word.parse().map_err(|_| Unintelligible)?;
                Ok(Self { word, leads: role == "LEADER", is_held: dispatch == "held" })
            }
            _ => Err(Unintelligible),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Saying, Standing, Word};

    #[test]
    fn words_and_answers_come_back_as_they_were() {
        let node: grid_types::NodeId = "c1-worker".parse().unwrap();
        for saying in [
            Saying::Hold { problem: None },
            Saying::Hold { problem: Some("the folder  is refused; run: rm 'x'".to_owned()) },
            Saying::Gone { node: node.clone(), holds_nothing: true },
            Saying::Gone { node, holds_nothing: false },
        ] {
            let word = Word { number: 7, saying };
            assert_eq!(word.to_string().parse::<Word>().unwrap(), word);
        }
        for (leads, is_held) in [(true, true), (true, false), (false, true), (false, false)] {
            let standing = Standing { word: 3, leads, is_held };
            assert_eq!(standing.to_string().parse::<Standing>().unwrap(), standing);
        }
        for nonsense in
            ["", "hold", "hold x", "hold x why", "gone 1 c1-worker", "gone 1 c1-worker maybe", "gone 1 UPPER nothing"]
        {
            assert!(nonsense.parse::<Word>().is_err(), "{nonsense}");
        }
        assert!("grid ready api=http://127.0.0.1:1".parse::<Standing>().is_err());
    }
}
