//! What becomes of files, also when somebody else works on them at the same time.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use grid_types::decl::{self, Params};
use grid_types::fault::Faults;
use serde_json::{Value, json};

use super::put::Put;
use super::{delete, fetch, stat};
use crate::allow::{Access, Paths};
use crate::run::lease::EffectGate;

struct Rig {
    dir: tempfile::TempDir,
    paths: Paths,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(&[dir.path().to_str().unwrap().to_owned()]).unwrap();
        Self { dir, paths }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Whether it changed anything, and what it said.
    fn put(&self, name: &str, given: &Value) -> Result<(bool, String), String> {
        let params = checked("put", &self.text(name), given)?;
        let done = Put::read(&params, 1_790_000_000_000)?
            .run(&self.paths.place(&self.text(name), Access::Write)?, &EffectGate::default())?;
        Ok((done.changed, done.said))
    }

    fn delete(&self, name: &str) -> Result<bool, String> {
        delete(&self.paths.place(&self.text(name), Access::Write)?, &EffectGate::default())
    }

    fn fetch(&self, name: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        fetch(&self.paths.place(&self.text(name), Access::Read)?, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn checked(action: &str, path: &str, given: &Value) -> Result<Params, String> {
    let mut given = given.as_object().unwrap().clone();
    given.insert("path".to_owned(), json!(path));
    let mut faults = Faults::default();
    let params = decl::backend("file").unwrap().action(action).unwrap().check(&given, "params", &mut faults);
    faults.finish(params).map_err(|faults| faults.to_string())
}

#[test]
fn a_file_is_written_only_where_it_differs() {
    let rig = Rig::new();
    let (changed, said) = rig.put("f", &json!({"content": "a\nb\n"})).unwrap();
    assert_eq!((changed, said), (true, format!("{}: created\n", rig.text("f"))));
    let made = rig.path("f").metadata().unwrap();
    assert_eq!(made.mode() & 0o7777, 0o644);
    let (changed, said) = rig.put("f", &json!({"content": "a\nb\n"})).unwrap();
    assert_eq!((changed, said), (false, format!("{}: unchanged\n", rig.text("f"))));
    assert_eq!(rig.path("f").metadata().unwrap().ino(), made.ino(), "not even touched");

    let (changed, said) = rig.put("f", &json!({"content": "a\nc\n", "mode": "600"})).unwrap();
    let path = rig.text("f");
    assert_eq!((changed, said), (true, format!("--- {path}\n+++ {path}\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")));
    assert_eq!(fs::read_to_string(rig.path("f")).unwrap(), "a\nc\n");
    let (changed, _) = rig.put("f", &json!({"content": "a\nd\n", "diff": false})).unwrap();
    assert_eq!((changed, rig.path("f").metadata().unwrap().mode() & 0o7777), (true, 0o600), "the mode stays");
    let (changed, said) = rig.put("f", &json!({"content": "a\nd\n", "mode": "0644"})).unwrap();
    assert_eq!((changed, said), (true, format!("{path}: owner or mode changed\n")));
    assert_eq!(rig.names(), ["f"], "nothing is left beside it");
}

#[test]
fn w9_a_call_whose_lease_is_over_changes_nothing() {
    let (rig, gate) = (Rig::new(), EffectGate::closed());
    fs::write(rig.path("f"), "old").unwrap();
    for given in [json!({"content": "new"}), json!({"content": "new", "backup": true})] {
        for name in ["f", "other"] {
            let params = checked("put", &rig.text(name), &given).unwrap();
            let put = Put::read(&params, 1_790_000_000_000).unwrap();
            assert!(put.run(&rig.paths.place(&rig.text(name), Access::Write).unwrap(), &gate).is_err());
        }
    }
    assert!(delete(&rig.paths.place(&rig.text("f"), Access::Write).unwrap(), &gate).is_err());
    assert_eq!((fs::read_to_string(rig.path("f")).unwrap().as_str(), rig.names()), ("old", vec!["f".to_owned()]));
}

#[test]
fn bytes_backups_and_owners() {
    let rig = Rig::new();
    rig.put("f", &json!({"base64": "AP/+"})).unwrap();
    assert_eq!(fs::read(rig.path("f")).unwrap(), [0, 255, 254]);
    let (_, said) = rig.put("f", &json!({"content": "new", "backup": true})).unwrap();
    assert_eq!(said, format!("{0}: replaced\nbackup: {0}.1790000000.bak\n", rig.text("f")));
    assert_eq!(fs::read(rig.path("f.1790000000.bak")).unwrap(), [0, 255, 254]);
    rig.put("f", &json!({"content": "newer", "backup": "true"})).unwrap();
    assert_eq!(fs::read(rig.path("f.1790000000-1.bak")).unwrap(), b"new", "an earlier backup is never replaced");
    let own = rig.path("f").metadata().unwrap();
    let (changed, _) =
        rig.put("f", &json!({"content": "newer", "owner": own.uid(), "group": own.gid().to_string()})).unwrap();
    assert!(!changed);
    let problem = rig.put("f", &json!({"content": "x", "owner": "grid-no-such-user"})).unwrap_err();
    assert_eq!(problem, "there is no user grid-no-such-user on this node");
    assert_eq!(fs::read(rig.path("f")).unwrap(), b"newer");
    for bad in [
        json!({}),
        json!({"content": "a", "base64": "YQ=="}),
        json!({"base64": "!"}),
        json!({"content": "a", "mode": "4755"}),
    ] {
        assert!(rig.put("f", &bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_not_a_file_is_never_replaced_read_or_followed() {
    let rig = Rig::new();
    fs::create_dir(rig.path("folder")).unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "outside").unwrap();
    symlink(outside.path(), rig.path("link")).unwrap();
    for name in ["folder", "link"] {
        assert!(rig.put(name, &json!({"content": "x"})).unwrap_err().starts_with("refused by this worker: "), "{name}");
        assert!(rig.fetch(name).is_err(), "{name}");
    }
    assert!(rig.delete("folder").is_err());
    let removed = rig.delete("link");
    assert_eq!(
        (removed, fs::read_to_string(outside.path()).unwrap().as_str()),
        (Ok(true), "outside"),
        "the link itself"
    );
    assert_eq!(rig.delete("link"), Ok(false));
    assert!(rig.put("no/such/folder", &json!({"content": "x"})).is_err());
    assert_eq!(rig.names(), ["folder"]);
}

#[test]
fn a_look_says_what_is_there_in_one_line() {
    let rig = Rig::new();
    let look = |name: &str| -> Value {
        let said = stat(&rig.paths.place(&rig.text(name), Access::Read).unwrap()).unwrap();
        assert_eq!(said.lines().count(), 1);
        serde_json::from_str(&said).unwrap()
    };
    assert_eq!(look("f"), json!({"path": rig.text("f"), "exists": false}));
    fs::write(rig.path("f"), "four").unwrap();
    fs::set_permissions(rig.path("f"), fs::Permissions::from_mode(0o640)).unwrap();
    let seen = look("f");
    assert_eq!((&seen["kind"], &seen["size"], &seen["mode"]), (&json!("file"), &json!(4), &json!("0640")));
    symlink("f", rig.path("l")).unwrap();
    assert_eq!(look("l")["kind"], "link");
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_file_of_a_gigabyte_is_refused_in_bounded_memory_and_replaced_without_being_read() {
    let rig = Rig::new();
    let file = fs::File::create(rig.path("big")).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_at(b"x", (1 << 30) - 1).unwrap();
    let before = resident_kib();
    let problem = rig.fetch("big").unwrap_err();
    assert!(problem.contains("has 1073741824 bytes; at most 67108864 can be fetched"), "{problem}");
    let (changed, said) = rig.put("big", &json!({"content": "small", "backup": true})).unwrap();
    assert!(changed && said.contains(": replaced\n"), "{said}");
    assert_eq!(fs::read(rig.path("big")).unwrap(), b"small");
    let grown = resident_kib() - before;
    assert!(grown < 512 * 1024, "{grown} KiB, with other tests beside this one");
}

#[test]
fn every_byte_up_to_the_limit_is_fetched() {
    let rig = Rig::new();
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(rig.path("f"), &bytes).unwrap();
    assert_eq!(rig.fetch("f").unwrap(), bytes);
    assert!(rig.fetch("none").unwrap_err().ends_with("there is no such file"));
}

#[test]
fn two_writers_leave_one_of_the_two_contents_whole() {
    let rig = Rig::new();
    let contents = ["a".repeat(60_000), "b".repeat(50_000)];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for content in &contents {
            let (rig, done) = (&rig, &done);
            scope.spawn(move || {
                for _ in 0..60 {
                    rig.put("f", &json!({"content": content, "diff": false})).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        let mut read = 0;
        while !done.load(Ordering::Relaxed) || read == 0 {
            if let Ok(bytes) = fs::read_to_string(rig.path("f")) {
                assert!(contents.contains(&bytes), "{} bytes", bytes.len());
                read += 1;
            }
        }
    });
    assert!(contents.contains(&fs::read_to_string(rig.path("f")).unwrap()));
    assert_eq!(rig.names(), ["f"]);
}

#[test]
fn a_folder_swapped_for_a_link_during_a_put_leads_nowhere() {
    let (rig, outside) = (Rig::new(), tempfile::tempdir().unwrap());
    fs::create_dir(rig.path("sub")).unwrap();
    symlink(outside.path(), rig.path("link")).unwrap();
    let done = AtomicBool::new(false);
    let (mut written, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let (one, other) = (rig.path("sub"), rig.path("link"));
                rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, exchange).unwrap();
            }
        });
        for number in 0..100_000 {
            match rig.put("sub/f", &json!({"content": number.to_string(), "diff": false})) {
                Ok(_) => written += 1,
                Err(_) => refused += 1,
            }
            if written > 100 && refused > 100 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(written > 0 && refused > 0, "both were seen: {written} {refused}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "nothing ever left the allowed folder");
}
