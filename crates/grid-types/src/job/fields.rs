//! Lists the fields of a job file: the values of each, its default and its meaning.
//!
//! There is no other list: the parser refuses fields that are not in it, and `docs/jobs.md` is generated from it.
//! Not here: how a value is checked (`parse`).

/// One field.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in job files.
    pub name: &'static str,
    /// The values that it accepts, as documentation.
    pub accepts: &'static str,
    /// Empty: no default.
    pub default: &'static str,
    /// The meaning, as documentation.
    pub help: &'static str,
}

const fn field(name: &'static str, accepts: &'static str, default: &'static str, help: &'static str) -> Field {
    Field { name, accepts, default, help }
}

/// The fields of a job.
pub const JOB: &[Field; 13] = &[
    field("target", "a target", "required", "the nodes that the job runs on, resolved when it starts"),
    field("exclude", "a target other than `any`", "", "nodes of the target that the job does not run on"),
    field(
        "limit",
        "a number of nodes, a share like `\"20%\"`, or a target other than `any`",
        "",
        "runs the job on a part of the remaining nodes: the first ones by id, or those that also match the target",
    ),
    field(
        "tasks",
        "a list of phases",
        "required",
        "the phases, in order; a phase starts when the previous one is decided on every node",
    ),
    field(
        "strategy",
        "`fail-fast`, `continue`",
        "`fail-fast`",
        "`fail-fast`: when more nodes have failed than `failure_tolerate` allows, no new step starts, running steps finish, pipelines stop \
         after their current step (see `atomic`), later phases are skipped except `on_failure` phases, and the job is `failed`. `continue`: failed \
         nodes take no part in later phases",
    ),
    field(
        "timeout",
        "a duration",
        "`24h`",
        "how long the whole job may take. After that, running steps are stopped, `on_failure` phases still run, and the job is `failed`. Time \
         spent waiting for an operator does not count",
    ),
    field(
        "failure_tolerate",
        "a number of nodes, or a share like `\"10%\"`, `\"0.1\"`",
        "`0`; with `continue` `\"100%\"`",
        "how many nodes may fail before the job fails; checked after every result",
    ),
    field(
        "offline",
        "`skip`, `wait`, `fail`",
        "`skip`",
        "what happens to a node that is offline when it should run a step. Offline are `unhealthy`, `dead`, `draining` and `left`, but not `warning`. `skip`: the \
         step is skipped on the node; the job's `reason` and `skipped_offline` and the last line of `gridc` report it. `wait`: the job waits for the node. `fail`: the step \
         fails on the node, is not retried, and counts against `failure_tolerate`. `on_failure` phases always skip offline nodes",
    ),
    field(
        "on_unknown",
        "`fail`, `wait`",
        "`fail`",
        "`fail`: a step with an unknown outcome counts as failed. `wait`: the job waits until an operator resolves the step (`gridc job resolve`)",
    ),
    field(
        "concurrency",
        "a number of nodes, from 1, or a share like `\"20%\"`",
        "all",
        "the default `concurrency` of phases",
    ),
    field(
        "first",
        "a number of nodes, from 1, or a share like `\"10%\"`",
        "none",
        "the default `first` of phases, except `on_failure` phases",
    ),
    field(
        "name",
        "a text of at most 128 characters",
        "",
        "a name for display in lists and events; not necessarily unique",
    ),
    field(
        "labels",
        "an object of at most 32 names",
        "`{}`",
        "keys and values follow the rule for names. Labels are shown with the job and its events, and lists can be filtered by them (`gridc job list --label`)",
    ),
];

/// The fields of a task.
pub const LEAF: &[Field; 6] = &[
    field("backend", "the name of a backend", "required", "the backend that runs the task"),
    field("action", "the name of an action", "required", "the action of the backend"),
    field("params", "an object", "`{}`", "the parameters of the action"),
    field(
        "timeout",
        "a duration",
        "the action's, or `5m`",
        "measured on the worker, from the start of the process; after that, the whole process group is killed",
    ),
    field(
        "max_retries",
        "a number from 0 to 100",
        "`0`",
        "how often a failed task is retried on a node, after 1, 2, 4 … 30 s; a `once` task is retried only if it definitely failed",
    ),
    field(
        "effect",
        "`pure`, `idempotent`, `once`",
        "the action's",
        "whether the task may run a second time; only for actions that leave this to the caller (`command run`, `script run`). After an unknown \
         outcome, `once` tasks are never repeated automatically; the others are",
    ),
];

/// The fields of a phase.
pub const PHASE: &[Field; 7] = &[
    field(
        "tasks",
        "a list of tasks",
        "",
        "a pipeline, instead of `backend` and `action`: each node runs the tasks in order, without waiting for other nodes. Pipelines cannot be nested",
    ),
    field(
        "condition",
        "`always`, `on_success`, `on_failure`",
        "`always`",
        "when the phase runs, depending on whether a step failed in an earlier phase of the job. After fail-fast or the job's timeout only \
         `on_failure` phases run; `nodes` selects their nodes",
    ),
    field(
        "nodes",
        "`failed`, `healthy`, `all`",
        "`all` after fail-fast or the job's timeout; `failed` if the failures were tolerated; `all` if nothing failed but a phase reached no \
         node",
        "only with `condition: on_failure`: the nodes of the phase, selected when it starts. `failed`: nodes on which a step failed in this \
         run. `healthy`: nodes on which no step failed. Offline nodes are skipped, regardless of `offline`. A clean-up phase that reaches no node does \
         not fail the job",
    ),
    field(
        "concurrency",
        "a number of nodes, from 1, or a share like `\"20%\"`",
        "the job's, or all",
        "how many nodes may run the phase at once, as a rolling window. A share is rounded down to at least 1. A node leaves the window when it has finished the phase, \
         including retries; an offline node takes no place before it has started",
    ),
    field("confirm", "`true`, `false`", "`false`", "the phase starts only after `gridc job confirm`"),
    field(
        "first",
        "a number of nodes, from 1, or a share like `\"10%\"`",
        "the job's, or none",
        "a canary: this many nodes run the phase first, the others after `gridc job confirm`. Grid selects the first nodes by id that have work in the \
         phase and are online when it starts; offline nodes only if no others exist. A share refers to the job's nodes and is rounded down to at least \
         1. When these nodes have finished, successfully or not, the job waits, unless the job has failed or no other node has work in the phase. Every run of \
         the job starts with the canary. Not allowed in `on_failure` phases",
    ),
    field(
        "atomic",
        "`true`, `false`",
        "`false`",
        "only for pipelines: a node that has started the pipeline completes it even after fail-fast. Its retries and waits continue, its failures \
         count, and `on_failure` phases wait for it. Nodes that have not started the pipeline are skipped. A cancel and the job's timeout \
         still stop it. Without `atomic`, a node finishes its current step only, so it may be left half-way through the pipeline",
    ),
];

/// The fields of a task in a pipeline, in addition to [`LEAF`].
pub const IN_PIPELINE: &[Field; 1] = &[field(
    "condition",
    "`always`, `on_success`, `on_failure`, `on_changed`",
    "`always`",
    "when the task runs, depending on whether an earlier task of the pipeline failed on the same node. After a failure only `on_failure` tasks run on the \
     node, even if that failure triggered fail-fast; on the other nodes the pipeline then stops after its current task, and its `on_failure` tasks are skipped. \
     `on_changed`: only if an earlier task of the pipeline changed something on the node. Some actions report whether they did (`changed`, such as `file put`); for \
     the others, a task that is not `pure` counts as a change. So do a task that an earlier run of the job completed, an attempt of an earlier run that may have run and did not succeed, \
     and a lease that was taken back from its worker or lost in a restore and may have run: an unnecessary restart is better than a missing one",
)];

/// The fields of a target.
pub const TARGET: &[Field; 2] = &[
    field("scope", "`all`, `any`, `node`, `group`, `labels`, `facts`, `where`", "required", "the kind of target"),
    field(
        "value",
        "the part after the colon in the text form; for `where` an expression",
        "",
        "for `node` ids, for `group` names, for `labels` the labels that a node must have, for `facts` comparisons; none for `all` and `any`",
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
