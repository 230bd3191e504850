//! Limits of everything that comes from outside. A limit is part of the contract: the error that it causes names it.

/// L4: steps of one job.
pub const MAX_STEPS: usize = 1_000;
/// J8: runs of one job.
pub const MAX_RUNS: u32 = 100;
/// J8: runs that a job's document shows; the others are paged.
pub const SHOWN_RUNS: usize = 20;
/// L4: rows of one job.
pub const MAX_ROWS: usize = 2_000_000;
/// Largest accepted request body.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Retries of one task.
pub const MAX_RETRIES: u32 = 100;
/// Longest duration accepted anywhere.
pub const MAX_SPAN_MS: u64 = 365 * 24 * 3600 * 1000;
/// Longest text parameter.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Items of one list or map among the parameters.
pub const MAX_ITEMS: usize = 1_000;
/// Bytes of all items of one list or map among the parameters: a program usually accepts 2 MiB of arguments and variables.
pub const MAX_ITEMS_BYTES: usize = 128 * 1024;
/// Longest parameter that becomes an argument of a program.
pub const MAX_WORD_BYTES: usize = 255;
/// Longest `Idempotency-Key`.
pub const MAX_KEY_BYTES: usize = 128;
/// How long an idempotency key is kept (L8).
pub const KEY_TTL_MS: u64 = 24 * 3600 * 1000;
/// Maximum number of idempotency keys (L8): beyond it a submit with a new key is refused.
pub const MAX_KEYS: usize = 500_000;
/// J7: a task's timeout when neither the task nor its action sets one.
pub const DEFAULT_TASK_TIMEOUT_MS: u64 = 5 * 60 * 1000;
/// J3: a job's timeout when the job sets none.
pub const DEFAULT_JOB_TIMEOUT_MS: u64 = 24 * 3600 * 1000;
/// Admission defaults.
pub const MAX_CONCURRENT: u32 = 5;
/// Jobs that wait for a place to run; beyond it a submit is refused.
pub const MAX_PENDING: u32 = 100;
/// Unfinished jobs that wait for an operator or for offline nodes and have freed their `max_concurrent` place (J3).
pub const MAX_WAITING: u32 = 1_000;
/// Plain HTTP agents that are registered at once, offline ones included.
pub const MAX_AGENTS: usize = 10_000;
/// An agent that has not polled for this long and that no stored job names is removed.
pub const AGENT_SILENT_MS: u64 = 24 * 3600 * 1000;
/// Finished jobs that are kept; beyond it the oldest leave with their history, however young they are.
pub const MAX_ENDED_JOBS: usize = 1_000_000;
/// How long finished jobs are kept (L6).
pub const HISTORY_MS: u64 = 30 * 24 * 3600 * 1000;
/// L1: bounds of one merged entry.
pub const MAX_ENTRY_COMMANDS: usize = 4_096;
/// L1: bytes of one merged entry.
pub const MAX_ENTRY_BYTES: usize = 2 * 1024 * 1024;
/// Part of an output that a result carries.
pub const OUTPUT_TAIL_BYTES: usize = 16 * 1024;
/// Whole output of one lease kept on the worker.
pub const OUTPUT_CAP_BYTES: u64 = 64 * 1024 * 1024;
/// Longest error or reason text in a result.
pub const MAX_ERROR_BYTES: usize = 4 * 1024;
/// Groups of one node.
pub const MAX_GROUPS: usize = 64;
/// Labels of one node.
pub const MAX_LABELS: usize = 64;
/// Bytes of a target as text: 64 labels of the maximum length fit.
pub const MAX_TARGET_BYTES: usize = 24 * 1024;
/// Levels of parentheses, `not` and shares in a target.
pub const MAX_TARGET_DEPTH: usize = 16;
/// Terms, patterns, labels and comparisons of a target: the tests on each node.
pub const MAX_TARGET_TESTS: usize = 64;
/// Facts of one node that targets can compare.
pub const MAX_FACTS: usize = 128;
/// Characters of a job's name.
pub const MAX_JOB_NAME_CHARS: usize = 128;
/// Labels of one job.
pub const MAX_JOB_LABELS: usize = 32;
/// Maximum length of any other fact that a node reports, such as its host name.
pub const MAX_FACT_BYTES: usize = 255;
/// Everything that a node reports about itself, encoded.
pub const MAX_FACTS_BYTES: usize = 16 * 1024;
/// Bytes that every node may use for its facts; the excess of all nodes is bounded in total. A usual node needs a third.
pub const FACTS_SHARE_BYTES: usize = 2 * 1024;
/// Facts of all nodes together, above [`FACTS_SHARE_BYTES`] for each of them.
pub const MAX_EXTRA_FACTS_BYTES: usize = 64 * 1024 * 1024;
/// Nodes that are registered at once, offline ones and agents included, unless the leader is configured otherwise.
pub const MAX_NODES: u32 = 200_000;
/// Maximum number of slots of one node.
pub const MAX_SLOTS: u32 = 1_024;
/// Slots of a worker that does not set them.
pub const DEFAULT_SLOTS: u32 = 8;
