//! What the leader reads of an ended job to resume it, made of rows as the store has them.

use std::collections::BTreeMap;

use grid_core::{Bits, Command, ResumeJob};
use grid_types::job::JobSpec;
use grid_types::{JobId, Outcome};

use crate::rig::Rig;

pub fn resume_command(rig: &Rig, id: JobId) -> Command {
    let job = rig.job(id);
    let mut done: BTreeMap<_, Bits> = BTreeMap::new();
    for row in rig.results.iter().filter(|row| row.job == id && row.outcome == Outcome::Success) {
        if !job.spec.is_cleanup(row.step) {
            done.entry(row.step).or_default().set(job.position(row.node).unwrap());
        }
    }
    Command::ResumeJob(ResumeJob {
        namespace: job.head.namespace.clone(),
        job: id,
        epoch: job.head.epoch,
        spec: JobSpec::clone(&job.spec),
        expected: job.expected.clone(),
        done,
        created_wall_ms: job.head.created_wall_ms,
    })
}
