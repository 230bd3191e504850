//! Runs one leader, several workers and the log between them on one thread, from a seed.
//!
//! ```text
//!   Simulation: a schedule of events, simulated time, a dice
//!     ├── controller   Leader + State + apply; a queue of proposals that commit a moment later
//!     ├── machine      Engine, its journal, its processes; restarts lose what was not synced
//!     ├── (network)    delays, loses and repeats messages, breaks streams
//!     └── check        what must hold over the whole trace (I7, W7, W8, I9), written without the code that is checked
//! ```
//!
//! `Leader`, `Engine` and `apply` are the real ones. Everything else is simulated here: no tokio, socket, file, thread or real time. The same
//! seed gives the same trace. Development only: no program depends on this crate.
//! Not here: Raft itself. A change of leader commits a prefix of what the leader before had proposed, which is what Raft allows.

mod check;
mod controller;
mod faults;
mod machine;
mod schedule;
mod simulation;

pub use check::{Check, Run};
pub use faults::Faults;
pub use machine::Restart;
pub use simulation::{Simulation, Way};
