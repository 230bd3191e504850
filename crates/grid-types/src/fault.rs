//! Collects the faults of an input, each with its field.

use std::fmt;

/// One fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field, like `tasks[1].params.package`; empty for the document as a whole.
    pub field: String,
    /// The problem.
    pub problem: String,
    /// For a field with a grammar: the number of characters before the fault.
    pub at: Option<usize>,
}

/// Maximum number of faults that are kept by name: a body of 1 MiB can have 100,000, more than an operator reads.
pub const MAX_FAULTS: usize = 1_000;

/// Collects faults so that an operator sees all of them at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    named: Vec<Fault>,
    /// Number of faults beyond [`MAX_FAULTS`].
    more: usize,
}

impl Faults {
    /// Records a fault. Beyond a bound faults are only counted.
    pub fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.push(Fault { field: field.into(), problem: problem.into(), at: None });
    }

    /// The same for a field with a grammar; `at` counts the characters before the fault.
    pub fn add_at(&mut self, field: impl Into<String>, problem: impl Into<String>, at: usize) {
        self.push(Fault { field: field.into(), problem: problem.into(), at: Some(at) });
    }

    fn push(&mut self, fault: Fault) {
        if self.named.len() < MAX_FAULTS {
            self.named.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// Adds the faults of another collection.
    pub fn join(&mut self, other: Self) {
        for fault in other.named {
            self.push(fault);
        }
        self.more += other.more;
    }

    /// Whether there is no fault.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The recorded faults, in the order in which they were found.
    #[must_use]
    pub fn list(&self) -> &[Fault] {
        &self.named
    }

    /// How many more there are than [`Faults::list`] names.
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }

    /// `Ok(value)` if there is no fault.
    pub fn finish<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.named.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            if !fault.field.is_empty() {
                write!(f, "{}: ", fault.field)?;
            }
            f.write_str(&fault.problem)?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

#[cfg(test)]
mod tests {
    use super::{Faults, MAX_FAULTS};

    #[test]
    fn faults_beyond_the_bound_are_counted() {
        let (mut one, mut two) = (Faults::default(), Faults::default());
        one.add("a", "is wrong");
        for _ in 0..MAX_FAULTS + 4 {
            two.add("b", "is wrong");
        }
        one.join(two);
        assert_eq!((one.list().len(), one.more()), (MAX_FAULTS, 5));
        assert!(one.to_string().starts_with("a: is wrong; b: is wrong"));
        assert!(one.to_string().ends_with("; and 5 more"));
    }
}
