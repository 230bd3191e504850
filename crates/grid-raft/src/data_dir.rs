//! Manages the data folder of a member: its parts, its lock, and the ids in it.
//!
//! Not here: the log (`log`), snapshots (`snapshots`), the check of a whole folder at start (`start::checked_folder`).

pub mod folder;
pub mod local_member;
