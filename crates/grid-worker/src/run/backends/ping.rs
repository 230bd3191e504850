//! `ping`: answers from inside the worker; starts no process.

use std::sync::Arc;

use grid_types::decl::Params;

use super::{Backend, Run, params};
use crate::run::lease::LeaseContext;

pub(super) struct Ping;

impl Backend for Ping {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        Box::pin(async move {
            match action.as_str() {
                "echo" => context.write(format!("{}\n", params::text(&given, "message").unwrap_or("pong")).as_bytes()),
                "hostname" => context.write(format!("{}\n", crate::machine::hostname()).as_bytes()),
                "sleep" => tokio::time::sleep(params::required_duration(&given, "duration")?).await,
                other => return Err(format!("ping has no action {other}")),
            }
            Ok(())
        })
    }
}
