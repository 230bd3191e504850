//! Faults of input: every one of them, each with the field it concerns.

use std::fmt;

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field, like `tasks[1].params.package`; empty for the document as a whole.
    pub field: String,
    pub problem: String,
}

/// Collects faults so that a person sees all of them at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Fault { field: field.into(), problem: problem.into() });
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn list(&self) -> &[Fault] {
        &self.0
    }

    /// `Ok(value)` if nothing was found.
    pub fn finish<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            if !fault.field.is_empty() {
                write!(f, "{}: ", fault.field)?;
            }
            f.write_str(&fault.problem)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
