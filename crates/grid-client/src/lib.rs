//! A typed client of the HTTP API: any controller will do, the leader is found.
//!
//! ```text
//!   call ──► server 1 ──NOT_LEADER(url)──► leader ──► answer
//!     │         └─ refused / silent ──► server 2 ──► …
//!     └◄────── wait, jittered, and begin again, until `patience` is over ──────┘
//! ```
//!
//! - Every submit carries an `Idempotency-Key`, made once per submit: to repeat it after a broken connection or an
//!   `OUTCOME_UNKNOWN` is safe (E4).
//! - [`Error::exit_code`] follows the one table of refusals, `grid_types::Code`.
//!
//! Not here: anything that prints or asks (`gridc`), TLS.
//! Proxies named in the environment are ignored: a controller is a machine of one's own network, and a proxy that
//! answers for a dead one would look like a controller that refuses.

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

pub use backup::{BackupHead, BackupStream};
pub use client::{Client, JobsQuery, Options, ResultsQuery};
pub use error::{Error, Refusal};
pub use events::{EventStream, EventsQuery};
pub use key::IdempotencyKey;
pub use logs::{LogStream, LogsQuery, RawOutput, RawQuery};
pub use server::{ServerUrl, parse_servers};
pub use token::Token;
