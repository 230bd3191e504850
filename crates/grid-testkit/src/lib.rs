//! Runs the real binaries for tests: black box, one machine, real signals.
//!
//! ```text
//!   Cluster, Trio ── Server, Worker, Dev ── Process (one child, its stdout lines, its log)
//!      │                                  │
//!     Api, Gridc                       procfs (who is still alive)
//!
//!   Nats, NatsTrio ── Process (a real NATS server)
//! ```
//!
//! The kit uses Grid as its users do: command lines, HTTP, files, `/proc`. Not here: any crate of Grid. A test that needs one
//! is a unit test and belongs beside the code.
//!
//! The kit panics instead of returning errors. Its callers are tests, and a panic with the last observation explains more than
//! a `?` through ten functions.
//!
//! No fixed sleeps: [`wait_until`] polls with a limit that is generous for a loaded machine.

mod agent;
mod api;
mod bin;
mod browser;
mod cluster;
mod dev;
mod dice;
mod fabric;
mod gridc;
pub mod http2;
mod job;
mod nats;
mod netns;
mod ports;
mod process;
pub mod procfs;
mod pty;
mod raw;
mod record;
mod server;
pub mod spec;
mod stubs;
mod terminal;
mod trio;
mod wait;
mod worker;

pub use agent::Agent;
pub use api::{Answer, Api};
pub use bin::{bin, clean, command};
pub use browser::{Browser, Site};
pub use cluster::Cluster;
pub use dev::Dev;
pub use dice::Dice;
pub use fabric::Fabric;
pub use gridc::{Gridc, Ran};
pub use job::{Job, duration_ms};
pub use nats::{Nats, NatsOptions, NatsTrio, nats_server};
pub use netns::Lan;
pub use ports::free_port;
pub use process::Process;
pub use pty::{Typed, on_terminal};
pub use raw::Raw;
pub use record::{Line, Record};
pub use reqwest::Method;
pub use server::{Server, ServerOptions};
pub use stubs::Stubs;
pub use terminal::Terminal;
pub use trio::Trio;
pub use wait::{LIMIT, ensure, wait_until};
pub use worker::{Worker, WorkerOptions};
