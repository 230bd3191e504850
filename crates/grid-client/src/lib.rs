//! A typed client of the HTTP API that accepts the address of any controller and finds the leader.
//!
//! ```text
//!   call ──► server 1 ──NOT_LEADER(url)──► leader ──► answer
//!     │         └─ refused / silent ──► server 2 ──► …
//!     └◄────── wait, jittered, and begin again, until `patience` is over ──────┘
//! ```
//!
//! - Every submit carries an `Idempotency-Key`, created once per submit: repeating it after a broken connection or an
//!   `OUTCOME_UNKNOWN` is safe (E4).
//! - [`Error::exit_code`] follows the one table of refusals, `grid_types::Code`.
//!
//! Not here: output and prompts (`gridc`), TLS.
//! Proxies in the environment are ignored: controllers are in the operator's own network, and a proxy that answers for a dead
//! controller would look like a controller that refuses.

#![warn(missing_docs)]

mod backup;
mod call;
mod client;
mod clock;
mod cluster;
mod error;
mod events;
mod key;
mod lines;
mod logs;
mod nodes;
mod server;
mod token;

pub use backup::{BackupHead, BackupScope, BackupStream};
pub use client::{Client, JobsQuery, OnceSteps, Options, ResultsQuery};
pub use error::{Error, Refusal};
pub use events::{EventStream, EventsQuery};
pub use key::IdempotencyKey;
pub use logs::{LogStream, LogsQuery, RawOutput, RawQuery};
pub use nodes::Removal;
pub use server::{ServerUrl, parse_servers};
pub use token::Token;
