//! Defines how much goes wrong.

/// Chances are in percent, of one message or one moment. The default is a network that only delays.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Messages of a session that never arrive, in both directions.
    pub lost: u64,
    /// Messages that arrive a second time, later.
    pub repeated: u64,
    /// Messages that are delayed by seconds instead of milliseconds.
    pub slow: u64,
    /// Leases that end with an error.
    pub failing: u64,
    /// Chances of each, once a second.
    pub restart: u64,
    pub reboot: u64,
    pub leader_change: u64,
    pub broken_stream: u64,
    /// A worker's process that is stopped for some seconds.
    pub frozen: u64,
    /// A leader that is cut off, or paused, for some seconds.
    pub mandate: u64,
}

impl Faults {
    /// All kinds at once.
    #[must_use]
    pub fn all() -> Self {
        Self {
            lost: 5,
            repeated: 5,
            slow: 3,
            failing: 10,
            restart: 5,
            reboot: 3,
            leader_change: 4,
            broken_stream: 5,
            frozen: 3,
            mandate: 3,
        }
    }
}
