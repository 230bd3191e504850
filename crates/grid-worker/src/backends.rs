//! What a lease can do on this node, one file per backend. What the actions take is declared in `grid_types::decl`.
//!
//! A node runs what its operator allowed: the backends that are on by default and those enabled by name.

mod params;
mod ping;
mod test;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use grid_types::decl::{self, BackendDecl, Params};

use crate::exec::LeaseContext;

/// What a run comes to: `Err` is the result's `error`.
pub type Run = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

pub trait Backend: Send + Sync + 'static {
    /// Dropped when the lease is stopped; whatever must not be cut off goes through the context.
    fn run(&self, context: Arc<LeaseContext>, action: String, params: Params) -> Run;
}

/// The backends of this worker.
pub struct Backends {
    enabled: BTreeMap<&'static str, (&'static BackendDecl, Box<dyn Backend>)>,
}

impl Backends {
    /// `Err`: there is no backend of that name.
    pub fn new(enable: &[String]) -> Result<Self, String> {
        for name in enable {
            if decl::backend(name).is_none() {
                let known: Vec<_> = decl::builtin().iter().map(|backend| backend.name).collect();
                return Err(format!("there is no backend {name:?}; there are {}", known.join(", ")));
            }
        }
        let wanted =
            decl::builtin().iter().filter(|backend| backend.on_by_default || enable.iter().any(|n| n == backend.name));
        let enabled = wanted.filter_map(|backend| Some((backend.name, (backend, implementation(backend.name)?))));
        Ok(Self { enabled: enabled.collect() })
    }

    /// `implementation` in the place of the backend `ping`.
    #[cfg(test)]
    pub(crate) fn single(implementation: Box<dyn Backend>) -> Self {
        let declared = &decl::builtin()[0];
        Self { enabled: BTreeMap::from([(declared.name, (declared, implementation))]) }
    }

    /// Backend → its actions, as registered.
    #[must_use]
    pub fn facts(&self) -> BTreeMap<String, BTreeSet<String>> {
        let actions = |backend: &BackendDecl| backend.actions.iter().map(|action| action.name.to_owned()).collect();
        self.enabled.iter().map(|(name, (backend, _))| ((*name).to_owned(), actions(backend))).collect()
    }

    pub fn find(&self, backend: &str, action: &str) -> Result<&dyn Backend, String> {
        let Some((declared, implementation)) = self.enabled.get(backend) else {
            return Err(format!(
                "backend {backend} is not enabled on this node: start its worker with --enable-backend {backend}"
            ));
        };
        match declared.action(action) {
            Some(_) => Ok(implementation.as_ref()),
            None => {
                Err(format!("backend {backend} of this worker has no action {action}: is it older than the server?"))
            }
        }
    }
}

fn implementation(name: &str) -> Option<Box<dyn Backend>> {
    match name {
        "ping" => Some(Box::new(ping::Ping)),
        "test" => Some(Box::new(test::Test)),
        _ => None,
    }
}
