//! Checks ids and labels of the command line.

use grid_types::JobId;

use crate::failure::Failure;

/// Refuses a label or variable (`what`) that is given twice: only the last one would count.
pub fn each_once(what: &str, pairs: &[(String, String)]) -> Result<(), Failure> {
    let twice = pairs.iter().enumerate().find(|(at, (key, _))| pairs[..*at].iter().any(|(before, _)| before == key));
    match twice {
        Some((_, (key, _))) => Err(Failure::usage(format!("the {what} {key:?} is given twice"), None)),
        None => Ok(()),
    }
}

/// Reads a job id. A text that cannot be one is "not found", not a usage error.
pub fn job_id(text: &str) -> Result<JobId, Failure> {
    text.parse().map_err(|e| Failure::NotFound(format!("no such job: {e}")))
}
