//! Keeps waiting when no controller answers a command that was connected, and says so once.
//!
//! A call gives up after its patience, which is right for a command that has only just begun: the address may be wrong. A
//! restart of every controller takes longer than that, and a user who waits for a job of an hour should not have to start
//! again because of it.
//! Not here: how long one call tries (`grid-client`), when to stop waiting (`run`, `node`).

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use grid_client::Error;

pub struct Outage {
    /// What continues after the user leaves.
    meanwhile: Option<String>,
    told_at: Mutex<Option<Instant>>,
}

impl Outage {
    pub fn new(meanwhile: Option<&str>) -> Self {
        Self { meanwhile: meanwhile.map(str::to_owned), told_at: Mutex::new(None) }
    }

    /// The line to print, if none was printed since the connection of `connected_at`: two followers of one job share a line.
    ///
    /// # Errors
    /// The one it was given, if waiting does not mend it.
    pub fn met(&self, error: Error, connected_at: Instant) -> Result<Option<String>, Error> {
        if !error.may_pass() {
            return Err(error);
        }
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.is_some_and(|told_at| told_at > connected_at) {
            return Ok(None);
        }
        *told_at = Some(Instant::now());
        let what = match error {
            Error::Unreachable { .. } => "no controller answers".to_owned(),
            other => crate::text::one_line(&other.to_string()),
        };
        let meanwhile = self.meanwhile.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
        Ok(Some(format!("{what}; still trying (Ctrl-C to leave{meanwhile})")))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Outage;
    use grid_client::Error;

    #[test]
    fn an_outage_is_told_once_and_the_next_one_again() {
        let gone = || Error::Unreachable { waited: Duration::from_secs(10), tried: Vec::new(), maybe_done: false };
        let outage = Outage::new(Some("the job goes on"));
        let first = Instant::now();
        let line = "no controller answers; still trying (Ctrl-C to leave; the job goes on)".to_owned();
        assert_eq!(outage.met(gone(), first), Ok(Some(line.clone())));
        assert_eq!(outage.met(gone(), first), Ok(None));
        assert_eq!(outage.met(gone(), Instant::now() + Duration::from_millis(1)), Ok(Some(line)));
        assert_eq!(outage.met(Error::NoServer, first), Err(Error::NoServer));
    }
}
