//! Defines how controller and worker logic read time, so that a simulator can replace it.
//!
//! Monotonic time is used for decisions (timeouts, liveness, `State.now`); wall time is only displayed (W6).

/// A source of time. `mono_ms` never goes back and has an arbitrary origin.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time in milliseconds, from an arbitrary start.
    fn mono_ms(&self) -> u64;
    /// Wall-clock time in milliseconds since 1970.
    fn wall_ms(&self) -> u64;
}

/// The machine's clock.
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// The clock of this machine; its monotonic time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn mono_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn wall_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
