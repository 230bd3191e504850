//! Enforces the order of a controller's locks: the state, then the leader, each at most once per thread.
//!
//! A second look at the state behind a waiting writer never returns, and the thread that applies waits with it: the
//! controller would hang while its heartbeats go on. So code that breaks the order fails at once, in every test: debug
//! builds keep a mark per thread and panic. Guards never cross an `await`, so a thread's marks are its own.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    State = 0,
    Leader = 1,
}

thread_local! {
    static HELD: Cell<u8> = const { Cell::new(0) };
}

/// A guard that knows its place in the order.
pub struct Locked<G> {
    guard: G,
    _mark: Mark,
}

struct Mark {
    rank: Rank,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Mark {
    fn new(rank: Rank) -> Self {
        if cfg!(debug_assertions) {
            let held = HELD.get();
            assert!(held >> (rank as u8) == 0, "{rank:?} is locked after a lock of its rank or a later one: {held:#b}");
            HELD.set(held | 1 << (rank as u8));
        }
        Self { rank, here: PhantomData }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            HELD.set(HELD.get() & !(1 << (self.rank as u8)));
        }
    }
}

impl<G> Locked<G> {
    pub fn lock(rank: Rank, lock: impl FnOnce() -> G) -> Self {
        let _mark = Mark::new(rank);
        Self { guard: lock(), _mark }
    }
}

impl<G: Deref> Deref for Locked<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Locked<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, RwLock};

    use super::{Locked, Rank};

    #[test]
    fn in_order_and_again_after_the_end_is_fine() {
        let (state, leader) = (RwLock::new(1), Mutex::new(2));
        for _ in 0..2 {
            let state = Locked::lock(Rank::State, || state.read().unwrap());
            let mut leader = Locked::lock(Rank::Leader, || leader.lock().unwrap());
            *leader += *state;
            drop(state);
        }
        assert_eq!(*leader.lock().unwrap(), 4);
    }

    #[test]
    #[should_panic(expected = "State is locked after")]
    fn a_second_look_at_the_state_is_told() {
        let state = RwLock::new(1);
        let _first = Locked::lock(Rank::State, || state.read().unwrap());
        let _second = Locked::lock(Rank::State, || state.read().unwrap());
    }

    #[test]
    #[should_panic(expected = "State is locked after")]
    fn the_state_behind_the_leader_is_told() {
        let (state, leader) = (RwLock::new(1), Mutex::new(2));
        let _leader = Locked::lock(Rank::Leader, || leader.lock().unwrap());
        let _state = Locked::lock(Rank::State, || state.read().unwrap());
    }
}
