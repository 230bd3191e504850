//! Ways out of an allowed folder that must not exist.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Access, Paths, check_path};

struct Rig {
    dir: tempfile::TempDir,
}

impl Rig {
    /// `in/` is allowed, `out/` is not; both have a folder `sub` with a file `f`.
    fn new() -> Self {
        let rig = Self { dir: tempfile::tempdir().unwrap() };
        for side in ["in", "out"] {
            fs::create_dir_all(rig.path(side).join("sub")).unwrap();
            fs::write(rig.path(side).join("sub/f"), side).unwrap();
        }
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn paths(&self, entries: &[&str]) -> Paths {
        Paths::new(&entries.iter().map(|entry| format!("{}/{entry}", self.dir.path().display())).collect::<Vec<_>>())
            .unwrap()
    }
}

fn content(paths: &Paths, path: &str) -> Result<String, String> {
    let (mut file, _) = paths.place(path, Access::Read)?.file()?.ok_or("nothing there")?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

#[test]
fn entries_are_folders_from_the_root() {
    for good in ["/", "/srv", "/srv/", "/srv:ro", "/srv/app:rw", "/a:b", "/é"] {
        check_path(good).unwrap();
    }
    for bad in ["", "srv", "./srv", "/srv/..", "/srv/./x", "/srv//x", "../x", "*", ":ro", "/srv\n"] {
        assert!(check_path(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn only_what_is_below_an_allowed_folder_is_reached() {
    let rig = Rig::new();
    let paths = rig.paths(&["in:ro"]);
    assert_eq!(content(&paths, &rig.text("in/sub/f")).as_deref(), Ok("in"));
    for outside in [
        "out/sub/f",
        "inn/f",
        "in",
        "in/../out/sub/f",
        "in/sub/../../out/sub/f",
        "in/./sub/f",
        "in//sub/f",
        "in/sub/f/",
    ] {
        let refusal = content(&paths, &rig.text(outside)).unwrap_err();
        assert!(refusal.starts_with("refused by this worker: "), "{outside}: {refusal}");
    }
    for odd in ["", "in/sub/f", "/", "..", "~/f"] {
        assert!(content(&paths, odd).is_err(), "{odd:?}");
    }
    assert!(
        content(&Paths::new(&[]).unwrap(), "/etc/passwd").unwrap_err().ends_with("start it with --allow-path /etc:ro")
    );
}

#[test]
fn the_longest_rule_decides_what_may_be_done() {
    let rig = Rig::new();
    let paths = rig.paths(&["in:ro", "in/sub", "in/sub/keys:ro"]);
    let may = |path: &str, access| paths.place(&rig.text(path), access).map(drop);
    may("in/x", Access::Read).unwrap();
    assert!(may("in/x", Access::Write).unwrap_err().contains(":rw"), "the setting is named");
    may("in/sub/x", Access::Write).unwrap();
    assert!(may("in/sub/keys/x", Access::Write).is_err());
}

#[test]
fn no_link_below_an_allowed_folder_is_followed() {
    let rig = Rig::new();
    let paths = rig.paths(&["in"]);
    symlink(rig.path("out/sub"), rig.path("in/folder")).unwrap();
    symlink("../out/sub", rig.path("in/relative")).unwrap();
    symlink(rig.path("out/sub/f"), rig.path("in/file")).unwrap();
    symlink("sub", rig.path("in/within")).unwrap();
    symlink("/proc/self/root", rig.path("in/magic")).unwrap();
    for link in ["in/folder/f", "in/relative/f", "in/file", "in/within/f", "in/magic/etc/passwd"] {
        let refusal = content(&paths, &rig.text(link)).unwrap_err();
        assert!(refusal.starts_with("refused by this worker: ") && refusal.contains("link"), "{link}: {refusal}");
    }
    symlink(rig.path("in"), rig.path("alias")).unwrap();
    let operators = rig.paths(&["alias:ro"]);
    assert_eq!(
        content(&operators, &rig.text("alias/sub/f")).as_deref(),
        Ok("in"),
        "a link that the operator named is meant"
    );
}

#[test]
fn special_files_are_refused_without_being_opened() {
    let rig = Rig::new();
    rustix::fs::mknodat(rustix::fs::CWD, rig.path("in/pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let refusal = content(&rig.paths(&["in"]), &rig.text("in/pipe")).unwrap_err();
    assert!(refusal.ends_with("is a pipe, not a regular file"), "and it does not hang: {refusal}");
    let refusal = content(&Paths::new(&["/dev".to_owned()]).unwrap(), "/dev/zero").unwrap_err();
    assert!(refusal.ends_with("is a device, not a regular file"), "{refusal}");
}

/// Exchanges the names `one` and `other` until `done`.
fn swap(one: &Path, other: &Path, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, exchange).unwrap();
    }
}

#[test]
fn a_link_that_is_swapped_in_during_the_call_leads_nowhere() {
    for (inside, link, to, asked) in
        [("in/sub", "in/link", "out/sub", "in/sub/f"), ("in/sub/f", "in/sub/link", "out/sub/f", "in/sub/f")]
    {
        let rig = Rig::new();
        symlink(rig.path(to), rig.path(link)).unwrap();
        let (paths, done) = (rig.paths(&["in"]), AtomicBool::new(false));
        let (mut inside_seen, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| swap(&rig.path(inside), &rig.path(link), &done));
            for _ in 0..2_000_000 {
                match content(&paths, &rig.text(asked)) {
                    Ok(text) => {
                        assert_eq!(text, "in", "{asked}");
                        inside_seen += 1;
                    }
                    Err(_) => refused += 1,
                }
                if inside_seen > 500 && refused > 500 {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(inside_seen > 0 && refused > 0, "both were seen: {inside_seen} {refused}");
    }
}

#[test]
fn the_data_folder_of_the_worker_is_never_reached() {
    let rig = Rig::new();
    let paths = rig.paths(&["in"]);
    assert_eq!(content(&paths, &rig.text("in/sub/f")).unwrap(), "in");
    let refusal = content(&paths.without(&rig.path("in/sub")), &rig.text("in/sub/f")).unwrap_err();
    assert!(refusal.contains("is the data folder of this worker"), "{refusal}");
    symlink(rig.path("in/sub"), rig.path("alias")).unwrap();
    for rule in ["in/sub", "alias"] {
        let refusal =
            content(&rig.paths(&[rule]).without(&rig.path("in")), &rig.text(&format!("{rule}/f"))).unwrap_err();
        assert!(refusal.contains("is in the data folder of this worker"), "a folder in it, {rule}: {refusal}");
    }
    assert_eq!(content(&rig.paths(&["in"]).without(&rig.path("out")), &rig.text("in/sub/f")).unwrap(), "in");
}

#[test]
fn the_folder_that_is_missing_is_named() {
    let rig = Rig::new();
    let paths = rig.paths(&["in", "nowhere"]);
    for (path, missing) in [("in/no/f", "in/no"), ("in/no/such/f", "in/no"), ("nowhere/f", "nowhere")] {
        let problem = paths.place(&rig.text(path), Access::Write).unwrap_err();
        assert!(problem.ends_with(&format!("there is no folder {} on this node", rig.text(missing))), "{problem}");
        assert_eq!(paths.exists(&rig.text(path)), Ok(false));
    }
}
