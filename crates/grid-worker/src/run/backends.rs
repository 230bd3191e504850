//! Runs what a lease can do on this node, one file per backend. What the actions take is declared in `grid_types::decl`.
//!
//! A node runs what its operator allowed: the backends that are on by default and whose programs are installed, and those
//! enabled by name, without those disabled by name.
//! What a lease carries is checked against the declaration again before anything runs: a worker acts as root on what
//! somebody sent it.

mod apt;
mod base64;
mod command;
mod dial;
mod diff;
mod file;
mod http;
mod invocation;
mod params;
mod ping;
mod rke2;
mod script;
mod systemd;
mod test;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use grid_proto::v1;
use grid_types::decl::{self, ActionDecl, BackendDecl, Params};

use crate::allow::{Allow, Hosts, Paths};
use crate::run::environment::Environment;
use crate::run::lease::LeaseContext;

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

/// An action that this worker runs.
pub struct Found<'a> {
    declared: &'static ActionDecl,
    pub backend: &'a dyn Backend,
}

impl Found<'_> {
    /// The parameters of an offer, if they are what the action takes.
    ///
    /// # Errors
    /// Every parameter that is not.
    pub fn admitted(&self, offer: &v1::Offer) -> Result<Params, String> {
        let params = offer.checked_params().map_err(|bad| bad.to_string())?;
        let refused = |faults| format!("refused by this worker: {faults}");
        self.declared.admit(&params).map_err(refused)?;
        Ok(params)
    }
}

impl Backends {
    /// `folder` is where backends may keep files of their own.
    ///
    /// # Errors
    /// There is no backend of that name, or it is both enabled and disabled.
    pub fn new(
        enable: &[String],
        disable: &[String],
        folder: &Path,
        environment: &Environment,
        allow: &Allow,
    ) -> Result<Self, String> {
        allow.check()?;
        let asked = |names: &[String], backend: &BackendDecl| names.iter().any(|name| name == backend.name);
        for name in enable.iter().chain(disable) {
            let Some(backend) = decl::backend(name) else {
                let known: Vec<_> = decl::builtin().iter().map(|backend| backend.name).collect();
                return Err(format!("there is no backend {name:?}; there are {}", known.join(", ")));
            };
            if asked(enable, backend) && asked(disable, backend) {
                return Err(format!("backend {name} is both enabled and disabled: leave out one of the two"));
            }
        }
        let wanted = decl::builtin().iter().filter(|backend| {
            asked(enable, backend)
                || (backend.on_by_default && !asked(disable, backend) && can_run(backend, environment))
        });
        let enabled = wanted.filter_map(|backend| {
            Some((backend.name, (backend, implementation(backend.name, folder, environment, allow)?)))
        });
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

    pub fn find(&self, backend: &str, action: &str) -> Result<Found<'_>, String> {
        let Some((declared, implementation)) = self.enabled.get(backend) else {
            return Err(format!(
                "backend {backend} is not enabled on this node: start its worker with {}",
                decl::backend(backend).map_or_else(|| format!("--enable-backend {backend}"), BackendDecl::enabled_by)
            ));
        };
        match declared.action(action) {
            Some(declared) => Ok(Found { declared, backend: implementation.as_ref() }),
            None => {
                Err(format!("backend {backend} of this worker has no action {action}: is it older than the server?"))
            }
        }
    }
}

fn can_run(backend: &BackendDecl, environment: &Environment) -> bool {
    let missing: Vec<_> = backend.needs.iter().filter(|program| environment.locate(program, &[]).is_none()).collect();
    if !missing.is_empty() {
        tracing::info!(backend = backend.name, ?missing, "not offered: its programs are not on this machine");
    }
    missing.is_empty()
}

fn implementation(name: &str, folder: &Path, environment: &Environment, allow: &Allow) -> Option<Box<dyn Backend>> {
    // The lists were checked.
    let paths = || Some(Paths::new(&allow.paths).ok()?.without(folder));
    match name {
        "ping" => Some(Box::new(ping::Ping)),
        "apt" => Some(Box::new(apt::Apt)),
        "systemd" => Some(Box::new(systemd::Systemd)),
        "rke2" => Some(Box::new(rke2::Rke2::new(folder))),
        "command" => Some(Box::new(command::Command::new(allow, environment))),
        "script" => Some(Box::new(script::Script::new(allow, environment))),
        "file" => Some(Box::new(file::Files::new(paths()?))),
        "http" => Some(Box::new(http::Http::new(Hosts::new(&allow.hosts)))),
        "wait" => Some(Box::new(wait::Wait::new(Hosts::new(&allow.hosts), paths()?))),
        "test" => Some(Box::new(test::Test)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Backends;
    use crate::allow::Allow;
    use crate::run::environment::Environment;
    use grid_types::decl;

    fn offered(enable: &[&str], disable: &[&str]) -> Result<Vec<String>, String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let backends = Backends::new(
            &owned(enable),
            &owned(disable),
            Path::new("/nowhere"),
            &Environment::new(&[])?,
            &Allow::default(),
        )?;
        Ok(backends.facts().into_keys().collect())
    }

    #[test]
    fn every_declared_backend_can_be_enabled_by_name() {
        let all: Vec<_> = decl::builtin().iter().map(|backend| backend.name).collect();
        let mut offered = offered(&all, &[]).unwrap();
        offered.sort_by_key(|name| all.iter().position(|known| known == name));
        assert_eq!(offered, all);
    }

    #[test]
    fn what_is_disabled_is_not_offered() {
        let offered = offered(&[], &["apt", "ping"]).unwrap();
        assert!(!offered.iter().any(|name| ["apt", "ping", "test"].contains(&name.as_str())), "{offered:?}");
    }

    #[test]
    fn names_that_make_no_sense_are_refused() {
        let problem = |enable: &[&str], disable: &[&str]| offered(enable, disable).unwrap_err();
        assert!(problem(&["yum"], &[]).starts_with("there is no backend \"yum\"; there are ping, apt, "));
        assert!(problem(&[], &["yum"]).contains("\"yum\""));
        assert!(problem(&["apt"], &["apt"]).contains("both enabled and disabled"));
    }
}
