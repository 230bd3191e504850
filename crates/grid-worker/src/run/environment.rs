//! Sets the environment of the programs that leases run: a short list instead of whatever the worker was started with.
//!
//! ```text
//!   PATH, LANG, LC_ALL (fixed), HOME (the lease's own folder)  <  --pass-env  <  what the action declares  <  GRID_*
//! ```
//!
//! A worker that was started from a login shell has tokens, agents' sockets and configuration of the user who typed the command. None
//! of it is meant for a task, and some of it changes what a program does (`LD_PRELOAD`, `CURL_HOME`, `PAGER`). What is
//! meant, a proxy for instance, is passed on by name.
//! HOME is not the user's: configuration that lies there (`.curlrc`, `.netrc`, `.gitconfig`) is that of a user.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::allow::check_name;
use crate::machine::locate;
use crate::seams::Variable;

/// Of Debian's root, without what a user may write.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LOCALE: &str = "C.UTF-8";
const MAX_PASSED: usize = 64;

/// What every program of this worker gets.
#[derive(Debug, Clone)]
pub struct Environment {
    path: OsString,
    passed: Vec<Variable>,
}

impl Environment {
    /// Passes on the named variables of this process, where it has them.
    ///
    /// # Errors
    /// A name that is none, or one of those that Grid sets itself.
    pub fn new(pass: &[String]) -> Result<Self, String> {
        Self::of(pass, |name| std::env::var_os(name))
    }

    fn of(pass: &[String], value: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        if pass.len() > MAX_PASSED {
            return Err(format!("at most {MAX_PASSED} variables are passed on to tasks"));
        }
        for name in pass {
            check_name(name)?;
        }
        let passed: Vec<Variable> = pass.iter().filter_map(|name| Some((name.into(), value(name)?))).collect();
        let path =
            passed.iter().rfind(|(name, _)| name == "PATH").map_or_else(|| PATH.into(), |(_, path)| path.clone());
        Ok(Self { path, passed })
    }

    /// Where programs are looked for.
    #[must_use]
    pub fn path(&self) -> &OsStr {
        &self.path
    }

    /// `program` in the folders of `PATH`, then in `further` ones.
    #[must_use]
    pub fn locate(&self, program: &str, further: &[&str]) -> Option<PathBuf> {
        locate(program, &self.path, further)
    }

    /// For a program that works in `home`; what is added later overrides it.
    #[must_use]
    pub fn variables(&self, home: &Path) -> Vec<Variable> {
        let fixed = [
            ("PATH", self.path.as_os_str()),
            ("LANG", LOCALE.as_ref()),
            ("LC_ALL", LOCALE.as_ref()),
            ("HOME", home.as_os_str()),
        ];
        let fixed = fixed.map(|(name, value)| (name.into(), value.to_owned()));
        fixed.into_iter().chain(self.passed.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Environment;

    #[test]
    fn issue14_8_only_what_is_named_is_passed_on() {
        let names = ["http_proxy", "missing", "LANG"].map(str::to_owned);
        let own = |name: &str| (name != "missing").then(|| format!("own {name}").into());
        let environment = Environment::of(&names, own).unwrap();
        let all: Vec<String> = environment
            .variables(Path::new("/w"))
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        let want = [
            &format!("PATH={}", super::PATH),
            "LANG=C.UTF-8",
            "LC_ALL=C.UTF-8",
            "HOME=/w",
            "http_proxy=own http_proxy",
            "LANG=own LANG",
        ];
        assert_eq!(all, want);
        let other = Environment::of(&["PATH".to_owned()], |_| Some("/stubs".into())).unwrap();
        assert_eq!(other.path(), "/stubs");
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for bad in ["", "1A", "A=B", "A B", "GRID_LEASE", "GRID_TOKEN"] {
            assert!(Environment::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
