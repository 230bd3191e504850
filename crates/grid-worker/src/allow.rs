//! Reads and checks the allow lists, with which the operator of a node limits what callers do. An empty list allows nothing.
//!
//! A list holds what the operator wrote. `*` allows everything; it is only a word of these lists and no pattern.
//! Not here: which backends are on (`run::backends`), how a program, a path or a host is matched (the modules below).

mod hosts;
mod paths;
mod programs;

use std::collections::BTreeMap;

pub use hosts::{Hosts, check_host};
pub use paths::{Access, Paths, Place, check_path, kind};
pub use programs::Programs;

/// Allows everything.
const ALL: &str = "*";
/// Entries of one list.
const MAX_ENTRIES: usize = 1_000;
/// The variables that say which lease a process belongs to.
const RESERVED: &str = "GRID_";

/// The lists as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// Programs of `command run`: paths from / or names.
    pub commands: Vec<String>,
    /// Programs that may read the text of `script run`.
    pub interpreters: Vec<String>,
    /// Folders of `file` and `wait file`, with `:ro` or `:rw`.
    pub paths: Vec<String>,
    /// Hosts of `http check` and `wait port`, with or without a port.
    pub hosts: Vec<String>,
    /// Variables that callers may set, by name; `APP_*` is every name that begins so.
    pub env: Vec<String>,
}

impl Allow {
    /// # Errors
    /// An entry that could never match, or would match something else than it says.
    pub fn check(&self) -> Result<(), String> {
        let lists = [&self.commands, &self.interpreters, &self.paths, &self.hosts, &self.env];
        if lists.iter().any(|list| list.len() > MAX_ENTRIES) {
            return Err(format!("an allow list has at most {MAX_ENTRIES} entries"));
        }
        self.commands.iter().chain(&self.interpreters).try_for_each(|entry| check_program(entry))?;
        self.paths.iter().try_for_each(|entry| check_path(entry))?;
        self.hosts.iter().try_for_each(|entry| check_host(entry))?;
        self.env.iter().try_for_each(|entry| check_variable(entry))
    }
}

/// Whether an entry of `--allow-command` can be one.
///
/// # Errors
/// Why not.
pub fn check_program(entry: &str) -> Result<(), String> {
    if entry == ALL || programs::is_name(entry) || programs::is_path(entry) {
        return Ok(());
    }
    Err(format!("{entry:?} is neither a path from /, nor the name of a program, nor {ALL}"))
}

/// Whether an entry of `--allow-env` can be one.
///
/// # Errors
/// Why not.
pub fn check_variable(entry: &str) -> Result<(), String> {
    match entry.strip_suffix('*') {
        Some("") => Ok(()),
        Some(prefix) => check_name(prefix),
        None => check_name(entry),
    }
}

/// Whether a variable of this name may be passed on.
///
/// # Errors
/// Why not.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_name = name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err("the name of a variable: letters, digits and _".to_owned());
    }
    if name.starts_with(RESERVED) {
        return Err(format!("{RESERVED}* variables are Grid's own and are not passed on"));
    }
    Ok(())
}

/// Which variables a caller may set.
#[derive(Debug, Clone)]
pub struct Variables {
    allowed: Vec<String>,
}

impl Variables {
    /// A caller who may run every program can set every variable anyway, with `env`.
    #[must_use]
    pub fn new(allowed: &[String], programs: &Programs) -> Self {
        let allowed = if programs.allows_all() { vec![ALL.to_owned()] } else { allowed.to_vec() };
        Self { allowed }
    }

    /// # Errors
    /// The first variable that is not allowed, and what would allow it.
    pub fn check(&self, given: &BTreeMap<String, String>) -> Result<(), String> {
        for name in given.keys() {
            check_name(name).map_err(|problem| format!("refused by this worker: env {name:?}: {problem}"))?;
            if !self.allowed.iter().any(|entry| matches(entry, name)) {
                return Err(format!(
                    "refused by this worker: it does not let callers set the variable {name}: start it with --allow-env {name}"
                ));
            }
        }
        Ok(())
    }
}

fn matches(entry: &str, name: &str) -> bool {
    entry.strip_suffix('*').map_or(entry == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{Allow, Programs, Variables};

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn entries_that_could_not_match_what_they_say_are_refused() {
        let commands = |words: &[&str]| Allow { commands: owned(words), ..Allow::default() }.check();
        commands(&["*", "uname", "/usr/bin/uname", "g++", "[", "python3.11"]).unwrap();
        for bad in
            ["", "bin/uname", "./uname", "../uname", ".", "..", "-x", "una me", "un*", "/bin/", "/", "un\nx", "ůname"]
        {
            assert!(commands(&[bad]).is_err(), "{bad:?}");
        }
        let env = |words: &[&str]| Allow { env: owned(words), ..Allow::default() }.check();
        env(&["*", "APP_*", "LD_PRELOAD", "_x"]).unwrap();
        for bad in ["", "A=B", "1A", "A*B", "GRID_LEASE", "GRID_*", "A-B"] {
            assert!(env(&[bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_variables_that_are_allowed_by_name_pass() {
        let check = |allowed: &[&str], programs: &[&str], name: &str| {
            let programs = Programs::new("--allow-command", &owned(programs), "/bin".as_ref());
            Variables::new(&owned(allowed), &programs).check(&[(name.to_owned(), String::new())].into())
        };
        for bad in ["LD_PRELOAD", "PATH", "BASH_ENV", "GIT_SSH_COMMAND", "app_X", "APP", "XAPP_Y", "ＡＰＰ_X"] {
            let refusal = check(&["APP_*", "FOO"], &["uname"], bad).unwrap_err();
            assert!(refusal.starts_with("refused by this worker: "), "{refusal}");
        }
        let refusal = check(&[], &["uname"], "LD_PRELOAD").unwrap_err();
        assert!(refusal.ends_with("the variable LD_PRELOAD: start it with --allow-env LD_PRELOAD"), "{refusal}");
        check(&["APP_*", "FOO"], &["uname"], "APP_X").unwrap();
        check(&["APP_*", "FOO"], &["uname"], "FOO").unwrap();
        check(&["*"], &["uname"], "LD_PRELOAD").unwrap();
        check(&[], &["*"], "LD_PRELOAD").unwrap();
        for reserved in ["GRID_LEASE", "GRID_NODE"] {
            assert!(check(&["*"], &["*"], reserved).is_err(), "{reserved}: Grid's own are not set by callers");
        }
    }
}
