//! `apt` for real: a small package is installed and removed on this machine, by three workers at once.
//!
//! Skipped, with the reason, unless this runs as root on a machine with apt-get, reachable lists, and without the package. Only
//! one such test runs at a time on a machine: there is one package database.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use grid_testkit::{Dev, Gridc, Job};

const PACKAGE: &str = "hello";
const PROGRAM: &str = "/usr/bin/hello";

fn left_out() -> Option<&'static str> {
    let uid = Command::new("id").arg("-u").output().map(|out| out.stdout).unwrap_or_default();
    if uid != b"0\n" {
        return Some("not root");
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        return Some("no apt-get");
    }
    if Path::new(PROGRAM).exists() {
        return Some("the package is already installed, and may be needed");
    }
    let mut update = Command::new("apt-get");
    let update =
        update.args(["-qq", "-o", "Acquire::Retries=0", "-o", "APT::Update::Error-Mode=any", "update"]).output();
    (!update.is_ok_and(|out| out.status.success())).then_some("the lists of packages cannot be fetched")
}

#[test]
fn a_small_real_package_is_installed_and_removed() {
    let lock = File::create(std::env::temp_dir().join("grid-test-apt.lock")).expect("a lock file");
    lock.lock().expect("a lock");
    if let Some(why) = left_out() {
        println!("left out: {why}");
        return;
    }
    let dev = Dev::start(3);
    let gridc = Gridc::new(dev.url());
    let apt = |words: &str, code: i32| {
        let line = format!("job run --target all apt {words} --wait -o json");
        Job(gridc.run(&line.split(' ').collect::<Vec<_>>()).exits(code).json())
    };
    // All three want the same locks; each gets its turn.
    assert_eq!(apt("update", 0).count("success"), 3);
    let installed = apt(&format!("install --package {PACKAGE}"), 0);
    assert_eq!(installed.count("success"), 3, "{installed}");
    assert!(Path::new(PROGRAM).exists());
    let removed = apt(&format!("remove --package {PACKAGE}"), 0);
    assert_eq!(removed.count("success"), 3, "removed once, and there was nothing left to do: {removed}");
    assert!(!Path::new(PROGRAM).exists());

    let failed = apt("install --package grid-no-such.package", 1);
    let error = failed.expected().iter().map(|node| failed.error(0, node)).find(|error| !error.is_empty());
    let want = "apt-get install: exit 100: E: Unable to locate package grid-no-such.package";
    assert!(error.is_some_and(|error| error.starts_with(want)), "{failed}");
}
