//! Schemas of the request bodies that are read by hand, not by serde: jobs and the requests of plain HTTP agents.
//!
//! The handlers name them in their OpenAPI attributes, and `document` writes them out.

pub mod agent_body;
pub mod job_body;

pub use agent_body::{LeasesBody, ResultBody};
pub use job_body::{EpochBody, JobBody};

pub const JOB_ID: &str = "^job-[0-7][0-9a-hjkmnp-tv-z]{12}$";
pub const NAME: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";
