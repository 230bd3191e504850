//! Defines what a worker reaches the world through: disk, randomness, clock, processes, network and directory of controllers.
//!
//! `machine` has the real ones; tests and simulators use others. The trait of the clock is in `grid_types::clock`, that of the
//! network in `grid_fabric`.
//! Not injected: the files of outputs and working folders (`data_dir`), since nothing that must never run twice depends on them.

mod directory;
mod disk;
mod processes;
mod random;

use std::path::PathBuf;
use std::sync::Arc;

use grid_types::clock::Clock;

pub use directory::{Directory, Found};
pub(crate) use directory::{authority, fabric_address};
pub use disk::{Disk, Survives, SyncFile};
pub use processes::{Exit, MARK, Processes, Program, Signal, Spawned, Variable};
pub use random::Random;

/// Opens the disk under the journal with this path.
pub type OpenDisk = Arc<dyn Fn(PathBuf) -> Box<dyn Disk> + Send + Sync>;

/// The machine that a worker runs on. [`crate::machine::host`] is the real one.
#[derive(Clone)]
pub struct Host {
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub processes: Arc<dyn Processes>,
    pub disk: OpenDisk,
}

/// The machine, and the ways from it to the controllers.
pub struct Seams<D, R> {
    pub host: Host,
    pub dialer: D,
    pub directory: R,
}
