//! Computes the state hash (L7), equal on replicas at one index (I13).
//!
//! Over the canonical encoding of what is stored, and the rolling hash of history. Derived and soft state are in neither.

use blake3::Hasher;
use minicbor::Encode;

use super::State;
use crate::encoding::to_vec;

impl State {
    /// The hash of the whole state.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        put(&mut hasher, &self.meta);
        for node in self.nodes.values() {
            put(&mut hasher, node);
        }
        for job in self.jobs.values() {
            put(&mut hasher, &job.head);
            put(&mut hasher, job.spec.as_ref());
            put(&mut hasher, &job.expected);
            put(&mut hasher, &job.scope);
            put(&mut hasher, &job.cells);
        }
        for (id, stub) in &self.stubs {
            put(&mut hasher, id);
            put(&mut hasher, stub);
        }
        for row in self.keys.values() {
            put(&mut hasher, row);
        }
        *hasher.finalize().as_bytes()
    }
}

fn put<T: Encode<()>>(hasher: &mut Hasher, value: &T) {
    hasher.update(&to_vec(value));
}
