//! One measured case of a benchmark: its set-up and its results.

use serde::Serialize;

/// The case of the benchmark `worker` that a floor is about.
pub const IN_PROCESS: &str = "in-process steps";

/// The case of `fanout` over NATS with the consumers of the first design as its baseline.
pub const DURABLE: &str = "barrier, durable consumers";

/// One measured case. Fields that do not apply are empty.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    pub bench: &'static str,
    pub case: String,
    #[serde(flatten)]
    pub setup: Setup,
    #[serde(flatten)]
    pub found: Found,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Setup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<&'static str>,
    /// Sessions that share a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_connection: Option<u32>,
    /// Of the baseline, where they are others than those of Grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_workers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Number of durable results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Found {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_p50_ms: Option<f64>,
    /// Ratio to the baseline: of times if there are any, otherwise of rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results_per_s: Option<f64>,
    /// Of the leader's process, or of the worker's if the worker is under test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results_per_cpu_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_per_s: Option<f64>,
    /// CPU of the process under test, user and system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// CPU of the nats-server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_cpu_s: Option<f64>,
    /// Of all streams of the nats-server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumers: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_kib_per_session: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes_per_result: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_exponent: Option<f64>,
}
