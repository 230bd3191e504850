//! The store from outside: a state machine drives it, and what it gives back is compared with the state.

mod backups;
mod copies;
mod documents;
mod events;
mod files;
mod outputs;
mod pages;
mod pruning;
mod random;
mod round_trip;
mod runs;
mod sealed;
mod together;
mod world;
