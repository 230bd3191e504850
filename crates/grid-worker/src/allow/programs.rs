//! Checks which program a caller may run, and finds the file to run.
//!
//! ```text
//!   asked: a name or a path --search path--> a file --same file and same name--> an entry of the list --> the entry's own path is run
//! ```
//!
//! The path that a caller names is only looked at. What is executed is always the path of the operator's entry, so a link that is
//! swapped between the look and the start changes nothing: it was never going to be followed again.
//! "Same file" is device and inode after all links, so a link, a `..` or another spelling of a path neither helps nor hurts.
//! "Same name" is for programs that do what they are called (busybox): where `ls` and `sh` are one file, `ls` is not `sh`.
//! With `*` there is nothing to pass, and what the caller names is run.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ALL;
use crate::machine::locate;

/// A list of programs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The option that fills the list.
    setting: &'static str,
    entries: Vec<String>,
    /// Where names are looked up.
    search: OsString,
}

impl Programs {
    #[must_use]
    pub fn new(setting: &'static str, entries: &[String], search: &std::ffi::OsStr) -> Self {
        Self { setting, entries: entries.to_vec(), search: search.to_owned() }
    }

    #[must_use]
    pub fn allows_all(&self) -> bool {
        self.entries.iter().any(|entry| entry == ALL)
    }

    /// The file to run for `asked`. May block: it looks at files.
    ///
    /// # Errors
    /// There is no such program, or it is not allowed, and then which setting would allow it.
    pub fn resolve(&self, asked: &str) -> Result<PathBuf, String> {
        if !is_name(asked) && !is_path(asked) {
            return Err(format!(
                "refused by this worker: {asked:?} is neither a path from / nor the name of a program"
            ));
        }
        let file = self.locate(asked).ok_or_else(|| self.not_found(asked))?;
        if self.allows_all() {
            return Ok(file);
        }
        let found = regular(&file).ok_or_else(|| self.not_found(asked))?;
        let allowed = self.entries.iter().filter_map(|entry| self.locate(entry)).find(|path| {
            path.file_name() == file.file_name() && regular(path).is_some_and(|other| is_same(&found, &other))
        });
        allowed.ok_or_else(|| self.refusal(asked, &file))
    }

    fn locate(&self, program: &str) -> Option<PathBuf> {
        if program.starts_with('/') { Some(PathBuf::from(program)) } else { locate(program, &self.search, &[]) }
    }

    fn not_found(&self, asked: &str) -> String {
        if asked.starts_with('/') {
            return format!("there is no program {asked} on this node");
        }
        format!("there is no program {asked} on this node: it is in none of {}", self.search.display())
    }

    fn refusal(&self, asked: &str, file: &Path) -> String {
        let setting = self.setting;
        let found = if asked.starts_with('/') { String::new() } else { format!(" (found as {})", file.display()) };
        format!(
            "refused by this worker: {asked}{found} is not on its list of allowed programs: start it with {setting} {asked}, or {setting} '*' to allow every program"
        )
    }
}

/// A bare name: it is looked up, never taken as a path.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 255
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '[')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.+@:-[".contains(c))
}

pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.len() < 4_096 && !text.ends_with('/') && !text.contains(char::is_control)
}

fn regular(path: &Path) -> Option<Metadata> {
    path.metadata().ok().filter(Metadata::is_file)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::Programs;

    struct Rig {
        dir: tempfile::TempDir,
    }

    impl Rig {
        /// `bin/` is the search path, with the programs `good` and `evil` and a multi-call binary as `box`, `ls` and `sh`.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let rig = Self { dir };
            for folder in ["bin", "other"] {
                fs::create_dir(rig.path(folder)).unwrap();
            }
            for name in ["bin/good", "bin/evil", "bin/box"] {
                fs::write(rig.path(name), name).unwrap();
                fs::set_permissions(rig.path(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
            for name in ["bin/ls", "bin/sh"] {
                symlink("box", rig.path(name)).unwrap();
            }
            rig
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn text(&self, name: &str) -> String {
            self.path(name).to_str().unwrap().to_owned()
        }

        fn list(&self, entries: &[&str]) -> Programs {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            Programs::new("--allow-command", &entries, self.path("bin").as_os_str())
        }
    }

    #[test]
    fn what_is_listed_runs_by_name_and_by_path() {
        let rig = Rig::new();
        let good = rig.path("bin/good");
        for entry in ["good", &rig.text("bin/good")] {
            for asked in ["good", &rig.text("bin/good"), &rig.text("other/../bin/./good")] {
                assert_eq!(rig.list(&[entry]).resolve(asked), Ok(good.clone()), "{entry} {asked}");
            }
        }
    }

    #[test]
    fn what_is_not_listed_is_refused_and_the_setting_is_named() {
        let rig = Rig::new();
        let refusal = rig.list(&["good"]).resolve("evil").unwrap_err();
        assert!(
            refusal.starts_with("refused by this worker: evil (found as ") && refusal.contains("--allow-command evil"),
            "{refusal}"
        );
        assert!(rig.list(&[]).resolve("good").unwrap_err().contains("--allow-command good"));
        assert!(rig.list(&["*"]).resolve("evil").is_ok());
        assert!(rig.list(&["nope"]).resolve("nope").unwrap_err().starts_with("there is no program nope"));
        assert!(rig.list(&["good"]).resolve("/no/good").is_err());
        for odd in [
            "",
            ".",
            "..",
            "./good",
            "bin/good",
            "../bin/good",
            "-good",
            "go od",
            "good\n",
            "g\u{43e}\u{43e}d",
            "~/good",
            "$PATH",
            "/bin/",
        ] {
            assert!(rig.list(&["*"]).resolve(odd).unwrap_err().contains("neither a path"), "{odd:?}");
        }
    }

    #[test]
    fn a_link_passes_only_to_the_file_that_is_allowed_under_its_name() {
        let rig = Rig::new();
        let list = rig.list(&["good", "ls"]);
        symlink(rig.path("bin/good"), rig.path("other/good")).unwrap();
        assert_eq!(list.resolve(&rig.text("other/good")), Ok(rig.path("bin/good")), "run by the operator's path");
        symlink(rig.path("bin/evil"), rig.path("other/x")).unwrap();
        assert!(list.resolve(&rig.text("other/x")).is_err());
        fs::remove_file(rig.path("other/good")).unwrap();
        symlink(rig.path("bin/evil"), rig.path("other/good")).unwrap();
        assert!(list.resolve(&rig.text("other/good")).is_err(), "the right name on another file");
        fs::write(rig.path("other/ls"), "copy").unwrap();
        fs::set_permissions(rig.path("other/ls"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(list.resolve(&rig.text("other/ls")).is_err(), "a file of one's own under the right name");
    }

    #[test]
    fn a_program_that_does_what_it_is_called_is_allowed_by_name_only() {
        let rig = Rig::new();
        let list = rig.list(&["ls"]);
        assert_eq!(list.resolve("ls"), Ok(rig.path("bin/ls")), "argv[0] stays ls");
        assert!(list.resolve("sh").is_err(), "the same file under another name");
        assert!(list.resolve("box").is_err());
        symlink(rig.path("bin/sh"), rig.path("other/ls")).unwrap();
        assert_eq!(
            list.resolve(&rig.text("other/ls")),
            Ok(rig.path("bin/ls")),
            "what runs is called ls by the operator's path"
        );
    }

    #[test]
    fn what_is_run_is_never_a_path_that_somebody_can_swap() {
        let rig = Rig::new();
        let (list, link) = (rig.list(&["good"]), rig.path("other/good"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let swap = |to: &Path| {
                    let next = rig.path("other/next");
                    symlink(to, &next).and_then(|()| fs::rename(&next, &link)).unwrap();
                };
                while !done.load(Ordering::Relaxed) {
                    swap(&rig.path("bin/good"));
                    swap(&rig.path("bin/evil"));
                }
            });
            let (mut passed, mut refused) = (0, 0);
            for _ in 0..2_000_000 {
                match list.resolve(link.to_str().unwrap()) {
                    Ok(path) => {
                        assert_eq!(path, rig.path("bin/good"));
                        passed += 1;
                    }
                    Err(_) => refused += 1,
                }
                if passed > 500 && refused > 500 {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
            assert!(passed > 0 && refused > 0, "both were seen: {passed} {refused}");
        });
    }
}
