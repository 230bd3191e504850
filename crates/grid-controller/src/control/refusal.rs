//! Defines a refused request, ready for the table of codes (`grid_types::code`).

use grid_types::{Code, Faults, JobId, NodeId};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub faults: Faults,
    /// Of STALE_EPOCH: what is not current.
    pub stale: Option<Stale>,
}

/// What of a request is not current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// The leader epoch.
    Leader,
    /// The job epoch.
    Job,
    /// The attempt.
    Attempt,
    /// Nothing: the step has an outcome already.
    Settled,
}

impl Stale {
    /// The `stale` of the body.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Job => "job",
            Self::Attempt => "attempt",
            Self::Settled => "settled",
        }
    }
}

impl From<grid_core::Stale> for Stale {
    fn from(stale: grid_core::Stale) -> Self {
        match stale {
            grid_core::Stale::Job => Self::Job,
            grid_core::Stale::Attempt => Self::Attempt,
            grid_core::Stale::Settled => Self::Settled,
        }
    }
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), faults: Faults::default(), stale: None }
    }

    #[must_use]
    pub fn invalid(faults: Faults) -> Self {
        Self { code: Code::Invalid, message: faults.to_string(), faults, stale: None }
    }

    /// STALE_EPOCH.
    pub fn stale(stale: Stale, message: impl Into<String>) -> Self {
        Self { stale: Some(stale), ..Self::new(Code::StaleEpoch, message) }
    }
}

pub fn no_node(id: &NodeId) -> Refusal {
    Refusal::new(Code::NotFound, format!("node {id} is not known"))
}

pub fn no_job(job: JobId) -> Refusal {
    Refusal::new(Code::NotFound, format!("{job} is not known"))
}
