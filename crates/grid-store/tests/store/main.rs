//! The store from outside: a state machine drives it, and what it gives back is compared with the state.

mod backups;
mod changed;
mod copies;
mod events;
mod files;
mod outputs;
mod pages;
mod pruning;
mod random;
mod round_trip;
mod rows;
mod runs;
mod sealed;
mod together;
mod world;
