//! The worker: registers with the leader, runs the leases it is offered, and never runs a `once` lease twice.
//!
//! ```text
//!   engine   decides: a value without I/O          seams    traits for clock, randomness, processes, disk, network
//!   worker   moves its inputs and outputs          machine  the real ones
//!      |
//!      +-- data_dir  journal, outputs, identity    allow    what callers may do here
//!      +-- run       leases, backends              config, start, shutdown, error
//!      `-- session   the way to the leader
//! ```
//!
//! [`run`](fn@run) wires the real machine; [`run_with`] takes the seams from a simulator or a test.
//! Not here: anything of the controller. What travels between them is `grid_fabric`'s and `grid_proto`'s.

pub mod allow;
mod config;
pub mod data_dir;
pub mod engine;
mod error;
pub mod machine;
pub mod run;
pub mod seams;
mod session;
mod shutdown;
mod start;
mod worker;

pub use allow::check_name as check_variable_name;
pub use config::{Ready, WorkerConfig};
pub use error::WorkerError;
pub use shutdown::{Shutdown, ShutdownHandle};
pub use start::{LeftOver, end_left_over, run, run_by, run_with};
