//! Builds the command of `resume` and `retry`, which carries what the store knows of an ended job (L8), or refuses it.
//!
//! A retry is a resume on the nodes where something failed, and nowhere else; what the others miss is said up front.
//! W8: once-only steps that may have run already are named and need `rerun_once`. E2: of a job from before a restore these
//! are all that have not succeeded, because it may have been resumed after the backup, but for those that a complete journal
//! excludes. Journals are asked about jobs that were unfinished in the backup; of one that had ended then nothing is known,
//! although a journal may know it for a day. To ask every worker about every ended job of the history would cost more than to
//! ask an operator about the few that are resumed, and not to ask at all is the safe side. W9: nothing goes on before every node has
//! confirmed that nothing of the last run is left.
//! Not here: what then runs (`grid-core`), the reading (`grid-store`).

use grid_core::ResumeJob;
use grid_store::Resumable;
use grid_types::Code;

use crate::control::{Refusal, Rerun};

/// The command, and what an operator should know besides. `generation`: of this cluster.
pub fn command(found: Resumable, wanted: Rerun, generation: u32) -> Result<(ResumeJob, Option<String>), Refusal> {
    let job = found.head.id;
    let verb = if wanted.failed_only { "retry" } else { "resume" };
    let conflict = |why: String| Err(Refusal::new(Code::Conflict, why));
    if !found.head.status.is_ended() {
        return conflict(format!("{job} has not ended, it is {}; there is nothing to {verb}", found.head.status));
    }
    if found.live {
        return conflict(format!("{job} waits for nodes to confirm that nothing of it runs; {verb} it then"));
    }
    let elsewhere = found.missing_elsewhere();
    // One that found no nodes when it started looks for them again when it is resumed.
    if found.missing() == 0 && (wanted.failed_only || !found.expected.is_empty()) {
        return conflict(match (wanted.failed_only, elsewhere) {
            (false, _) => format!("{job} has nothing left to do"),
            (true, 0) => format!("nothing of {job} has failed; there is nothing to retry"),
            (true, _) => {
                let them = miss(elsewhere, "");
                format!("nothing of {job} has failed, but {them} parts: gridc job resume {job} runs them")
            }
        });
    }
    // E2: what ran of it after the backup that was restored is not known here.
    let restored = found.head.restored.is_some() || found.head.leader_epoch.generation < generation;
    if !wanted.rerun_once && !found.doubtful.is_empty() {
        let places: Vec<_> = found.doubtful.iter().map(|(step, node)| format!("step {step} on {node}")).collect();
        let had_ended = found.head.leader_epoch.generation < generation;
        let since = match (restored, had_ended) {
            (true, true) => {
                ", if the job was resumed after the backup that was restored (it had ended in the backup, so the workers were \
                 not asked about it)"
            }
            (true, false) => ", perhaps after the backup that was restored",
            (false, _) => "",
        };
        return conflict(format!(
            "these once-only steps may have run already{since}: {}; look there, and {verb} with --rerun-once (rerun_once) \
             to run them again",
            places.join(", ")
        ));
    }
    let note = (elsewhere > 0).then(|| {
        let them = miss(elsewhere, "other ");
        let are = if elsewhere == 1 { "is" } else { "are" };
        format!("{them} parts and {are} left alone: gridc job resume {job} runs those afterwards")
    });
    let command = ResumeJob {
        namespace: found.head.namespace,
        job,
        epoch: found.head.epoch,
        spec: found.spec,
        expected: found.expected,
        done: found.done,
        created_wall_ms: found.head.created_wall_ms,
        only: found.only,
        restored: restored.then_some(wanted.rerun_once),
        run: found.head.run,
        complete_journals: found.complete_journals,
        unchanged: found.unchanged,
        changed: found.changed,
    };
    Ok((command, note))
}

fn miss(nodes: usize, which: &str) -> String {
    if nodes == 1 { format!("1 {which}node misses") } else { format!("{nodes} {which}nodes miss") }
}
