//! The worker: registers with the leader, runs the leases it is offered, and never runs a `once` lease twice.
//!
//! [`run`] wires the real machine; [`run_with`] takes the seams (clock, processes, network) from a simulator or a test.
//! Not here: anything of the controller. What travels between them is `grid_fabric`'s and `grid_proto`'s.

pub mod allow;
pub mod backends;
pub mod book;
mod config;
mod connect;
mod directory;
pub mod engine;
mod environment;
pub mod exec;
mod facts;
mod folder;
mod inbox;
pub mod journal;
pub mod lease;
mod left_over;
mod logs;
pub mod output;
pub mod process;
mod programs;
mod shutdown;
mod space;
mod start;
mod wires;
mod worker;

pub use config::{Ready, WorkerConfig, WorkerError};
pub use directory::{Directory, Found, HttpDirectory};
pub use environment::check_name as check_variable_name;
pub use left_over::{LeftOver, end_left_over};
pub use shutdown::{Shutdown, ShutdownHandle};
pub use start::{Seams, run, run_with};
