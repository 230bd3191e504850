//! Downloads a backup and checks it while it arrives.
//!
//! Any controller can send one. It is complete only if its length and its BLAKE3 match those in the head of the answer: a
//! stream that ends early looks like one that is complete.

use std::time::Duration;

use grid_types::api::{
    HEADER_BACKUP_BLAKE3, HEADER_BACKUP_EPOCH, HEADER_BACKUP_INDEX, HEADER_BACKUP_JOBS, HEADER_BACKUP_STALE,
    HEADER_BACKUP_TAKEN,
};

use crate::call::{Call, Journey, unexpected};
use crate::client::Client;
use crate::error::Error;
use crate::server::ServerUrl;

/// The controller writes the whole file before it answers.
const LONGEST_START: Duration = Duration::from_secs(600);
const SILENCE: Duration = Duration::from_secs(60);

/// Description of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupHead {
    /// Size of the whole file.
    pub bytes: u64,
    /// BLAKE3 of the whole file, in hex.
    pub blake3: String,
    /// The last entry of the log that is in it.
    pub index: u64,
    /// Epoch of the last leader in the backup.
    pub leader_epoch: u64,
    /// How many jobs it contains.
    pub jobs: u64,
    /// The time of the state in it.
    pub taken_at: String,
    /// Whether acknowledged changes may be missing.
    pub stale: bool,
}

/// What a backup has to contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupScope {
    /// Everything that was acknowledged; without a majority there is none.
    Acknowledged,
    /// What the controller has applied, also if it cannot confirm that this is everything.
    AppliedHere,
}

/// A backup while it is being downloaded.
pub struct BackupStream {
    /// What the controller announces about the file before its content.
    pub head: BackupHead,
    server: ServerUrl,
    response: reqwest::Response,
    hasher: blake3::Hasher,
    received: u64,
}

impl Client {
    /// Requests a backup of everything; its first byte arrives when the controller has written the file.
    ///
    /// # Errors
    /// `CONFLICT` while another backup is taken, `NO_QUORUM` without a majority, or no controller could answer.
    pub async fn backup(&self, scope: BackupScope) -> Result<BackupStream, Error> {
        let path = ["api", "v1", "cluster", "backup"];
        let query = if scope == BackupScope::AppliedHere { vec![("stale", "true".to_owned())] } else { Vec::new() };
        let call = Call { slow: Some(LONGEST_START), ..Call::get(&path, query).streamed("application/octet-stream") };
        let answer = self.transport.carry(&call, &mut Journey::default()).await?;
        let response = answer.stream.ok_or_else(|| unexpected(&answer.server, "no stream".to_owned()))?;
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
        let head = (|| {
            Some(BackupHead {
                bytes: number("content-length")?,
                blake3: text(HEADER_BACKUP_BLAKE3)?.to_owned(),
                index: number(HEADER_BACKUP_INDEX)?,
                leader_epoch: number(HEADER_BACKUP_EPOCH)?,
                jobs: number(HEADER_BACKUP_JOBS)?,
                taken_at: text(HEADER_BACKUP_TAKEN)?.to_owned(),
                stale: text(HEADER_BACKUP_STALE)? == "true",
            })
        })();
        let head = head
            .ok_or_else(|| unexpected(&answer.server, "the answer lacks the description of the backup".to_owned()))?;
        Ok(BackupStream { head, server: answer.server, response, hasher: blake3::Hasher::new(), received: 0 })
    }
}

impl BackupStream {
    /// The next piece; `None` when the backup is complete.
    ///
    /// # Errors
    /// When the stream breaks off or differs from what was announced; the received bytes are not a valid backup then.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let broken = |problem: &str| {
            let (received, all) = (self.received, self.head.bytes);
            let problem =
                format!("{problem} after {received} of {all} bytes of the backup; nothing of it is used, try again");
            Error::BrokenOff { url: self.server.to_string(), problem }
        };
        let piece = match tokio::time::timeout(SILENCE, self.response.chunk()).await {
            Ok(Ok(piece)) => piece,
            Ok(Err(_)) => return Err(broken("the connection broke off")),
            Err(_) => return Err(broken("the connection was silent for too long")),
        };
        let Some(piece) = piece else {
            if self.received != self.head.bytes {
                return Err(broken("the stream ended"));
            }
            let is_whole = self.hasher.finalize().to_hex().as_str() == self.head.blake3;
            return if is_whole { Ok(None) } else { Err(broken("wrong checksum")) };
        };
        self.hasher.update(&piece);
        self.received += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        Ok(Some(piece.to_vec()))
    }
}
