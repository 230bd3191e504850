//! Provides what a lease has while it runs: its output, its programs, its working folder, its blocking calls.
//!
//! Backends see a [`LeaseContext`] and nothing else of the worker. Not here: when a lease starts and stops (`executor`), what its
//! actions do (`backends`).

mod blocking;
mod call;
mod context;
mod gate;

use std::sync::Arc;
use std::time::Duration;

use grid_types::clock::Clock;
use grid_types::{Attempt, JobEpoch, LeaseKey, NodeId, StepIndex};
use tokio::sync::Semaphore;

use super::environment::Environment;
use crate::data_dir::WorkFolders;
use crate::data_dir::output::Outputs;
use crate::seams::Processes;
pub use blocking::blocking_places;
pub use call::{Call, Finished};
pub(crate) use context::Cleared;
pub use context::LeaseContext;
pub use gate::{EffectGate, Entered};

/// From SIGTERM to SIGKILL, and from the end of a lease to giving up a blocking call.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// What every lease of this worker shares.
pub struct Surroundings {
    pub node_id: NodeId,
    /// Tells this data folder's processes from those of any other.
    pub folder_mark: String,
    pub environment: Environment,
    pub work: WorkFolders,
    pub processes: Arc<dyn Processes>,
    pub outputs: Arc<Outputs>,
    pub clock: Arc<dyn Clock>,
    /// From [`blocking_places`].
    pub blocking_calls: Arc<Semaphore>,
}

impl Surroundings {
    /// The mark in the environment of a lease's processes.
    #[must_use]
    pub fn mark(&self, lease: &LeaseKey) -> String {
        mark(&self.folder_mark, lease)
    }
}

fn mark(folder_mark: &str, lease: &LeaseKey) -> String {
    format!("{folder_mark}/{lease}")
}

/// Whether a mark is of this data folder, and the lease that it names.
pub(crate) fn read_mark(folder_mark: &str, text: &str) -> Option<Option<LeaseKey>> {
    let rest = text.strip_prefix(folder_mark)?.strip_prefix('/')?;
    let lease = || {
        let mut parts = rest.split('/');
        let job = parts.next()?.parse().ok()?;
        let mut number = || parts.next()?.parse::<u32>().ok();
        let (job_epoch, step) = (JobEpoch(number()?), StepIndex(number()?));
        Some(LeaseKey { job, job_epoch, step, attempt: Attempt(number()?) })
    };
    Some(lease())
}

#[cfg(test)]
mod tests {
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    use super::{mark, read_mark};

    #[test]
    fn w1_a_mark_names_its_folder_and_lease() {
        let lease = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
        let text = mark("folder", &lease);
        assert_eq!(read_mark("folder", &text), Some(Some(lease)));
        assert_eq!(read_mark("fold", &text), None, "another folder whose name begins alike");
        assert_eq!(read_mark("folder", "folder/of another version"), Some(None));
    }
}
