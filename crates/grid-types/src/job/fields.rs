//! The fields of a job as it is written: what each takes, its default, what it means.
//!
//! The one list of them: the reader refuses what is not in it, and `docs/jobs.md` is made from it.
//! Not here: how a value is checked (`parse`).

/// One field.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in job files.
    pub name: &'static str,
    /// What it takes, for a person.
    pub accepts: &'static str,
    /// Empty: there is none.
    pub default: &'static str,
    /// What it means.
    pub help: &'static str,
}

const fn field(name: &'static str, accepts: &'static str, default: &'static str, help: &'static str) -> Field {
    Field { name, accepts, default, help }
}

/// The fields of a job.
pub const JOB: &[Field; 13] = &[
    field("target", "a target", "required", "the nodes it runs on, frozen when it starts"),
    field("exclude", "a target, but not `any`", "", "nodes of the target that it does not run on"),
    field(
        "limit",
        "a number of nodes, a share like `\"20%\"`, or a target, but not `any`",
        "",
        "it runs only on this part of the nodes that are left: the first of them by id, or those that also match",
    ),
    field(
        "tasks",
        "a list of phases",
        "required",
        "phases, in order; each is decided everywhere before the next begins",
    ),
    field(
        "strategy",
        "`fail-fast`, `continue`",
        "`fail-fast`",
        "`fail-fast`: when more nodes failed than `failure_tolerate` allows, no new step starts, running steps finish, pipelines stop \
         where they are (see `atomic`), later phases are skipped but for `on_failure`, the job is `failed`. `continue`: failed nodes are left out of later phases",
    ),
    field(
        "timeout",
        "a duration",
        "`24h`",
        "of the whole job: what runs is ended, `on_failure` phases still run, the job is `failed`. Waiting for a person does \
         not count",
    ),
    field(
        "failure_tolerate",
        "a number of nodes, or a share like `\"10%\"`, `\"0.1\"`",
        "`0`; with `continue` `\"100%\"`",
        "how many nodes may fail before the job does: counted exactly, after every single result",
    ),
    field(
        "offline",
        "`skip`, `wait`, `fail`",
        "`skip`",
        "a node that is offline (unhealthy, dead, draining or left; `warning` is not) when its turn comes: `skip`: it is skipped by name, and the job's `reason`, \
         `skipped_offline` and last line say so. `wait`: the job waits for it. `fail`: the step has failed there, without a retry, and \
         counts against `failure_tolerate`. `on_failure` phases always skip such nodes",
    ),
    field(
        "on_unknown",
        "`fail`, `wait`",
        "`fail`",
        "`fail`: a step whose outcome nobody knows counts as failed. `wait`: a person says how it ended (`gridc job resolve`)",
    ),
    field(
        "concurrency",
        "a number of nodes, from 1, or a share like `\"20%\"`",
        "all",
        "the `concurrency` of every phase that has none of its own",
    ),
    field(
        "first",
        "a number of nodes, from 1, or a share like `\"10%\"`",
        "none",
        "the `first` of every phase that has none of its own, but for `on_failure` phases",
    ),
    field("name", "a text of at most 128 characters", "", "for people: shown in lists and events, need not be unique"),
    field(
        "labels",
        "an object of at most 32 names",
        "`{}`",
        "keys and values by the rule for names: shown with the job and its events, and filtered by (`gridc job list --label`)",
    ),
];

/// What makes a phase one task.
pub const LEAF: &[Field; 6] = &[
    field("backend", "the name of a backend", "required", "who does it"),
    field("action", "the name of an action", "required", "what is done"),
    field("params", "an object", "`{}`", "the parameters of the action, as it declares them"),
    field(
        "timeout",
        "a duration",
        "the action's, or `5m`",
        "counted on the worker, from the start of the process; then the whole process group is ended",
    ),
    field(
        "max_retries",
        "a number from 0 to 100",
        "`0`",
        "further attempts on a node where it failed, after 1, 2, 4 … 30 s; a `once` step only after a definite failure",
    ),
    field(
        "effect",
        "`pure`, `idempotent`, `once`",
        "the action's",
        "only where the action lets the caller choose (`command run`, `script run`): what running it a second time means. `once` is never \
         repeated automatically when nobody knows how it ended; the others are",
    ),
];

/// The fields of a phase.
pub const PHASE: &[Field; 7] = &[
    field(
        "tasks",
        "a list of tasks",
        "",
        "instead of backend and action: a pipeline that each node walks alone, without waiting for the others. Not nested further",
    ),
    field(
        "condition",
        "`always`, `on_success`, `on_failure`",
        "`always`",
        "looks at the job: whether anything has failed in an earlier phase. After fail-fast or the job's timeout only `on_failure` \
         phases run; `nodes` says where",
    ),
    field(
        "nodes",
        "`failed`, `healthy`, `all`",
        "after fail-fast or the job's timeout `all`; when the failures were tolerated `failed`; if nothing failed, but a phase reached \
         no node, `all`",
        "only with `condition: on_failure`: the nodes it runs on, chosen when the phase begins. `failed`: a step failed there in this \
         run. `healthy`: no step failed there. Nodes that are offline then are skipped, whatever `offline` says, and a clean-up that \
         reaches no node does not fail the job",
    ),
    field(
        "concurrency",
        "a number of nodes, from 1, or a share like `\"20%\"`",
        "the job's, or all",
        "how many nodes may be in the phase at once: a rolling window; a share is rounded down, and at least 1. A node keeps its place until the phase ends there, retries \
         included; one that is away takes none before it has begun",
    ),
    field("confirm", "`true`, `false`", "`false`", "the phase begins only after `gridc job confirm`"),
    field(
        "first",
        "a number of nodes, from 1, or a share like `\"10%\"`",
        "the job's, or none",
        "a canary: so many nodes run the phase, the others only after `gridc job confirm`. They are the first by id of the nodes that have \
         something to do and are online when the phase begins; offline ones only if there are no others. A share is of the job's nodes, rounded \
         down, and at least 1. The job waits when they are through, whether they failed or not, unless that failed the job or no other node has anything \
         to do. Every run of the job begins with them. Not on `on_failure` phases",
    ),
    field(
        "atomic",
        "`true`, `false`",
        "`false`",
        "only on a pipeline: a node that has begun it is walked to its end although fail-fast tripped elsewhere; its retries and waits \
         go on, its failures count, and `on_failure` phases wait for it. Nodes that have not begun it are skipped. Cancel and the job's \
         timeout still end it. Without it running steps finish and pipelines stop, so a node may be left half-way",
    ),
];

/// What a task inside a pipeline has besides those of [`LEAF`].
pub const IN_PIPELINE: &[Field; 1] = &[field(
    "condition",
    "`always`, `on_success`, `on_failure`, `on_changed`",
    "`always`",
    "looks at that node: whether an earlier task of the pipeline failed there. After a failure only `on_failure` tasks run there, also if that \
     failure tripped fail-fast; on the other nodes the pipeline then stops where it is, and its `on_failure` tasks are skipped. `on_changed`: only if an \
     earlier task of the pipeline changed something there. A result says so where its action knows it (`changed`, as `file put` does); otherwise a task \
     that is not `pure` counts as a change, and so does one that an earlier run of the job completed: a restart too many is better than a missed one",
)];

/// The fields of a target.
pub const TARGET: &[Field; 2] = &[
    field("scope", "`all`, `any`, `node`, `group`, `labels`, `facts`, `where`", "required", "which kind of target"),
    field(
        "value",
        "what follows the colon in the text; of `where` an expression",
        "",
        "of `node` ids, of `group` names, of `labels` what a node must carry, of `facts` comparisons; `all` and `any` have none",
    ),
];

/// The names of one list.
pub(super) const fn names<const N: usize>(fields: &[Field; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = fields[i].name;
        i += 1;
    }
    names
}

/// The names of two lists.
pub(super) const fn joined<const A: usize, const B: usize, const N: usize>(
    first: &[Field; A],
    second: &[Field; B],
) -> [&'static str; N] {
    assert!(A + B == N, "every field has its place");
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = if i < A { first[i].name } else { second[i - A].name };
        i += 1;
    }
    names
}
