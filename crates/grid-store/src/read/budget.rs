//! Bounds a page by its bytes: rows alone do not bound an answer, because a row may be 20 KiB or, of a job, more than 1 MiB.

use std::io::{self, Write};

use serde::Serialize;

/// Of one page, about as JSON has it; one row may exceed it.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

pub(super) struct Budget {
    left: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: PAGE_BYTES }
    }
}

impl Budget {
    /// A part of a row goes into the page.
    pub fn spend_bytes(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// The same, for a part that JSON may make longer.
    pub fn spend(&mut self, row: &impl Serialize) {
        let mut counter = Counter(0);
        // Writing to a counter cannot fail, and what cannot be serialized is refused later.
        let _ = serde_json::to_writer(&mut counter, row);
        self.spend_bytes(counter.0);
    }

    /// Whether the page ends here.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
