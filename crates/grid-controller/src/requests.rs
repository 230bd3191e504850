//! The controller's side of `control`: mutations become commands, reads are SQL off the async threads.
//!
//! One module for each resource. Each method asks for its permit first; without one nothing can be read or proposed.
//! A mutation answers when its command is applied and stored (L3); why it was refused is looked up in one table
//! (`control::rejections`).
//! Two modules are for clients of a fabric: `intake` takes their jobs, `mirrored` describes the state for them.
//! Not here: who may ask (`control::caller`), the shape of bodies (`grid-api`).

mod agents;
mod cluster;
mod events;
#[cfg(test)]
mod fabric_tests;
mod intake;
mod introspect;
mod jobs;
mod mirrored;
mod nodes;
mod outputs;
mod plan;
mod resume;
#[cfg(test)]
mod tests;
mod waiting;
